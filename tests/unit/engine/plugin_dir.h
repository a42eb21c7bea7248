// The plugins' folder in tests: the folder in PSGD_TEST_EMULATED, which has replacements
// (tests/fakes/emulated_cuda), or the build's; without a build, the test's own folder.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace psgd::testing {

inline std::string PluginDir() {
  if (const char* emulated = std::getenv("PSGD_TEST_EMULATED")) return emulated;
  return std::filesystem::exists(PSGD_TEST_PLUGIN_DIR) ? PSGD_TEST_PLUGIN_DIR : "";
}

}  // namespace psgd::testing
