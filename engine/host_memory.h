// The memory side of backends that compute on the CPU.
#pragma once

#include <memory>

#include "engine/backend.h"

namespace psgd {

class HostBackend : public Backend {
 public:
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes) override;
  absl::Status Upload(const void* host, void* device, size_t bytes) override;
  absl::Status Download(const void* device, void* host, size_t bytes) override;
};

}  // namespace psgd
