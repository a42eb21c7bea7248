// The memory side of backends that compute on the CPU.
#pragma once

#include <memory>

#include "common/available_memory.h"
#include "engine/runtime/backend.h"

namespace psgd {

class HostBackend : public Backend {
 public:
  size_t AvailableMemory() const override { return psgd::AvailableMemory(); }
  bool computes_on_host() const override { return true; }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(size_t bytes) override {
    return Allocate(bytes);
  }
  absl::Status Upload(const void* host, void* device, size_t bytes) override;
  absl::Status Download(const void* device, void* host, size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Copy>> StartDownload(const void* device, void* host,
                                                      size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Feed>> MakeFeed(size_t bytes) override;
  absl::Status Update(std::span<const ParameterUpdate> updates,
                      const GradientBounds& bounds) override;
  absl::Status MakeOrthogonal(size_t rows, size_t columns, float* x, float* scratch) override;
  absl::StatusOr<std::unique_ptr<Mark>> SetMark() override;
  absl::Status BeginRun(const Step&) override { return absl::OkStatus(); }
  // Always an error: a kernel is done when Run returns, so there are no launches to record.
  absl::StatusOr<std::unique_ptr<Recording>> Record(const std::function<absl::Status()>&) override;
  absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(
      std::span<Backend* const> members) override;
  absl::StatusOr<bool> Overflowed() override { return false; }
};

}  // namespace psgd
