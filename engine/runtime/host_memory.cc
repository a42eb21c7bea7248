#include "engine/runtime/host_memory.h"

#include <cstdlib>
#include <cstring>

#include "common/status.h"

namespace psgd {
namespace {

class AlignedMemory : public DeviceMemory {
 public:
  explicit AlignedMemory(void* data) : data_(data) {}
  ~AlignedMemory() override { std::free(data_); }
  void* data() const override { return data_; }

 private:
  void* const data_;
};

class DoneCopy : public Copy {
 public:
  bool Done() const override { return true; }
  absl::Status Wait() override { return absl::OkStatus(); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMemory>> HostBackend::Allocate(size_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t rounded = (bytes + kPage) / kPage * kPage;
  void* data = std::aligned_alloc(kPage, rounded);
  if (data == nullptr) {
    return ResourceExhaustedError("no memory for ", bytes >> 20,
                                  " MiB of the network; a smaller batch needs "
                                  "less");
  }
  std::memset(data, 0, rounded);
  return std::make_unique<AlignedMemory>(data);
}

absl::Status HostBackend::Upload(const void* host, void* device, size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
  return absl::OkStatus();
}

absl::Status HostBackend::Download(const void* device, void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Feed>> HostBackend::MakeFeed(size_t) {
  return absl::UnimplementedError("kernels see the host's memory");
}

absl::Status HostBackend::Update(std::span<const ParameterUpdate>, const GradientBounds&) {
  return absl::UnimplementedError("an optimizer of the host updates the host's weights");
}

absl::Status HostBackend::MakeOrthogonal(size_t, size_t, float*, float*) {
  return absl::UnimplementedError("an optimizer of the host updates the host's weights");
}

absl::StatusOr<std::unique_ptr<Mark>> HostBackend::SetMark() {
  return absl::UnimplementedError("kernels run on the host");
}

absl::StatusOr<std::unique_ptr<Recording>> HostBackend::Record(
    const std::function<absl::Status()>&) {
  return absl::UnimplementedError("kernels run on the host");
}

absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> HostBackend::MakeGroup(
    std::span<Backend* const>) {
  return absl::InvalidArgumentError(
      "node.reduce: nccl is for GPUs; replicas on the processor take node.reduce: host");
}

absl::StatusOr<std::unique_ptr<Copy>> HostBackend::StartDownload(const void* device, void* host,
                                                                 size_t bytes) {
  PSGD_RETURN_IF_ERROR(Download(device, host, bytes));
  return std::make_unique<DoneCopy>();
}

}  // namespace psgd
