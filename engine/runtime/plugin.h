// Loads backends from shared libraries when they are used, so that a program also starts on a
// machine that lacks the libraries they need. Only `reference` is built in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/status.h"
#include "engine/runtime/backend.h"

namespace psgd {

// The type of `psgd_make_backend`, which a plugin exports. `interface` is the build's fingerprint
// of the headers that programs and plugins share (PSGD_BACKEND_INTERFACE). False: the plugin has
// another fingerprint and did not set `made`.
using MakeBackendFunction = bool (*)(uint32_t interface, const BackendOptions& options,
                                     absl::StatusOr<std::unique_ptr<Backend>>* made);

// Makes the backend `name`: "reference", or the plugin libpsgd_<name>.so in `plugin_dir`. Empty
// `plugin_dir`: the program's folder, then ../lib/psgd from there.
absl::StatusOr<std::unique_ptr<Backend>> LoadBackend(const std::string& name,
                                                     const std::string& plugin_dir,
                                                     const BackendOptions& options);

// Finds another function that a backend's plugin exports. The caller passes PluginInterface() to
// it, and the plugin compares that with its own. The function stays loaded until the process ends.
absl::StatusOr<void*> FindInPlugin(const std::string& name, const std::string& plugin_dir,
                                   const char* function);
uint32_t PluginInterface();

// An error if the backend is missing or cannot compute in `precision` on this machine. For backends
// of the host.
absl::Status CheckPrecision(const std::string& name, const std::string& plugin_dir,
                            Precision precision);

}  // namespace psgd
