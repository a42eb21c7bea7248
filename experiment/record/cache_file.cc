#include "experiment/record/cache_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace psgd {

std::string CacheFile(const std::string& name) {
  const char* const folder = std::getenv("XDG_CACHE_HOME");
  if (folder != nullptr && folder[0] == '/') return absl::StrCat(folder, "/psgd/", name);
  const char* const home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? absl::StrCat(home, "/.cache/psgd/", name) : "";
}

bool CanAppend(const std::string& file) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), failed);
  return std::ofstream(file, std::ios::app).good();
}

}  // namespace psgd
