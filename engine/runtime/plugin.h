// Backends live in shared libraries, loaded when used, so that a program starts on a machine
// without the libraries that they need. Only `reference` is built in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/status.h"
#include "engine/runtime/backend.h"

namespace psgd {

// What a plugin exports, as `psgd_make_backend`. `interface` is a fingerprint that the build makes
// of the headers that programs and plugins share (PSGD_BACKEND_INTERFACE); false: the plugin has
// another one, and left `made` alone.
using MakeBackendFunction = bool (*)(uint32_t interface, const BackendOptions& options,
                                     absl::StatusOr<std::unique_ptr<Backend>>* made);

// Makes the backend of that name: "reference", or one whose plugin libpsgd_<name>.so lies in
// `plugin_dir`; if that is empty, beside the program or in ../lib/psgd from there.
absl::StatusOr<std::unique_ptr<Backend>> LoadBackend(const std::string& name,
                                                     const std::string& plugin_dir,
                                                     const BackendOptions& options);

// A function that the plugin of a backend exports beside the one that makes it; its caller gives it
// PluginInterface() to compare with its own. Lives as long as the process.
absl::StatusOr<void*> FindInPlugin(const std::string& name, const std::string& plugin_dir,
                                   const char* function);
uint32_t PluginInterface();

// Whether the backend is there, and computes in that precision on this machine. For those of the
// host.
absl::Status CheckPrecision(const std::string& name, const std::string& plugin_dir,
                            Precision precision);

}  // namespace psgd
