#include "engine/cudnn/feed.h"

namespace psgd::cudnn {
namespace {

class DeviceFeed : public Feed {
 public:
  DeviceFeed(const Device& device, size_t bytes) : device_(device), bytes_(bytes) {}
  ~DeviceFeed() override {
    device_.Enter();
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    if (arrived_ != nullptr) cudaEventDestroy(arrived_);
    if (taken_ != nullptr) cudaEventDestroy(taken_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Open() {
    PSGD_ASSIGN_OR_RETURN(waiting_, device_.Allocate(bytes_));
    PSGD_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    PSGD_CUDA(cudaEventCreateWithFlags(&arrived_, cudaEventDisableTiming | cudaEventBlockingSync));
    PSGD_CUDA(cudaEventCreateWithFlags(&taken_, cudaEventDisableTiming));
    // The first copy must wait until the stream of kernels has zeroed the memory.
    return CheckCall(cudaEventRecord(taken_, device_.stream()), "cudaEventRecord");
  }

  absl::Status AwaitLeft() override {
    return CheckCall(cudaEventSynchronize(arrived_), "cudaEventSynchronize");
  }

  absl::Status Start(const void* host) override {
    device_.Enter();  // this may be another thread
    PSGD_CUDA(cudaStreamWaitEvent(stream_, taken_));
    PSGD_CUDA(cudaMemcpyAsync(waiting_->data(), host, bytes_, cudaMemcpyHostToDevice, stream_));
    return CheckCall(cudaEventRecord(arrived_, stream_), "cudaEventRecord");
  }

  absl::Status Take(void* device) override {
    PSGD_CUDA(cudaStreamWaitEvent(device_.stream(), arrived_));
    PSGD_CUDA(cudaMemcpyAsync(device, waiting_->data(), bytes_, cudaMemcpyDeviceToDevice,
                              device_.stream()));
    return CheckCall(cudaEventRecord(taken_, device_.stream()), "cudaEventRecord");
  }

 private:
  const Device& device_;
  const size_t bytes_;
  std::unique_ptr<DeviceMemory> waiting_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t arrived_ = nullptr, taken_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Feed>> MakeFeed(const Device& device, size_t bytes) {
  device.Enter();
  auto feed = std::make_unique<DeviceFeed>(device, bytes);
  PSGD_RETURN_IF_ERROR(feed->Open());
  return feed;
}

}  // namespace psgd::cudnn
