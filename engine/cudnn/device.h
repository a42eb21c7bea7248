// One CUDA device of a backend: a stream for kernels, a stream for copies to the host, and handles
// of the libraries, bound to the stream for kernels.
#pragma once

#include <memory>
#include <string>

#include "engine/cudnn/kernels.h"
#include "engine/cudnn/recorded_step.h"
#include "engine/cudnn/status.h"
#include "engine/runtime/backend.h"

namespace psgd::cudnn {

// Not thread-safe. Each replica has its own.
class Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Open(int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Enough for cuBLAS's fastest kernels on recent devices. cuBLAS would allocate its own workspace
  // anew for recorded products.
  static constexpr size_t kBlasWorkspace = 32 << 20;

  // Makes this the device of the calling thread.
  void Enter() const { cudaSetDevice(index_); }

  int index() const { return index_; }
  // As "NVIDIA H200". Measurements hold for all devices of one model.
  const std::string& model() const { return model_; }
  // The compute capability, as 90.
  int capability() const { return capability_; }
  // The driver's version of CUDA, as 13000.
  int driver() const { return driver_; }
  cudaStream_t stream() const { return stream_; }
  cudaStream_t copies() const { return copies_; }
  cudnnHandle_t dnn() const { return dnn_; }
  cublasHandle_t blas() const { return blas_; }
  // For all products of the stream, one after the other.
  void* blas_workspace() const { return blas_workspace_; }
  StepValues* step() const { return step_; }

  // Free bytes; 0: unknown.
  size_t AvailableMemory() const;
  // Zeroed memory. Host memory is pinned, so that copies run beside kernels.
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes) const;
  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(size_t bytes) const;
  // Where gradients become final: on `stream`, or on another that adds them up. Downloads and marks
  // come after the work on it.
  void set_gradients(cudaStream_t gradients) { gradients_ = gradients; }
  // Copies, after the work on the stream of gradients.
  absl::StatusOr<std::unique_ptr<Copy>> StartDownload(const void* device, void* host,
                                                      size_t bytes) const;
  absl::StatusOr<std::unique_ptr<Mark>> SetMark() const;
  // Records the launches of `work`; see Backend.
  absl::StatusOr<std::unique_ptr<Recording>> Record(const std::function<absl::Status()>& work);
  // Later work on `after` waits for the present work on `first`.
  absl::Status Order(cudaStream_t first, cudaStream_t after) const;
  // Makes the call behind the present launches. While a step is recorded, its replays make the
  // call; see RecordedStep::Between.
  absl::Status MakeCall(std::function<absl::Status()> call, size_t weight) const;

 private:
  explicit Device(int index) : index_(index) {}

  const int index_;
  std::string model_;
  int capability_ = 0;
  int driver_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaStream_t copies_ = nullptr;
  cudaStream_t gradients_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  cudaEvent_t order_ = nullptr;
  StepValues* step_ = nullptr;
  void* blas_workspace_ = nullptr;
  RecordedStep* recorded_ = nullptr;  // the step that is being recorded; null: none
};

}  // namespace psgd::cudnn
