#include "common/plugin.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/loaded_library.h"

namespace psgd {
namespace {

std::vector<std::filesystem::path> SearchPath(const std::string& plugin_dir) {
  if (!plugin_dir.empty()) return {plugin_dir};
  Dl_info info;
  link_map* own = nullptr;
  const bool found = ::dladdr1(reinterpret_cast<void*>(&PluginInterface), &info,
                               reinterpret_cast<void**>(&own), RTLD_DL_LINKMAP) != 0;
  if (found && own->l_name[0] != '\0') {  // the name of the program itself is empty
    const std::filesystem::path folder = std::filesystem::path(own->l_name).parent_path();
    return {folder, folder / "psgd"};
  }
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return {program.parent_path(), program.parent_path() / PSGD_PLUGIN_INSTALL_DIR};
}

}  // namespace

uint32_t PluginInterface() { return PSGD_BACKEND_INTERFACE; }

absl::Status PluginOfOtherBuild(const std::string& name) {
  return FailedPreconditionError("the plugin libpsgd_", name,
                                 ".so is of another build than this program");
}

absl::StatusOr<void*> FindInPlugin(const std::string& name, const std::string& plugin_dir,
                                   const char* function, const PluginAdvice& advice) {
  const std::string file = absl::StrCat("libpsgd_", name, ".so");
  std::string tried;
  for (const std::filesystem::path& folder : SearchPath(plugin_dir)) {
    const std::string path = (folder / file).lexically_normal().string();
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      absl::StrAppend(&tried, tried.empty() ? "" : ", ", path);
      continue;
    }
    PSGD_ASSIGN_OR_RETURN(LoadedLibrary library,
                          LoadedLibrary::Load(path, advice.if_it_does_not_load));
    void* symbol = nullptr;
    library.Find(function, &symbol);
    if (symbol != nullptr) return symbol;
    return PluginOfOtherBuild(name);
  }
  return NotFoundError("the plugin ", file, " is not installed (looked for ", tried, "); ",
                       advice.if_missing);
}

}  // namespace psgd
