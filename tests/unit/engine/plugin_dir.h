// Where tests find the plugins: in the build, or beside the test where there is no build.
#pragma once

#include <filesystem>
#include <string>

namespace psgd::testing {

inline std::string PluginDir() {
  return std::filesystem::exists(PSGD_TEST_PLUGIN_DIR) ? PSGD_TEST_PLUGIN_DIR : "";
}

}  // namespace psgd::testing
