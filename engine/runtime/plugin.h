// Loads backends from plugins (common/plugin.h). Only `reference` is built in.
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

// Makes the backend `name`: "reference", or the plugin libpsgd_<name>.so in `plugin_dir` (see
// FindInPlugin).
absl::StatusOr<std::unique_ptr<Backend>> LoadBackend(const std::string& name,
                                                     const std::string& plugin_dir,
                                                     const BackendOptions& options);

// An error if the backend is missing or cannot compute in `precision` on this machine. For backends
// of the host.
absl::Status CheckPrecision(const std::string& name, const std::string& plugin_dir,
                            Precision precision);

}  // namespace psgd
