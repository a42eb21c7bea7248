// Helpers that all kernel files share.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "engine/cudnn/divisor.h"
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
__device__ inline float Load(const uint8_t* p, int64_t i) { return p[i]; }

// The value that is read after this value was stored.
template <typename T>
__device__ float Rounded(float value) {
  T stored;
  Store(value, &stored, 0);
  return Load(&stored, 0);
}

struct Relu {
  __device__ float operator()(float x) const { return x <= 0 ? 0.0f : x; }  // NaN stays
};
struct ReluSlope {
  __device__ float operator()(float y, float dy) const { return y <= 0 ? 0.0f : dy; }
};

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

// N elements side by side, which move in pieces of up to 16 bytes.
inline constexpr int kPackBytes = 16;
template <typename T, int N>
struct alignas(std::min<size_t>(kPackBytes, N * sizeof(T))) Pack {
  T of[N];
};

// Elements [i, i + N). REQUIRES: p + i is aligned as a Pack<T, N>.
template <int N, typename T>
__device__ Pack<float, N> LoadPack(const T* p, int64_t i) {
  const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(p + i);
  Pack<float, N> values;
#pragma unroll
  for (int k = 0; k < N; ++k) values.of[k] = Load(pack.of, k);
  return values;
}
template <int N, typename T>
__device__ void StorePack(const Pack<float, N>& values, T* p, int64_t i) {
  Pack<T, N> pack;
#pragma unroll
  for (int k = 0; k < N; ++k) Store(values.of[k], pack.of, k);
  *reinterpret_cast<Pack<T, N>*>(p + i) = pack;
}

// The elements of a pack, for memory of these types: 16 bytes of the narrowest real type.
template <typename... T>
inline constexpr int kPackOf = kPackBytes / std::max<int>(2, std::min({sizeof(T)...}));

// The work of a launch: packs, then single elements up to `count`.
struct Run {
  int64_t packs, count;
};

// Packs need aligned memory; else all elements are single.
template <int N, typename... T>
Run RunOf(int64_t count, const T*... memory) {
  const bool aligned = ((reinterpret_cast<uintptr_t>(memory) % alignof(Pack<T, N>) == 0) && ...);
  return {aligned ? count / N : 0, count};
}
// The same for rows of `width` elements. No pack has elements of two rows.
template <int N, typename... T>
Run RunOfRows(int64_t count, int64_t width, const T*... memory) {
  return width % N == 0 ? RunOf<N>(count, memory...) : Run{0, count};
}

inline int Blocks(const Run& run) { return Blocks(run.packs > 0 ? run.packs : run.count); }

template <int N>
using Width = std::integral_constant<int, N>;

// Calls body(Width<N>, i) for packs and body(Width<1>, i) for single elements, for elements from i,
// over all threads of a launch.
template <int N, typename Body>
__device__ void ForEachPack(const Run& run, Body body) {
  for (int64_t i = FirstIndex(); i < run.packs; i += IndexStep()) body(Width<N>(), i * N);
#pragma unroll 1
  for (int64_t i = run.packs * N + FirstIndex(); i < run.count; i += IndexStep()) {
    body(Width<1>(), i);
  }
}

// to[i] = op(from[i]...)
template <typename Op, typename To, typename... From>
__global__ void MapKernel(Run run, Op op, To* to, const From*... from) {
  ForEachPack<kPackOf<To, From...>>(run, [&]<int N>(Width<N>, int64_t i) {
    const auto apply = [&](const auto&... values) {
      Pack<float, N> result;
#pragma unroll
      for (int k = 0; k < N; ++k) result.of[k] = op(values.of[k]...);
      StorePack(result, to, i);
    };
    apply(LoadPack<N>(from, i)...);
  });
}

template <typename Op, typename To, typename... From>
void StartMap(cudaStream_t stream, int64_t count, Op op, To* to, const From*... from) {
  const Run run = RunOf<kPackOf<To, From...>>(count, to, from...);
  Start(stream, Blocks(run), kThreads, MapKernel<Op, To, From...>, run, op, to, from...);
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

// The mean of values, and the sum of their squared distances from it.
template <typename T>
struct Moments {
  T count, mean, squares;
};

// The moments of both sets of values (Chan et al., 1979).
template <typename T>
__device__ Moments<T> Merged(const Moments<T>& a, const Moments<T>& b) {
  if (b.count == 0) return a;
  const T count = a.count + b.count, apart = b.mean - a.mean, share = b.count / count;
  return {count, a.mean + apart * share, a.squares + b.squares + apart * apart * a.count * share};
}

// Sums of the values of a thread, for their moments in one pass. Squares of values far from zero
// would drown the variance, so it counts from one of the values: squares are then of the size of
// the variance. If that value lies far out, only this thread's part loses bits.
struct ShiftedSums {
  float origin, sum, squares;

  __device__ explicit ShiftedSums(float value) : origin(value), sum(0), squares(0) {}
  __device__ void Add(float value) {
    const float d = value - origin;
    sum += d;
    squares += d * d;
  }
  // The moments of all values less `zero`, a value near them, so that means keep their bits.
  __device__ Moments<float> Of(int64_t values, float zero) const {
    const float count = static_cast<float>(values), mean = sum / count;
    const float rest = squares - sum * mean;
    return {count, origin - zero + mean, rest < 0 ? 0 : rest};  // NaN stays
  }
};

// Converts channels-last indices to image, row, column and channel.
struct Place {
  int64_t image, row, column, channel;
};
class Grid {
 public:
  Grid(int64_t height, int64_t width, int64_t channels)
      : height_(height), width_(width), channels_(channels) {}

  __device__ Place At(int64_t index) const {
    Place place;
    place.channel = channels_.Split(&index);
    place.column = width_.Split(&index);
    place.row = height_.Split(&index);
    place.image = index;
    return place;
  }

 private:
  Divisor height_, width_, channels_;
};

}  // namespace psgd::cudnn
