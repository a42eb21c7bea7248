// The largest elements of each row. A block finds the smallest kept magnitude of its row digit by
// digit: it counts the elements of each digit, picks the digit of that magnitude, and goes on with
// the elements that have this digit. Sums are of whole numbers, so their order does not matter.
#include <bit>

#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

constexpr int kDigitBits = 8;
static_assert(kThreads == 1 << kDigitBits, "a thread has a digit");

// A key in the order of magnitudes, NaN as infinity. Without the sign the first digit is the
// exponent.
__device__ uint32_t KeyOf(float value) {
  constexpr uint32_t kInfinity = 0xFF000000u;
  return min(std::bit_cast<uint32_t>(value) << 1, kInfinity);
}

// The number of last bits of a key that are 0 in every value of the type.
template <typename T>
constexpr int kEmptyBits = 1;
template <>
constexpr int kEmptyBits<__nv_bfloat16> = 17;
template <>
constexpr int kEmptyBits<__half> = 14;

// The sum of the values of this thread and all threads before it. REQUIRES: kThreads threads.
__device__ uint32_t SumUpToThread(uint32_t value) {
  __shared__ uint32_t sums[kThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int reach = 1; reach < kThreads; reach *= 2) {
    const uint32_t before = threadIdx.x >= reach ? sums[threadIdx.x - reach] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  return sums[threadIdx.x];
}

// The smallest key that is kept. `all` elements have this key, and the first `kept` of them are
// kept.
struct LeastKey {
  uint32_t key, kept, all;
};

template <typename T>
__device__ LeastKey FindLeastKey(const T* x, int64_t columns, uint32_t count) {
  __shared__ uint32_t having[kThreads];  // elements by digit
  __shared__ LeastKey found;
  LeastKey least = {0, count, 0};
  uint32_t known = 0;  // mask of the digits found so far
  for (int shift = 32 - kDigitBits; shift + kDigitBits > kEmptyBits<T>; shift -= kDigitBits) {
    having[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < columns; i += kThreads) {
      const uint32_t key = KeyOf(Load(x, i));
      if ((key & known) == least.key) atomicAdd(&having[key >> shift & (kThreads - 1)], 1u);
    }
    __syncthreads();
    const uint32_t digit = kThreads - 1 - threadIdx.x, own = having[digit];
    const uint32_t at_least = SumUpToThread(own), above = at_least - own;
    // True in exactly one thread.
    if (above < least.kept && least.kept <= at_least) {
      found = {least.key | digit << shift, least.kept - above, own};
    }
    __syncthreads();
    least = found;
    known |= (kThreads - 1u) << shift;
  }
  return least;
}

// The end of the kept elements with the smallest key. Each thread counts this key in its part of
// the row.
template <typename T>
__device__ int64_t EndOfKept(const T* x, int64_t columns, const LeastKey& least) {
  __shared__ int64_t end;
  const int64_t each = (columns + kThreads - 1) / kThreads;
  const int64_t begin = min(columns, each * threadIdx.x), past = min(columns, begin + each);
  uint32_t own = 0;
  for (int64_t i = begin; i < past; ++i) own += KeyOf(Load(x, i)) == least.key;
  const uint32_t up_to = SumUpToThread(own), before = up_to - own;
  if (before < least.kept && least.kept <= up_to) {
    int64_t i = begin;
    for (uint32_t left = least.kept - before; left > 0; ++i) left -= KeyOf(Load(x, i)) == least.key;
    end = i;
  }
  __syncthreads();
  return end;
}

template <typename T>
__global__ void KeepLargestKernel(int64_t rows, int64_t columns, uint32_t count, const T* all_x,
                                  T* all_y) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* x = all_x + row * columns;
    T* y = all_y + row * columns;
    const LeastKey least = FindLeastKey(x, columns, count);
    // Mostly all elements with this key are kept.
    const int64_t end = least.kept < least.all ? EndOfKept(x, columns, least) : columns;
    for (int64_t i = threadIdx.x; i < columns; i += kThreads) {
      const float value = Load(x, i);
      const uint32_t key = KeyOf(value);
      const bool kept = key > least.key || (key == least.key && i < end);
      Store(kept ? value : 0.0f, y, i);
    }
  }
}

}  // namespace

cudaError_t KeepLargestOfRows(cudaStream_t stream, Type type, const KeepLargest& op, int64_t rows,
                              int64_t columns, const void* x, void* y) {
  return ForElements(type, rows * kThreads, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, KeepLargestKernel<T>, rows, columns,
          static_cast<uint32_t>(op.count), static_cast<const T*>(x), static_cast<T*>(y));
  });
}

}  // namespace psgd::cudnn
