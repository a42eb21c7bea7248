// The folder tests/golden: in the sources, or beside the bin/ of a bundle.
#pragma once

#include <filesystem>
#include <string>

namespace psgd::testing {

inline std::string GoldenFile(const std::string& name) {
  const std::filesystem::path source = std::filesystem::path(PSGD_GOLDEN_DIR) / name;
  if (std::filesystem::exists(source)) return source;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() /
         "tests/golden" / name;
}

}  // namespace psgd::testing
