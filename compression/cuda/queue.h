// The device stream that coders work on; coder.h says what its functions do. No Abseil: nvcc reads
// this. The launches are in queue.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace psgd::cuda {

// A queue on one stream. Not thread-safe.
class CudaQueue {
 public:
  explicit CudaQueue(cudaStream_t stream) : stream_(stream) {}

  // Sets the memory of Scratch for the next coder. With null, nothing is launched until the next
  // call, and scratch_used() then says how much memory the launches need.
  void SetScratch(void* memory) {
    scratch_ = static_cast<std::byte*>(memory);
    used_ = 0;
  }
  size_t scratch_used() const { return used_; }
  // Returns the first error of a launch since the last call.
  cudaError_t TakeError() {
    const cudaError_t error = error_;
    error_ = cudaSuccess;
    return error;
  }

  void SkipIf(const uint32_t* flag) { skip_ = flag; }
  template <typename Body>
  void Launch(uint32_t blocks, const Body& body);
  template <typename Flag>
  void Select(uint32_t count, const Flag& flag, uint32_t* out, uint32_t* found);
  template <typename Of>
  void Scan(uint32_t count, const Of& of, uint32_t* out);

  template <typename T>
  void Zero(T* at, size_t count) {
    if (scratch_ != nullptr) Note(cudaMemsetAsync(at, 0, count * sizeof(T), stream_));
  }
  template <typename T>
  T* Scratch(size_t count) {
    constexpr size_t kAlignment = 256;
    T* const taken = reinterpret_cast<T*>(scratch_ + used_);
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return taken;
  }

 private:
  void Note(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }

  const cudaStream_t stream_;
  std::byte* scratch_ = nullptr;
  const uint32_t* skip_ = nullptr;
  size_t used_ = 0;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace psgd::cuda
