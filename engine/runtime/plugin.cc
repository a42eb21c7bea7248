#include "engine/runtime/plugin.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/loaded_library.h"
#include "common/suggest.h"
#include "engine/reference/backend.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlugins[] = {"cudnn", "onednn"};

std::vector<fs::path> SearchPath(const std::string& plugin_dir) {
  if (!plugin_dir.empty()) return {plugin_dir};
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path folder = program.parent_path();
  return {folder, folder / PSGD_PLUGIN_INSTALL_DIR};
}

absl::Status OtherBuild(const std::string& name) {
  return absl::FailedPreconditionError(
      absl::StrCat("the plugin of the ", name, " backend is of another build than this program"));
}

}  // namespace

uint32_t PluginInterface() { return PSGD_BACKEND_INTERFACE; }

absl::StatusOr<void*> FindInPlugin(const std::string& name, const std::string& plugin_dir,
                                   const char* function) {
  const std::string file = absl::StrCat("libpsgd_", name, ".so");
  std::string tried;
  for (const fs::path& folder : SearchPath(plugin_dir)) {
    const std::string path = (folder / file).lexically_normal().string();
    std::error_code error;
    if (!fs::exists(path, error)) {
      absl::StrAppend(&tried, tried.empty() ? "" : ", ", path);
      continue;
    }
    PSGD_ASSIGN_OR_RETURN(
        LoadedLibrary library,
        LoadedLibrary::Load(
            path, name == "cudnn"
                      ? "`source activate` of the bundle lets it find CUDA's libraries in "
                        "CUDA_HOME, /usr/local/cuda or Python's nvidia wheels; else install what "
                        "it needs, or use the onednn or reference backend"
                      : "install what it needs, or use the reference backend"));
    void* symbol = nullptr;
    library.Find(function, &symbol);
    return symbol != nullptr ? absl::StatusOr<void*>(symbol) : OtherBuild(name);
  }
  return absl::NotFoundError(absl::StrCat(
      "the ", name, " backend is not installed (looked for ", tried, "); build it, ",
      name == "onednn"
          ? "or in place of this bundle make one with scripts/bundle.sh --with-onednn, "
          : "",
      "or use the reference backend"));
}

absl::StatusOr<std::unique_ptr<Backend>> LoadBackend(const std::string& name,
                                                     const std::string& plugin_dir,
                                                     const BackendOptions& options) {
  if (name == "reference") {
    if (options.precision == Precision::kFp32) return MakeReferenceBackend<float>(options);
    return absl::InvalidArgumentError("the reference backend computes in fp32 alone");
  }
  std::vector<std::string> known = {"reference"};
  for (const char* plugin : kPlugins) {
    known.push_back(plugin);
    if (name != plugin) continue;
    PSGD_ASSIGN_OR_RETURN(void* const found, FindInPlugin(name, plugin_dir, "psgd_make_backend"));
    const auto make = reinterpret_cast<MakeBackendFunction>(found);
    absl::StatusOr<std::unique_ptr<Backend>> backend;
    if (!make(PluginInterface(), options, &backend)) return OtherBuild(name);
    return backend;
  }
  return absl::InvalidArgumentError(absl::StrCat("no backend named \"", name, "\"",
                                                 Suggest(name, known),
                                                 " (there are: ", absl::StrJoin(known, ", "), ")"));
}

absl::Status CheckPrecision(const std::string& name, const std::string& plugin_dir,
                            Precision precision) {
  BackendOptions options;
  options.precision = precision;
  return LoadBackend(name, plugin_dir, options).status();
}

}  // namespace psgd
