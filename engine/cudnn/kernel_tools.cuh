// Helpers that all kernel files share.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "engine/cudnn/format.h"

namespace psgd::cudnn {

inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32;

__device__ inline float Load(const float* p, int64_t i) { return p[i]; }
__device__ inline float Load(const __nv_bfloat16* p, int64_t i) { return __bfloat162float(p[i]); }
__device__ inline void Store(float value, float* p, int64_t i) { p[i] = value; }
__device__ inline void Store(float value, __nv_bfloat16* p, int64_t i) {
  p[i] = __float2bfloat16(value);
}
__device__ inline float Load(const __half* p, int64_t i) { return __half2float(p[i]); }
// Values that are too large become infinite; the overflow check relies on that.
__device__ inline void Store(float value, __half* p, int64_t i) { p[i] = __float2half(value); }

#ifdef __CUDACC__
// Tests that run kernels on the host replace Start (tests/fakes/emulated_cuda/device.h).
template <typename... Parameters, typename... Arguments>
void Start(cudaStream_t stream, dim3 blocks, dim3 threads, void (*kernel)(Parameters...),
           Arguments... arguments) {
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
}
#endif

// For a loop `for (i = FirstIndex(); i < count; i += IndexStep())` over all threads of a launch.
__device__ inline int64_t FirstIndex() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t IndexStep() { return int64_t{gridDim.x} * blockDim.x; }

// Blocks for one thread an element, limited to a number that keeps any device busy.
inline int Blocks(int64_t count) {
  constexpr int64_t kMost = 8192;
  return static_cast<int>(std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, kMost));
}

// Calls launch with a null pointer to the element type. Returns the error of its launches.
template <typename Launch>
cudaError_t ForType(Type type, Launch launch) {
  switch (type) {
    case Type::kFloat:
      launch(static_cast<float*>(nullptr));
      return cudaGetLastError();
    case Type::kBfloat16:
      launch(static_cast<__nv_bfloat16*>(nullptr));
      return cudaGetLastError();
    case Type::kHalf:
      launch(static_cast<__half*>(nullptr));
      return cudaGetLastError();
  }
  return cudaErrorInvalidValue;
}

// Calls launch(blocks, null pointer to the element type), for one thread an element.
template <typename Launch>
cudaError_t ForElements(Type type, int64_t count, Launch launch) {
  return ForType(type, [&](auto* of) { launch(Blocks(count), of); });
}

// Sum over a block, in a fixed order; every thread gets it. REQUIRES: kThreads threads.
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

// Sum over a warp, in a fixed order; every lane gets it. REQUIRES: all lanes call it.
template <typename T>
__device__ T SumOfWarp(T value) {
  for (int reach = kWarp / 2; reach > 0; reach /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFF, value, reach);
  }
  return value;
}

// Converts a channels-last index to image, row, column and channel.
struct Place {
  int64_t image, row, column, channel;
};
__device__ inline Place PlaceOf(int64_t index, int64_t height, int64_t width, int64_t channels) {
  Place place;
  place.channel = index % channels;
  index /= channels;
  place.column = index % width;
  index /= width;
  place.row = index % height;
  place.image = index / height;
  return place;
}

}  // namespace psgd::cudnn
