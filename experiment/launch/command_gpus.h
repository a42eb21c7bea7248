// GPUs for a program that workers run in place of ps-worker.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// The devices of a list, as 0-3,5, by their names in CUDA_VISIBLE_DEVICES. If that variable is set
// here, the list counts among its devices. Nobody looks whether this host has them.
absl::StatusOr<std::vector<std::string>> GpusForCommands(absl::string_view list);

}  // namespace psgd
