// Backends live in shared libraries, loaded when used, so that a program starts on a machine without
// the libraries that they need. Only `reference` is built in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/status.h"
#include "engine/backend.h"

namespace psgd {

// Grows whenever backend.h, graph.h or memory_plan.h change: a plugin of another build is refused.
inline constexpr uint32_t kBackendInterface = 1;

// What a plugin exports, as `psgd_make_backend`. False: it is of another build.
using MakeBackendFunction = bool (*)(uint32_t interface, const BackendOptions& options,
                                     std::unique_ptr<Backend>* backend);

// Makes the backend of that name: "reference", or one whose plugin libpsgd_<name>.so lies in
// `plugin_dir`; if that is empty, beside the program or in ../lib/psgd from there.
absl::StatusOr<std::unique_ptr<Backend>> LoadBackend(const std::string& name,
                                                     const std::string& plugin_dir,
                                                     const BackendOptions& options);

}  // namespace psgd
