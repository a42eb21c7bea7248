#include "engine/cudnn/device.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/loaded_library.h"

namespace psgd::cudnn {
namespace {

class CudaMemory : public DeviceMemory {
 public:
  CudaMemory(int device, void* data) : device_(device), data_(data) {}
  ~CudaMemory() override {
    cudaSetDevice(device_);
    cudaFree(data_);
  }
  void* data() const override { return data_; }

 private:
  const int device_;
  void* const data_;
};

class PinnedMemory : public DeviceMemory {
 public:
  explicit PinnedMemory(void* data) : data_(data) {}
  ~PinnedMemory() override { cudaFreeHost(data_); }
  void* data() const override { return data_; }

 private:
  void* const data_;
};

bool Passed(cudaEvent_t event) {
  if (cudaEventQuery(event) != cudaErrorNotReady) return true;
  cudaGetLastError();  // clears cudaErrorNotReady, which CUDA keeps as an error
  return false;
}

// A recording may set the event again, so it shares the event.
struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using SharedEvent = std::shared_ptr<std::remove_pointer_t<cudaEvent_t>>;

absl::StatusOr<SharedEvent> MakeEvent(unsigned flags) {
  cudaEvent_t event = nullptr;
  PSGD_CUDA(cudaEventCreateWithFlags(&event, flags | cudaEventDisableTiming));
  return SharedEvent(event, DestroyEvent());
}

class EventCopy : public Copy {
 public:
  explicit EventCopy(SharedEvent done) : done_(std::move(done)) {}
  bool Done() const override { return cudnn::Passed(done_.get()); }
  absl::Status Wait() override {
    return CheckCall(cudaEventSynchronize(done_.get()), "cudaEventSynchronize");
  }

 private:
  const SharedEvent done_;
};

class EventMark : public Mark {
 public:
  explicit EventMark(SharedEvent event) : event_(std::move(event)) {}
  bool Passed() const override { return cudnn::Passed(event_.get()); }
  void* event() const override { return event_.get(); }

 private:
  const SharedEvent event_;
};

// Older devices cannot run this build's kernels.
absl::Status CheckCapability(const cudaDeviceProp& properties) {
  constexpr int kOldest = PSGD_CUDA_OLDEST;
  if (10 * properties.major + properties.minor >= kOldest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      properties.name, " has compute capability ", properties.major, ".", properties.minor,
      "; this build has ", kOldest / 10, ".", kOldest % 10,
      " and up: build with a CUDA 12 toolkit, which has 7.0 and up, or use the onednn backend"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> Device::Open(int index) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    return absl::UnavailableError(
        absl::StrCat("no CUDA device can be used on this host (",
                     error == cudaSuccess ? "none found" : cudaGetErrorString(error),
                     "); check nvidia-smi and the driver, or use the onednn backend"));
  }
  if (index < 0 || index >= count) {
    return absl::NotFoundError(
        absl::StrCat("there is no CUDA device ", index, ": this host has ", count));
  }
  std::unique_ptr<Device> device(new Device(index));
  PSGD_CUDA(cudaSetDevice(index));
  cudaDeviceProp properties;
  PSGD_CUDA(cudaGetDeviceProperties(&properties, index));
  device->model_ = properties.name;
  device->capability_ = 10 * properties.major + properties.minor;
  PSGD_RETURN_IF_ERROR(CheckCapability(properties));
  PSGD_CUDA(cudaDriverGetVersion(&device->driver_));
  PSGD_CUDA(cudaStreamCreateWithFlags(&device->stream_, cudaStreamNonBlocking));
  PSGD_CUDA(cudaStreamCreateWithFlags(&device->copies_, cudaStreamNonBlocking));
  device->gradients_ = device->stream_;
  // cuDNN loads this compiler each time that it looks for engines, unless it is loaded.
  LoadedLibrary::Load(absl::StrCat("libnvrtc.so.", CUDART_VERSION / 1000), "").IgnoreError();
  PSGD_CUDA(cudnnCreate(&device->dnn_));
  PSGD_CUDA(cudnnSetStream(device->dnn_, device->stream_));
  PSGD_CUDA(cublasCreate(&device->blas_));
  PSGD_CUDA(cublasSetStream(device->blas_, device->stream_));
  // Else cuBLAS may add up partial sums of 16-bit products in 16 bits.
  PSGD_CUDA(cublasSetMathMode(
      device->blas_, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                               CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
  PSGD_CUDA(cudaMalloc(&device->blas_workspace_, kBlasWorkspace));
  PSGD_CUDA(cublasSetWorkspace(device->blas_, device->blas_workspace_, kBlasWorkspace));
  PSGD_CUDA(cudaEventCreateWithFlags(&device->order_, cudaEventDisableTiming));
  PSGD_CUDA(cudaMalloc(reinterpret_cast<void**>(&device->step_), sizeof(StepValues)));
  PSGD_CUDA(SetStepValues(device->stream_, {}, device->step_));
  return device;
}

Device::~Device() {
  Enter();
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  if (copies_ != nullptr) cudaStreamSynchronize(copies_);
  if (blas_ != nullptr) cublasDestroy(blas_);
  if (dnn_ != nullptr) cudnnDestroy(dnn_);
  if (order_ != nullptr) cudaEventDestroy(order_);
  cudaFree(blas_workspace_);
  cudaFree(step_);
  if (copies_ != nullptr) cudaStreamDestroy(copies_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

size_t Device::AvailableMemory() const {
  Enter();
  size_t free = 0, total = 0;
  return CheckCall(cudaMemGetInfo(&free, &total), "cudaMemGetInfo").ok() ? free : 0;
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> Device::Allocate(size_t bytes) const {
  Enter();
  void* data = nullptr;
  const absl::Status allocated =
      CheckCall(cudaMalloc(&data, std::max<size_t>(bytes, 1)), "cudaMalloc");
  if (!allocated.ok()) {
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return Annotate(allocated, absl::StrCat(bytes >> 20, " MiB wanted, ", free >> 20, " of ",
                                            total >> 20, " MiB free on CUDA device ", index_));
  }
  auto memory = std::make_unique<CudaMemory>(index_, data);
  PSGD_CUDA(cudaMemsetAsync(data, 0, bytes, stream_));
  return memory;
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> Device::AllocateHost(size_t bytes) const {
  Enter();
  void* data = nullptr;
  PSGD_CUDA(cudaHostAlloc(&data, std::max<size_t>(bytes, 1), cudaHostAllocPortable));
  std::memset(data, 0, bytes);
  return std::make_unique<PinnedMemory>(data);
}

absl::Status Device::Order(cudaStream_t first, cudaStream_t after) const {
  PSGD_CUDA(cudaEventRecord(order_, first));
  return CheckCall(cudaStreamWaitEvent(after, order_), "cudaStreamWaitEvent");
}

absl::Status Device::MakeCall(std::function<absl::Status()> call, size_t weight) const {
  return recorded_ == nullptr ? call() : recorded_->Between(std::move(call), weight);
}

absl::StatusOr<std::unique_ptr<Copy>> Device::StartDownload(const void* device, void* host,
                                                            size_t bytes) const {
  PSGD_ASSIGN_OR_RETURN(const SharedEvent event, MakeEvent(cudaEventBlockingSync));
  const auto start = [=, this]() -> absl::Status {
    PSGD_RETURN_IF_ERROR(Order(gradients_, copies_));
    PSGD_CUDA(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, copies_));
    return CheckCall(cudaEventRecord(event.get(), copies_), "cudaEventRecord");
  };
  PSGD_RETURN_IF_ERROR(MakeCall(start, bytes));
  return std::make_unique<EventCopy>(event);
}

absl::StatusOr<std::unique_ptr<Mark>> Device::SetMark() const {
  PSGD_ASSIGN_OR_RETURN(const SharedEvent event, MakeEvent(cudaEventDefault));
  const auto set = [=, this] {
    return CheckCall(cudaEventRecord(event.get(), gradients_), "cudaEventRecord");
  };
  // Others wait for marks on the device, and their work should begin at once.
  PSGD_RETURN_IF_ERROR(MakeCall(set, RecordedStep::kLeastWeight));
  return std::make_unique<EventMark>(event);
}

absl::StatusOr<std::unique_ptr<Recording>> Device::Record(
    const std::function<absl::Status()>& work) {
  auto recorded = std::make_unique<RecordedStep>(index_, stream_);
  PSGD_RETURN_IF_ERROR(recorded->Begin());
  recorded_ = recorded.get();
  absl::Status status = work();
  recorded_ = nullptr;
  const absl::Status ended = recorded->End();
  status.Update(ended);
  PSGD_RETURN_IF_ERROR(status);
  return recorded;
}

}  // namespace psgd::cudnn
