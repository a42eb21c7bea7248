#include "experiment/cache_file.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace psgd {

std::string CacheFile(const std::string& name) {
  const char* const folder = std::getenv("XDG_CACHE_HOME");
  if (folder != nullptr && folder[0] == '/') return absl::StrCat(folder, "/psgd/", name);
  const char* const home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? absl::StrCat(home, "/.cache/psgd/", name) : "";
}

}  // namespace psgd
