// The codecs of a CUDA device, as the plugin exports them.
#include <cuda_runtime_api.h>

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "compression/cuda/copy_out.h"
#include "compression/cuda/queue.h"
#include "compression/cuda/twin_encoder.h"

namespace psgd::cuda {
namespace {

absl::Status Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // clears the error, so that later launches do not report it
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

struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using CudaStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;

int DeviceOfThread() {
  int index = 0;
  cudaGetDevice(&index);
  return index;
}

// Sets only another device: the call would make a context on a device that has none yet.
void SetDeviceOfThread(int index) {
  if (index != DeviceOfThread()) cudaSetDevice(index);
}

// The calling thread's device, which is its device again when this object ends.
class KeptThreadDevice {
 public:
  KeptThreadDevice() : index_(DeviceOfThread()) {}
  ~KeptThreadDevice() { SetDeviceOfThread(index_); }
  KeptThreadDevice(const KeptThreadDevice&) = delete;
  KeptThreadDevice& operator=(const KeptThreadDevice&) = delete;

 private:
  const int index_;
};

absl::StatusOr<CudaEvent> NewCudaEvent(unsigned flags) {
  cudaEvent_t event = nullptr;
  PSGD_RETURN_IF_ERROR(Check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreate"));
  return CudaEvent(event);
}

// A stream with a lower number goes first.
absl::StatusOr<CudaStream> NewCudaStream(int priority) {
  cudaStream_t stream = nullptr;
  PSGD_RETURN_IF_ERROR(Check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
                             "cudaStreamCreateWithPriority"));
  return CudaStream(stream);
}

// See twin_encoder.h. Launches are on one stream, and copies of payloads on another, so that the
// next launches run beside them. Not thread-safe.
class CudaDevice {
 public:
  using Queue = CudaQueue;
  using Memory = CudaMemory;
  using Event = CudaEvent;
  struct Timer {
    CudaEvent started, stopped;
  };

  CudaDevice(int index, CudaStream launches, CudaStream copies, CudaEvent launched)
      : index_(index),
        launches_(std::move(launches)),
        copies_(std::move(copies)),
        launched_(std::move(launched)),
        stream_(launches_.get()),
        runner_(stream_),
        copy_runner_(copies_.get()) {}
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() {
    const KeptThreadDevice kept;
    cudaSetDevice(index_);
    cudaStreamSynchronize(stream_);
    cudaStreamSynchronize(copies_.get());
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
  absl::StatusOr<CudaEvent> NewEvent() const {
    PSGD_RETURN_IF_ERROR(Enter());
    return NewCudaEvent(cudaEventDisableTiming | cudaEventBlockingSync);
  }
  absl::StatusOr<Timer> NewTimer() const {
    PSGD_RETURN_IF_ERROR(Enter());
    Timer timer;
    PSGD_ASSIGN_OR_RETURN(timer.started, NewCudaEvent(cudaEventBlockingSync));
    PSGD_ASSIGN_OR_RETURN(timer.stopped, NewCudaEvent(cudaEventBlockingSync));
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

  absl::Status SetScratch(size_t bytes) {
    PSGD_RETURN_IF_ERROR(Enter());
    PSGD_ASSIGN_OR_RETURN(CudaMemory scratch, Allocate(bytes));
    // Launches may still work in the old memory.
    PSGD_RETURN_IF_ERROR(Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"));
    scratch_ = std::move(scratch);
    runner_.SetScratch(scratch_.data());
    return absl::OkStatus();
  }

  absl::Status Begin(void* ready) {
    PSGD_RETURN_IF_ERROR(Enter());
    if (ready == nullptr) return absl::OkStatus();
    return Check(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(ready)),
                 "cudaStreamWaitEvent");
  }
  absl::Status TakeError() { return Check(runner_.TakeError(), "a launch"); }

  // The copies of earlier groups do not count.
  absl::Status StartTimer(Timer* timer) const {
    PSGD_RETURN_IF_ERROR(Record(launched_, copies_.get()));
    PSGD_RETURN_IF_ERROR(
        Check(cudaStreamWaitEvent(stream_, launched_.get()), "cudaStreamWaitEvent"));
    return Record(timer->started, stream_);
  }
  absl::Status StartCopies(std::span<const CopyOutBody> copies, Timer* timer, CudaEvent* done) {
    const cudaStream_t last = copies_.get();
    PSGD_RETURN_IF_ERROR(Record(launched_, stream_));
    PSGD_RETURN_IF_ERROR(Check(cudaStreamWaitEvent(last, launched_.get()), "cudaStreamWaitEvent"));
    std::vector<CopyOutBody> short_copies;
    for (const CopyOutBody& copy : copies) {
      if (copy.varies || copy.bound < kLeastCopied) {
        short_copies.push_back(copy);
        continue;
      }
      PSGD_RETURN_IF_ERROR(Check(cudaMemcpyAsync(copy.to, copy.from, sizeof *copy.to + copy.bound,
                                                 cudaMemcpyDeviceToHost, last),
                                 "cudaMemcpyAsync"));
    }
    CopyOut(copy_runner_, short_copies);
    PSGD_RETURN_IF_ERROR(Check(copy_runner_.TakeError(), "a launch"));
    if (timer != nullptr) PSGD_RETURN_IF_ERROR(Record(timer->stopped, last));
    return Record(*done, last);
  }
  // A thread that sleeps wakes up late, so short waits ask again and again.
  absl::Status Wait(CudaEvent* event) const {
    for (const Time begin = SteadyNow(); SteadyNow() - begin < kShortWait;) {
      PSGD_ASSIGN_OR_RETURN(const bool passed, Passed(event));
      if (passed) return absl::OkStatus();
    }
    return Check(cudaEventSynchronize(event->get()), "cudaEventSynchronize");
  }
  absl::StatusOr<bool> Passed(CudaEvent* event) const {
    const cudaError_t asked = cudaEventQuery(event->get());
    if (asked == cudaErrorNotReady) {
      cudaGetLastError();  // so that a launch does not report it
      return false;
    }
    PSGD_RETURN_IF_ERROR(Check(asked, "cudaEventQuery"));
    return true;
  }
  absl::StatusOr<double> SecondsOf(Timer* timer) const {
    PSGD_RETURN_IF_ERROR(Wait(&timer->stopped));
    float milliseconds = 0;
    PSGD_RETURN_IF_ERROR(
        Check(cudaEventElapsedTime(&milliseconds, timer->started.get(), timer->stopped.get()),
              "cudaEventElapsedTime"));
    return milliseconds * 1e-3;
  }

  CudaRunner* runner() { return &runner_; }
  int index() const { return index_; }

 private:
  // Payloads of a known length from here on are copied without threads of the device.
  static constexpr size_t kLeastCopied = 256 << 10;
  static constexpr Duration kShortWait = std::chrono::microseconds(200);

  static absl::Status Record(const CudaEvent& event, cudaStream_t stream) {
    return Check(cudaEventRecord(event.get(), stream), "cudaEventRecord");
  }

  const int index_;
  const CudaStream launches_, copies_;
  const CudaEvent launched_;   // between the streams
  const cudaStream_t stream_;  // of the launches
  CudaRunner runner_, copy_runner_;
  CudaMemory scratch_;  // of the runner
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
  CudaCodecs(int index, CudaStream launches, CudaStream copies, CudaEvent launched)
      : device_(index, std::move(launches), std::move(copies), std::move(launched)) {}

  absl::StatusOr<std::unique_ptr<DeviceEncoder>> NewEncoder(const TwinOptions& options) override {
    return TwinEncoder<CudaDevice>::Create(options, &device_, &group_);
  }
  absl::Status Flush() override { return group_.Flush(); }
  absl::StatusOr<void*> EventOf(void* stream) override {
    if (stream == cudaStreamPerThread) {
      return InvalidArgumentError(
          "the stream is cudaStreamPerThread, which is another stream in each thread; make the "
          "values on a stream that cudaStreamCreate gave, or on the default stream (NULL)");
    }
    PSGD_RETURN_IF_ERROR(device_.Enter());
    CudaEvent& event = events_[stream];
    if (event == nullptr) {
      PSGD_ASSIGN_OR_RETURN(event, NewCudaEvent(cudaEventDisableTiming));
    }
    PSGD_RETURN_IF_ERROR(
        Check(cudaEventRecord(event.get(), static_cast<cudaStream_t>(stream)), "cudaEventRecord"));
    return event.get();
  }
  absl::Status CheckMemory(const void* memory) const override {
    cudaPointerAttributes attributes;
    PSGD_RETURN_IF_ERROR(
        Check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes"));
    const bool is_there =
        attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
    if (is_there && attributes.device == device_.index()) return absl::OkStatus();
    return InvalidArgumentError("the address 0x", absl::Hex(reinterpret_cast<uintptr_t>(memory)),
                                " is not in memory of CUDA device ", device_.index());
  }
  int ThreadDevice() const override { return DeviceOfThread(); }
  void SetThreadDevice(int device) const override { SetDeviceOfThread(device); }
  absl::StatusOr<std::unique_ptr<DeviceArray>> Upload(std::span<const float> values) override {
    PSGD_ASSIGN_OR_RETURN(CudaMemory memory, device_.Allocate(values.size_bytes()));
    PSGD_RETURN_IF_ERROR(device_.Write(memory.data(), values.data(), values.size_bytes()));
    return std::make_unique<CudaArray>(std::move(memory));
  }
  absl::Status CopyWithin(size_t bytes) override {
    PSGD_RETURN_IF_ERROR(MakeCopied(bytes));
    std::byte* const from = static_cast<std::byte*>(copied_.data());
    return device_.Copy(from + copied_bytes_, from, bytes, cudaMemcpyDeviceToDevice);
  }
  absl::Status CopyToHost(size_t bytes) override {
    PSGD_RETURN_IF_ERROR(MakeCopied(bytes));
    return device_.Read(copied_here_.data(), copied_.data(), bytes);
  }

 private:
  absl::Status MakeCopied(size_t bytes) {
    if (bytes <= copied_bytes_) return absl::OkStatus();
    PSGD_ASSIGN_OR_RETURN(copied_, device_.Allocate(2 * bytes));
    PSGD_ASSIGN_OR_RETURN(copied_here_, device_.AllocatePinned(bytes));
    copied_bytes_ = bytes;
    return absl::OkStatus();
  }

  CudaDevice device_;
  SliceGroup<CudaDevice> group_{&device_};
  std::map<void*, CudaEvent> events_;  // by stream of the program
  CudaMemory copied_, copied_here_;    // of CopyWithin and CopyToHost
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
  const KeptThreadDevice kept;
  PSGD_RETURN_IF_ERROR(Check(cudaSetDevice(index), "cudaSetDevice"));
  int last = 0, first = 0;
  PSGD_RETURN_IF_ERROR(
      Check(cudaDeviceGetStreamPriorityRange(&last, &first), "cudaDeviceGetStreamPriorityRange"));
  PSGD_ASSIGN_OR_RETURN(CudaStream launches, NewCudaStream(last));
  // The short work of copies does not wait for the next group's threads.
  PSGD_ASSIGN_OR_RETURN(CudaStream copies, NewCudaStream(first));
  PSGD_ASSIGN_OR_RETURN(CudaEvent launched, NewCudaEvent(cudaEventDisableTiming));
  return std::make_unique<CudaCodecs>(index, std::move(launches), std::move(copies),
                                      std::move(launched));
}

}  // namespace
}  // namespace psgd::cuda

extern "C" __attribute__((visibility("default"))) bool psgd_make_device_codecs(
    uint32_t interface, int device, absl::StatusOr<std::unique_ptr<psgd::DeviceCodecs>>* made) {
  if (interface != PSGD_BACKEND_INTERFACE) return false;
  *made = psgd::cuda::Make(device);
  return true;
}
