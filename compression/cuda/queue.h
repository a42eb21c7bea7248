// The device stream that coders work on. No Abseil: nvcc reads this. The launches are in queue.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "compression/cuda/launch_queue.h"

namespace psgd::cuda {

// See launch_queue.h. Not thread-safe.
class CudaRunner {
 public:
  explicit CudaRunner(cudaStream_t stream) : stream_(stream) {}

  void SetScratch(void* memory) { scratch_ = reinterpret_cast<uintptr_t>(memory); }
  void* ScratchAt(size_t offset, size_t) const {
    return reinterpret_cast<void*>(scratch_ + offset);
  }
  // Returns the first error of a launch since the last call.
  cudaError_t TakeError() { return std::exchange(error_, cudaSuccess); }

  template <typename Body>
  static void Run(CudaRunner& runner, std::span<const Part> parts);

 private:
  const cudaStream_t stream_;
  uintptr_t scratch_ = 0;
  cudaError_t error_ = cudaSuccess;
  bool backwards_ = false;  // whether the last launch over much memory began at its end
};

using CudaQueue = LaunchQueue<CudaRunner>;

}  // namespace psgd::cuda
