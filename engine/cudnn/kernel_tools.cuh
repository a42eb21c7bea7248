// What all kernel files share.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "engine/cudnn/format.h"

namespace psgd::cudnn {

inline constexpr int kThreads = 256;

__device__ inline float Load(const float* p, int64_t i) { return p[i]; }
__device__ inline float Load(const __nv_bfloat16* p, int64_t i) { return __bfloat162float(p[i]); }
__device__ inline void Store(float value, float* p, int64_t i) { p[i] = value; }
__device__ inline void Store(float value, __nv_bfloat16* p, int64_t i) {
  p[i] = __float2bfloat16(value);
}

// Of a loop `for (i = first; i < count; i += step)` over all threads of a launch.
__device__ inline int64_t FirstIndex() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t IndexStep() { return int64_t{gridDim.x} * blockDim.x; }

// Blocks for one thread an element, as many as keep any device busy.
inline int Blocks(int64_t count) {
  constexpr int64_t kMost = 8192;
  return static_cast<int>(std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, kMost));
}

// Calls f with a null pointer to the element type.
template <typename F>
cudaError_t ForType(Type type, F f) {
  switch (type) {
    case Type::kFloat:
      return f(static_cast<float*>(nullptr));
    case Type::kBfloat16:
      return f(static_cast<__nv_bfloat16*>(nullptr));
  }
  return cudaErrorInvalidValue;
}

template <typename T>
using ElementOf = std::remove_pointer_t<T>;

// Sum over a block, in one fixed order; the result is thread 0's. REQUIRES: kThreads threads.
template <typename T>
__device__ T SumOfBlock(T value) {
  __shared__ T parts[kThreads];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  const T sum = parts[0];
  __syncthreads();
  return sum;
}

}  // namespace psgd::cudnn
