#include "tests/folders.h"

#include <cstdlib>
#include <filesystem>

namespace psgd {

std::string SourceDir() { return PSGD_SOURCE_DIR; }

std::string BuildDir() { return PSGD_BUILD_DIR; }

std::string GoldenFile(const std::string& name) {
  const std::string in_sources = SourceDir() + "/tests/golden/" + name;
  if (std::filesystem::exists(in_sources)) return in_sources;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() /
         "tests/golden" / name;
}

std::string PluginDir() {
  if (const char* emulated = std::getenv("PSGD_TEST_EMULATED")) return emulated;
  const std::string built = BuildDir() + "/bin";
  return std::filesystem::exists(built) ? built : "";
}

std::string FakeDir(const std::string& name) { return BuildDir() + "/tests/" + name; }

}  // namespace psgd
