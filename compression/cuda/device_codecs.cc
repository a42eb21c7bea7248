// The codecs of a CUDA device, as the plugin exports them.
#include <cuda_runtime_api.h>

#include <utility>

#include "compression/cuda/queue.h"
#include "compression/cuda/twin_encoder.h"

namespace psgd::cuda {
namespace {

absl::Status Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message =
      absl::StrCat("codecs on the device, ", call, ": ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

class CudaMemory {
 public:
  CudaMemory() = default;
  CudaMemory(void* data, cudaError_t (*release)(void*)) : data_(data, release) {}
  void* data() const { return data_.get(); }

 private:
  std::unique_ptr<void, cudaError_t (*)(void*)> data_{nullptr, nullptr};
};

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using CudaEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

// See twin_encoder.h. All work is on one stream. Not thread-safe.
class CudaDevice {
 public:
  using Queue = CudaQueue;
  using Memory = CudaMemory;
  using Event = CudaEvent;
  struct Timer {
    CudaEvent started, stopped;
  };

  CudaDevice(int index, cudaStream_t stream) : index_(index), stream_(stream), queue_(stream) {}
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() {
    cudaSetDevice(index_);
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }

  absl::Status Enter() const { return Check(cudaSetDevice(index_), "cudaSetDevice"); }

  absl::StatusOr<CudaMemory> Allocate(size_t bytes) const {
    PSGD_RETURN_IF_ERROR(Enter());
    void* data = nullptr;
    PSGD_RETURN_IF_ERROR(Check(cudaMalloc(&data, std::max<size_t>(bytes, 1)), "cudaMalloc"));
    CudaMemory memory(data, [](void* at) { return cudaFree(at); });
    PSGD_RETURN_IF_ERROR(Check(cudaMemsetAsync(data, 0, bytes, stream_), "cudaMemsetAsync"));
    return memory;
  }
  absl::StatusOr<CudaMemory> AllocatePinned(size_t bytes) const {
    PSGD_RETURN_IF_ERROR(Enter());
    void* data = nullptr;
    PSGD_RETURN_IF_ERROR(Check(cudaMallocHost(&data, bytes), "cudaMallocHost"));
    std::memset(data, 0, bytes);
    return CudaMemory(data, [](void* at) { return cudaFreeHost(at); });
  }
  absl::StatusOr<CudaEvent> NewEvent(unsigned kind = cudaEventDisableTiming) const {
    cudaEvent_t event = nullptr;
    PSGD_RETURN_IF_ERROR(
        Check(cudaEventCreateWithFlags(&event, kind | cudaEventBlockingSync), "cudaEventCreate"));
    return CudaEvent(event);
  }
  absl::StatusOr<Timer> NewTimer() const {
    Timer timer;
    PSGD_ASSIGN_OR_RETURN(timer.started, NewEvent(cudaEventDefault));
    PSGD_ASSIGN_OR_RETURN(timer.stopped, NewEvent(cudaEventDefault));
    return timer;
  }

  absl::Status Write(void* to, const void* from, size_t bytes) const {
    return Copy(to, from, bytes, cudaMemcpyHostToDevice);
  }
  absl::Status Read(void* to, const void* from, size_t bytes) const {
    return Copy(to, from, bytes, cudaMemcpyDeviceToHost);
  }
  absl::Status Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) const {
    PSGD_RETURN_IF_ERROR(Enter());
    PSGD_RETURN_IF_ERROR(Check(cudaMemcpyAsync(to, from, bytes, kind, stream_), "cudaMemcpyAsync"));
    return Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  template <typename Encode>
  absl::Status Fit(Encode encode) {
    PSGD_RETURN_IF_ERROR(Enter());
    queue_.SetScratch(nullptr);
    encode(queue_);
    PSGD_RETURN_IF_ERROR(Check(queue_.TakeError(), "the size of scratch memory"));
    if (queue_.scratch_used() < scratch_bytes_) return absl::OkStatus();
    scratch_bytes_ = queue_.scratch_used() + 1;  // never null, whatever a coder needs
    // Other coders may still work in the old scratch.
    PSGD_RETURN_IF_ERROR(Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"));
    scratch_ = {};
    PSGD_ASSIGN_OR_RETURN(scratch_, Allocate(scratch_bytes_));
    return absl::OkStatus();
  }

  absl::Status Begin(void* ready) {
    PSGD_RETURN_IF_ERROR(Enter());
    queue_.SetScratch(scratch_.data());
    if (ready == nullptr) return absl::OkStatus();
    return Check(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(ready)),
                 "cudaStreamWaitEvent");
  }
  absl::Status StartRead(void* to, const void* from, size_t bytes, CudaEvent* event) {
    PSGD_RETURN_IF_ERROR(Check(queue_.TakeError(), "a launch"));
    PSGD_RETURN_IF_ERROR(Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
                               "cudaMemcpyAsync"));
    return Record(*event);
  }
  absl::Status Wait(CudaEvent* event) const {
    return Check(cudaEventSynchronize(event->get()), "cudaEventSynchronize");
  }

  absl::Status StartTimer(Timer* timer) const { return Record(timer->started); }
  absl::Status StopTimer(Timer* timer) const { return Record(timer->stopped); }
  absl::StatusOr<double> SecondsOf(Timer* timer) const {
    PSGD_RETURN_IF_ERROR(Wait(&timer->stopped));
    float milliseconds = 0;
    PSGD_RETURN_IF_ERROR(
        Check(cudaEventElapsedTime(&milliseconds, timer->started.get(), timer->stopped.get()),
              "cudaEventElapsedTime"));
    return milliseconds * 1e-3;
  }

  CudaQueue& queue() { return queue_; }

 private:
  absl::Status Record(const CudaEvent& event) const {
    return Check(cudaEventRecord(event.get(), stream_), "cudaEventRecord");
  }

  const int index_;
  const cudaStream_t stream_;
  CudaQueue queue_;
  CudaMemory scratch_;  // memory that all coders use in turn
  size_t scratch_bytes_ = 0;
};

class CudaArray final : public DeviceArray {
 public:
  explicit CudaArray(CudaMemory memory) : memory_(std::move(memory)) {}
  float* data() const override { return static_cast<float*>(memory_.data()); }

 private:
  const CudaMemory memory_;
};

class CudaCodecs final : public DeviceCodecs {
 public:
  CudaCodecs(int index, cudaStream_t stream) : device_(index, stream) {}

  absl::StatusOr<std::unique_ptr<DeviceEncoder>> NewEncoder(const TwinOptions& options) override {
    return TwinEncoder<CudaDevice>::Create(options, &device_);
  }
  absl::StatusOr<std::unique_ptr<DeviceArray>> Upload(std::span<const float> values) override {
    PSGD_ASSIGN_OR_RETURN(CudaMemory memory, device_.Allocate(values.size_bytes()));
    PSGD_RETURN_IF_ERROR(device_.Write(memory.data(), values.data(), values.size_bytes()));
    return std::make_unique<CudaArray>(std::move(memory));
  }
  absl::Status CopyWithin(size_t bytes) override {
    if (copied_bytes_ < bytes) {
      PSGD_ASSIGN_OR_RETURN(copied_, device_.Allocate(2 * bytes));
      copied_bytes_ = bytes;
    }
    std::byte* const from = static_cast<std::byte*>(copied_.data());
    return device_.Copy(from + copied_bytes_, from, bytes, cudaMemcpyDeviceToDevice);
  }

 private:
  CudaDevice device_;
  CudaMemory copied_;
  size_t copied_bytes_ = 0;
};

absl::StatusOr<std::unique_ptr<DeviceCodecs>> Make(int index) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    return absl::UnavailableError("no CUDA device can be used on this host");
  }
  if (index < 0 || index >= count) {
    return NotFoundError("there is no CUDA device ", index, ": this host has ", count);
  }
  PSGD_RETURN_IF_ERROR(Check(cudaSetDevice(index), "cudaSetDevice"));
  cudaStream_t stream = nullptr;
  PSGD_RETURN_IF_ERROR(
      Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"));
  return std::make_unique<CudaCodecs>(index, stream);
}

}  // namespace
}  // namespace psgd::cuda

extern "C" __attribute__((visibility("default"))) bool psgd_make_device_codecs(
    uint32_t interface, int device, absl::StatusOr<std::unique_ptr<psgd::DeviceCodecs>>* made) {
  if (interface != PSGD_BACKEND_INTERFACE) return false;
  *made = psgd::cuda::Make(device);
  return true;
}
