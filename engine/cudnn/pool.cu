#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

// The windows over element `at`: [first, last].
struct Span {
  int64_t first, last;
};
__device__ Span WindowsOver(int64_t at, int64_t kernel, int64_t stride, int64_t pad, int64_t out) {
  const int64_t lowest = at + pad - kernel + 1;
  const int64_t first = lowest <= 0 ? 0 : (lowest + stride - 1) / stride;
  const int64_t last = (at + pad) / stride;
  return {first, last < out ? last : out - 1};
}

// Calls visit(index of x, place in the window) for the elements of the window of output `at` that
// lie inside the image, in row-major order.
template <typename Visit>
__device__ void ForEachInWindow(const PoolShape& s, const Place& at, Visit visit) {
  for (int64_t u = 0; u < s.kernel_height; ++u) {
    const int64_t row = at.row * s.stride_height + u - s.pad_height;
    if (row < 0 || row >= s.height) continue;
    for (int64_t v = 0; v < s.kernel_width; ++v) {
      const int64_t column = at.column * s.stride_width + v - s.pad_width;
      if (column < 0 || column >= s.width) continue;
      visit(((at.image * s.height + row) * s.width + column) * s.channels + at.channel,
            u * s.kernel_width + v);
    }
  }
}

template <typename T>
__global__ void MaxPoolKernel(PoolShape s, int64_t count, const T* x, T* y, uint16_t* where) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = PlaceOf(i, s.out_height, s.out_width, s.channels);
    float best = 0;
    int place = -1;
    ForEachInWindow(s, at, [&](int64_t from, int64_t in_window) {
      const float value = Load(x, from);
      if (place >= 0 && !(value > best) && value == value) return;  // NaN is the largest
      best = value;
      place = static_cast<int>(in_window);
    });
    Store(best, y, i);
    where[i] = static_cast<uint16_t>(place);
  }
}

// Each thread gathers one element of dx, so no two threads write one place and the order of the sum
// is fixed. flow(index of y, place in its window) returns the contribution of that y.
template <typename T, typename Flow>
__device__ void GatherGradient(const PoolShape& s, int64_t count, T* dx, Flow flow) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = PlaceOf(i, s.height, s.width, s.channels);
    const Span rows =
        WindowsOver(at.row, s.kernel_height, s.stride_height, s.pad_height, s.out_height);
    const Span columns =
        WindowsOver(at.column, s.kernel_width, s.stride_width, s.pad_width, s.out_width);
    float sum = 0;
    for (int64_t r = rows.first; r <= rows.last; ++r) {
      for (int64_t c = columns.first; c <= columns.last; ++c) {
        const int64_t place = (at.row + s.pad_height - r * s.stride_height) * s.kernel_width +
                              at.column + s.pad_width - c * s.stride_width;
        sum += flow(((at.image * s.out_height + r) * s.out_width + c) * s.channels + at.channel,
                    place);
      }
    }
    Store(sum, dx, i);
  }
}

template <typename T>
__global__ void MaxPoolGradientKernel(PoolShape s, int64_t count, const T* dy,
                                      const uint16_t* where, T* dx) {
  GatherGradient(s, count, dx,
                 [&](int64_t y, int64_t place) { return where[y] == place ? Load(dy, y) : 0.0f; });
}

template <typename T>
__global__ void AveragePoolKernel(PoolShape s, int64_t count, const T* x, T* y) {
  const float share = 1.0f / static_cast<float>(s.kernel_height * s.kernel_width);
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = PlaceOf(i, s.out_height, s.out_width, s.channels);
    float sum = 0;
    ForEachInWindow(s, at, [&](int64_t from, int64_t) { sum += Load(x, from); });
    Store(sum * share, y, i);
  }
}

template <typename T>
__global__ void AveragePoolGradientKernel(PoolShape s, int64_t count, const T* dy, T* dx) {
  const float share = 1.0f / static_cast<float>(s.kernel_height * s.kernel_width);
  GatherGradient(s, count, dx, [&](int64_t y, int64_t) { return Load(dy, y) * share; });
}

int64_t InputCount(const PoolShape& s) { return s.images * s.channels * s.height * s.width; }
int64_t OutputCount(const PoolShape& s) {
  return s.images * s.channels * s.out_height * s.out_width;
}

}  // namespace

cudaError_t MaxPoolForward(cudaStream_t stream, Type type, const PoolShape& shape, const void* x,
                           void* y, uint16_t* where) {
  const int64_t count = OutputCount(shape);
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, MaxPoolKernel<T>, shape, count, static_cast<const T*>(x),
          static_cast<T*>(y), where);
  });
}

cudaError_t MaxPoolGradient(cudaStream_t stream, Type type, const PoolShape& shape, const void* dy,
                            const uint16_t* where, void* dx) {
  const int64_t count = InputCount(shape);
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, MaxPoolGradientKernel<T>, shape, count,
          static_cast<const T*>(dy), where, static_cast<T*>(dx));
  });
}

cudaError_t AveragePoolForward(cudaStream_t stream, Type type, const PoolShape& shape,
                               const void* x, void* y) {
  const int64_t count = OutputCount(shape);
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, AveragePoolKernel<T>, shape, count, static_cast<const T*>(x),
          static_cast<T*>(y));
  });
}

cudaError_t AveragePoolGradient(cudaStream_t stream, Type type, const PoolShape& shape,
                                const void* dy, void* dx) {
  const int64_t count = InputCount(shape);
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, AveragePoolGradientKernel<T>, shape, count,
          static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace psgd::cudnn
