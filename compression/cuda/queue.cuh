// How CudaRunner launches kernels. For .cu files.
#pragma once

#include "compression/cuda/queue.h"

namespace psgd::cuda {

template <typename Body>
__global__ void __launch_bounds__(kThreads)
    RunFused(const __grid_constant__ FusedBodies<Body> bodies) {
  __shared__ typename Body::Shared shared;
  bodies.Run(blockIdx.x, shared);
}

template <typename Body>
void CudaRunner::Run(CudaRunner& runner, std::span<const Part> parts) {
  ForEachFused<Body>(parts, [&](const FusedBodies<Body>& bodies) {
    RunFused<<<bodies.blocks(), kThreads, 0, runner.stream_>>>(bodies);
    const cudaError_t error = cudaGetLastError();
    if (runner.error_ == cudaSuccess) runner.error_ = error;
  });
}

}  // namespace psgd::cuda
