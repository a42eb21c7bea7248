// Where tests find the plugins: in the build, or beside the test where there is no build, or where
// PSGD_TEST_EMULATED says that there are others in their place (tests/fakes/emulated_cuda).
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
