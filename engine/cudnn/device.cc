#include "engine/cudnn/device.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/cudnn/range.h"

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

class EventCopy : public Copy {
 public:
  explicit EventCopy(cudaEvent_t done) : done_(done) {}
  ~EventCopy() override { cudaEventDestroy(done_); }
  bool Done() const override { return cudnn::Passed(done_); }
  absl::Status Wait() override {
    return CheckCall(cudaEventSynchronize(done_), "cudaEventSynchronize");
  }

 private:
  const cudaEvent_t done_;
};

class EventMark : public Mark {
 public:
  explicit EventMark(cudaEvent_t event) : event_(event) {}
  ~EventMark() override { cudaEventDestroy(event_); }
  bool Passed() const override { return cudnn::Passed(event_); }
  void* event() const override { return event_; }

 private:
  const cudaEvent_t event_;
};

class GraphRecording : public Recording {
 public:
  GraphRecording(int device, cudaGraphExec_t graph, cudaStream_t stream)
      : device_(device), graph_(graph), stream_(stream) {}
  ~GraphRecording() override {
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream_);
    cudaGraphExecDestroy(graph_);
  }
  absl::Status Replay() override {
    const Range range("recorded step");
    return CheckCall(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch");
  }

 private:
  const int device_;
  const cudaGraphExec_t graph_;
  const cudaStream_t stream_;
};

// Enough for cuBLAS's fastest kernels on recent devices. cuBLAS would allocate its own workspace
// anew for recorded products.
constexpr size_t kBlasWorkspace = 32 << 20;

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
  PSGD_CUDA(cudaDriverGetVersion(&device->driver_));
  PSGD_CUDA(cudaStreamCreateWithFlags(&device->stream_, cudaStreamNonBlocking));
  PSGD_CUDA(cudaStreamCreateWithFlags(&device->copies_, cudaStreamNonBlocking));
  PSGD_CUDA(cudnnCreate(&device->dnn_));
  PSGD_CUDA(cudnnSetStream(device->dnn_, device->stream_));
  PSGD_CUDA(cublasCreate(&device->blas_));
  PSGD_CUDA(cublasSetStream(device->blas_, device->stream_));
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

absl::StatusOr<std::unique_ptr<Copy>> Device::StartDownload(const void* device, void* host,
                                                            size_t bytes) const {
  cudaEvent_t event = nullptr;
  PSGD_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync));
  auto copy = std::make_unique<EventCopy>(event);
  PSGD_RETURN_IF_ERROR(Order(stream_, copies_));
  PSGD_CUDA(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, copies_));
  PSGD_RETURN_IF_ERROR(RecordEvent(event, copies_));
  return copy;
}

absl::StatusOr<std::unique_ptr<Mark>> Device::SetMark() const {
  cudaEvent_t event = nullptr;
  PSGD_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  auto mark = std::make_unique<EventMark>(event);
  PSGD_RETURN_IF_ERROR(RecordEvent(event, stream_));
  return mark;
}

// In a recording, launches of the graph repeat only external records of an event.
absl::Status Device::RecordEvent(cudaEvent_t event, cudaStream_t stream) const {
  return CheckCall(
      cudaEventRecordWithFlags(event, stream,
                               recording_ ? cudaEventRecordExternal : cudaEventRecordDefault),
      "cudaEventRecordWithFlags");
}

absl::Status Device::Order(cudaStream_t first, cudaStream_t after) const {
  PSGD_CUDA(cudaEventRecord(order_, first));
  PSGD_CUDA(cudaStreamWaitEvent(after, order_));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Recording>> Device::Record(
    const std::function<absl::Status()>& work) {
  // Thread-local: calls of other replicas in this process do not end the capture.
  PSGD_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  recording_ = true;
  // The copy stream joins the capture at the start and must rejoin the first stream at its end.
  absl::Status status = Order(stream_, copies_);
  if (status.ok()) status = work();
  if (status.ok()) status = Order(copies_, stream_);
  recording_ = false;
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
  if (status.ok()) status = CheckCall(ended, "cudaStreamEndCapture");
  cudaGraphExec_t made = nullptr;
  if (status.ok())
    status = CheckCall(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // clears the error, so that later kernel launches do not report it
  PSGD_RETURN_IF_ERROR(status);
  return std::make_unique<GraphRecording>(index_, made, stream_);
}

}  // namespace psgd::cudnn
