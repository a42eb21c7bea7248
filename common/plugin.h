// Plugins: shared libraries that a program loads when it first needs them, so that it also starts
// on a machine that lacks the libraries that they need.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace psgd {

// What errors of FindInPlugin tell a user to do.
struct PluginAdvice {
  std::string if_missing = "build it";
  std::string if_it_does_not_load = "install what it needs";
};

// Finds a function that the plugin libpsgd_<name>.so in `plugin_dir` exports. Empty `plugin_dir`:
// the folder of this program, then ../lib/psgd from there; of code that is part of libpsgd.so: the
// folder of that library, then psgd in it. The caller passes PluginInterface() to the function, and
// the plugin compares that with its own. The function stays loaded until the process ends.
absl::StatusOr<void*> FindInPlugin(const std::string& name, const std::string& plugin_dir,
                                   const char* function, const PluginAdvice& advice = {});

// The build's fingerprint of the headers that programs and plugins share (PSGD_BACKEND_INTERFACE).
uint32_t PluginInterface();
// The error if a plugin has another fingerprint.
absl::Status PluginOfOtherBuild(const std::string& name);

}  // namespace psgd
