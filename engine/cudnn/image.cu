// Kernels on channels-last images: adaptive pooling, upsampling, and normalization across channels.
#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"
#include "engine/ops/adaptive_average_pool.h"

namespace psgd::cudnn {
namespace {

int64_t InputCount(const ResizeShape& s) { return s.images * s.channels * s.height * s.width; }
int64_t OutputCount(const ResizeShape& s) {
  return s.images * s.channels * s.out_height * s.out_width;
}

__device__ int64_t InputIndex(const ResizeShape& s, const Place& at, int64_t row, int64_t column) {
  return ((at.image * s.height + row) * s.width + column) * s.channels + at.channel;
}
__device__ int64_t OutputIndex(const ResizeShape& s, const Place& at, int64_t row, int64_t column) {
  return ((at.image * s.out_height + row) * s.out_width + column) * s.channels + at.channel;
}

template <typename T>
__global__ void AdaptivePoolKernel(ResizeShape s, int64_t count, const T* x, T* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = PlaceOf(i, s.out_height, s.out_width, s.channels);
    const int64_t top = AdaptiveBegin(at.row, s.height, s.out_height);
    const int64_t bottom = AdaptiveEnd(at.row, s.height, s.out_height);
    const int64_t left = AdaptiveBegin(at.column, s.width, s.out_width);
    const int64_t right = AdaptiveEnd(at.column, s.width, s.out_width);
    float sum = 0;
    for (int64_t row = top; row < bottom; ++row) {
      for (int64_t column = left; column < right; ++column) {
        sum += Load(x, InputIndex(s, at, row, column));
      }
    }
    Store(sum / static_cast<float>((bottom - top) * (right - left)), y, i);
  }
}

// Each thread gathers one element of dx, so no two threads write one place and the order of the sum
// is fixed.
template <typename T>
__global__ void AdaptivePoolGradientKernel(ResizeShape s, int64_t count, const T* dy, T* dx) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = PlaceOf(i, s.height, s.width, s.channels);
    const int64_t last_row = AdaptiveLast(at.row, s.height, s.out_height);
    const int64_t last_column = AdaptiveLast(at.column, s.width, s.out_width);
    float sum = 0;
    for (int64_t r = AdaptiveFirst(at.row, s.height, s.out_height); r <= last_row; ++r) {
      const int64_t rows =
          AdaptiveEnd(r, s.height, s.out_height) - AdaptiveBegin(r, s.height, s.out_height);
      for (int64_t c = AdaptiveFirst(at.column, s.width, s.out_width); c <= last_column; ++c) {
        const int64_t columns =
            AdaptiveEnd(c, s.width, s.out_width) - AdaptiveBegin(c, s.width, s.out_width);
        sum += Load(dy, OutputIndex(s, at, r, c)) / static_cast<float>(rows * columns);
      }
    }
    Store(sum, dx, i);
  }
}

template <typename T>
__global__ void UpsampleKernel(ResizeShape s, int64_t count, const T* x, T* y) {
  const int64_t factor = s.out_height / s.height;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = PlaceOf(i, s.out_height, s.out_width, s.channels);
    y[i] = x[InputIndex(s, at, at.row / factor, at.column / factor)];
  }
}

template <typename T>
__global__ void UpsampleGradientKernel(ResizeShape s, int64_t count, const T* dy, T* dx) {
  const int64_t factor = s.out_height / s.height;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = PlaceOf(i, s.height, s.width, s.channels);
    float sum = 0;
    for (int64_t u = 0; u < factor; ++u) {
      for (int64_t v = 0; v < factor; ++v) {
        sum += Load(dy, OutputIndex(s, at, at.row * factor + u, at.column * factor + v));
      }
    }
    Store(sum, dx, i);
  }
}

// Calls visit(index) for the pixel's channels in the window around the channel of element `i`.
template <typename Visit>
__device__ void ForEachNeighbour(int64_t i, int64_t channels, int size, Visit visit) {
  const int64_t channel = i % channels, pixel = i - channel, reach = size / 2;
  const int64_t first = channel > reach ? channel - reach : 0;
  const int64_t last = channel + reach < channels ? channel + reach : channels - 1;
  for (int64_t c = first; c <= last; ++c) visit(pixel + c);
}

template <typename T>
__global__ void ResponseNormKernel(LocalResponseNorm op, int64_t count, int64_t channels,
                                   const T* x, T* y, float* scale) {
  const float share = op.alpha / static_cast<float>(op.size);
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    float squares = 0;
    ForEachNeighbour(i, channels, op.size, [&](int64_t other) {
      const float value = Load(x, other);
      squares += value * value;
    });
    const float s = op.k + share * squares;
    scale[i] = s;
    Store(Load(x, i) * powf(s, -op.beta), y, i);
  }
}

template <typename T>
__global__ void ResponseNormGradientKernel(LocalResponseNorm op, int64_t count, int64_t channels,
                                           const T* x, const float* scale, const T* dy, T* dx) {
  const float share = 2 * op.alpha * op.beta / static_cast<float>(op.size);
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    float sum = 0;
    ForEachNeighbour(i, channels, op.size, [&](int64_t other) {
      sum += Load(dy, other) * Load(x, other) * powf(scale[other], -op.beta - 1);
    });
    Store(Load(dy, i) * powf(scale[i], -op.beta) - share * Load(x, i) * sum, dx, i);
  }
}

}  // namespace

cudaError_t AdaptivePoolForward(cudaStream_t stream, Type type, const ResizeShape& shape,
                                const void* x, void* y) {
  const int64_t count = OutputCount(shape);
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, AdaptivePoolKernel<T>, shape, count, static_cast<const T*>(x),
          static_cast<T*>(y));
  });
}

cudaError_t AdaptivePoolGradient(cudaStream_t stream, Type type, const ResizeShape& shape,
                                 const void* dy, void* dx) {
  const int64_t count = InputCount(shape);
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, AdaptivePoolGradientKernel<T>, shape, count,
          static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

cudaError_t UpsampleForward(cudaStream_t stream, Type type, const ResizeShape& shape, const void* x,
                            void* y) {
  const int64_t count = OutputCount(shape);
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, UpsampleKernel<T>, shape, count, static_cast<const T*>(x),
          static_cast<T*>(y));
  });
}

cudaError_t UpsampleGradient(cudaStream_t stream, Type type, const ResizeShape& shape,
                             const void* dy, void* dx) {
  const int64_t count = InputCount(shape);
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, UpsampleGradientKernel<T>, shape, count,
          static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

cudaError_t ResponseNormForward(cudaStream_t stream, Type type, const LocalResponseNorm& op,
                                int64_t pixels, int64_t channels, const void* x, void* y,
                                float* scale) {
  const int64_t count = pixels * channels;
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, ResponseNormKernel<T>, op, count, channels,
          static_cast<const T*>(x), static_cast<T*>(y), scale);
  });
}

cudaError_t ResponseNormGradient(cudaStream_t stream, Type type, const LocalResponseNorm& op,
                                 int64_t pixels, int64_t channels, const void* x,
                                 const float* scale, const void* dy, void* dx) {
  const int64_t count = pixels * channels;
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, ResponseNormGradientKernel<T>, op, count, channels,
          static_cast<const T*>(x), scale, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace psgd::cudnn
