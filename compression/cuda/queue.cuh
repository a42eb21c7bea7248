// How CudaRunner launches kernels. For .cu files.
#pragma once

#include "compression/cuda/queue.h"

namespace psgd::cuda {

// Blocks of a body that run on a multiprocessor at once, at least; 0: as many as its registers
// allow.
template <typename Body>
constexpr uint32_t LeastResident() {
  if constexpr (requires { Body::kLeastResident; }) return Body::kLeastResident;
  return 0;
}

template <typename Body>
__global__ void __launch_bounds__(kThreads, LeastResident<Body>())
    RunFused(const __grid_constant__ FusedBodies<Body> bodies, bool backwards) {
  __shared__ typename Body::Shared shared;
  bodies.Run(backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x, shared);
}

template <typename Body>
void CudaRunner::Run(CudaRunner& runner, std::span<const Part> parts) {
  ForEachFused<Body>(parts, [&](const FusedBodies<Body>& bodies) {
    // Each launch over much memory begins where the last one ended, with what the cache still has.
    constexpr uint32_t kMany = 512;
    if (bodies.blocks() >= kMany) runner.backwards_ = !runner.backwards_;
    RunFused<<<bodies.blocks(), kThreads, 0, runner.stream_>>>(bodies, runner.backwards_);
    const cudaError_t error = cudaGetLastError();
    if (runner.error_ == cudaSuccess) runner.error_ = error;
  });
}

}  // namespace psgd::cuda
