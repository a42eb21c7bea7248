// The GPUs of this host, and lists of them as people write them.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// "0-3,5" -> 0 1 2 3 5; a device may be named more than once.
absl::StatusOr<std::vector<int>> ParseDeviceList(absl::string_view text);

struct GpuDevice {
  int index = 0;
  std::string name;
};

// UNAVAILABLE: this host has no usable GPU. The message says why, and what to do.
absl::StatusOr<std::vector<GpuDevice>> ListGpus();

// The devices of such a list. An error: this host lacks one of them.
absl::StatusOr<std::vector<GpuDevice>> ChooseGpus(absl::string_view list);

}  // namespace psgd
