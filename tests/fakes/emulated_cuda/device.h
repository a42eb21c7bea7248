// Host versions of nvcc's built-ins. The build includes this before each source with kernels.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/fakes/emulated_cuda/runtime.h"
#include "tests/fakes/emulated_cuda/threads.h"

// Blocks run one after the other, so one copy of a block's shared memory is enough.
#undef __shared__
#define __shared__ static

#define threadIdx ::psgd::emulated::here.thread
#define blockIdx ::psgd::emulated::here.block
#define blockDim ::psgd::emulated::here.threads_of_block
#define gridDim ::psgd::emulated::here.blocks

using std::isfinite;
using std::max;
using std::min;

inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(double{x})); }
// Rounds the product, too, as the host does wherever nvcc makes one instruction of both operations.
inline float __fmaf_rn(float a, float b, float c) { return a * b + c; }
// No lock is needed, because threads take turns.
template <typename T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at += value;
  return before;
}
inline void __syncthreads() { psgd::emulated::AwaitBlock(); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int reach) {
  uint64_t bits = 0;
  static_assert(sizeof(T) <= sizeof bits);
  std::memcpy(&bits, &value, sizeof value);
  bits = psgd::emulated::FromLane(bits, psgd::emulated::Lane() ^ static_cast<unsigned>(reach));
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

namespace psgd::cudnn {

template <typename... Parameters, typename... Arguments>
void Start(cudaStream_t stream, dim3 blocks, dim3 threads, void (*kernel)(Parameters...),
           Arguments... arguments) {
  emulated::Launch(stream, {blocks.x, blocks.y, blocks.z}, {threads.x, threads.y, threads.z},
                   [=] { kernel(arguments...); });
}

}  // namespace psgd::cudnn
