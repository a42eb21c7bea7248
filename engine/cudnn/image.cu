// Kernels on channels-last images: adaptive pooling, upsampling, and normalization across channels.
#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

int64_t InputCount(const ResizeShape& s) { return s.images * s.channels * s.height * s.width; }
int64_t OutputCount(const ResizeShape& s) {
  return s.images * s.channels * s.out_height * s.out_width;
}

Grid InputGrid(const ResizeShape& s) { return Grid(s.height, s.width, s.channels); }
Grid OutputGrid(const ResizeShape& s) { return Grid(s.out_height, s.out_width, s.channels); }

__device__ int64_t InputIndex(const ResizeShape& s, const Place& at, int64_t row, int64_t column) {
  return ((at.image * s.height + row) * s.width + column) * s.channels + at.channel;
}
__device__ int64_t OutputIndex(const ResizeShape& s, const Place& at, int64_t row, int64_t column) {
  return ((at.image * s.out_height + row) * s.out_width + column) * s.channels + at.channel;
}

// An axis of adaptive pooling: adaptive_average_pool.h has the formulas.
struct Windows {
  Windows(int64_t size, int64_t windows) : size(size), windows(windows) {}

  __device__ int64_t Begin(int64_t i) const { return windows.Quotient(i * size.value()); }
  __device__ int64_t End(int64_t i) const {
    return windows.Quotient((i + 1) * size.value() + windows.value() - 1);
  }
  __device__ int64_t First(int64_t at) const { return size.Quotient(at * windows.value()); }
  __device__ int64_t Last(int64_t at) const {
    return size.Quotient((at + 1) * windows.value() - 1);
  }

  Divisor size, windows;
};

template <typename T>
__global__ void AdaptivePoolKernel(ResizeShape s, Grid grid, Windows rows, Windows columns,
                                   int64_t count, const T* x, T* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = grid.At(i);
    const int64_t top = rows.Begin(at.row), bottom = rows.End(at.row);
    const int64_t left = columns.Begin(at.column), right = columns.End(at.column);
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
__global__ void AdaptivePoolGradientKernel(ResizeShape s, Grid grid, Windows rows, Windows columns,
                                           int64_t count, const T* dy, T* dx) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = grid.At(i);
    const int64_t last_row = rows.Last(at.row), last_column = columns.Last(at.column);
    float sum = 0;
    for (int64_t r = rows.First(at.row); r <= last_row; ++r) {
      const int64_t high = rows.End(r) - rows.Begin(r);
      for (int64_t c = columns.First(at.column); c <= last_column; ++c) {
        const int64_t wide = columns.End(c) - columns.Begin(c);
        sum += Load(dy, OutputIndex(s, at, r, c)) / static_cast<float>(high * wide);
      }
    }
    Store(sum, dx, i);
  }
}

template <typename T>
__global__ void UpsampleKernel(ResizeShape s, Grid grid, Divisor factor, int64_t count, const T* x,
                               T* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = grid.At(i);
    y[i] = x[InputIndex(s, at, factor.Quotient(at.row), factor.Quotient(at.column))];
  }
}

template <typename T>
__global__ void UpsampleGradientKernel(ResizeShape s, Grid grid, int64_t factor, int64_t count,
                                       const T* dy, T* dx) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = grid.At(i);
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
__device__ void ForEachNeighbour(int64_t i, const Divisor& channels, int size, Visit visit) {
  int64_t place = i;
  const int64_t channel = channels.Split(&place), pixel = i - channel, reach = size / 2;
  const int64_t first = channel > reach ? channel - reach : 0;
  const int64_t last = channel + reach < channels.value() ? channel + reach : channels.value() - 1;
  for (int64_t c = first; c <= last; ++c) visit(pixel + c);
}

template <typename T>
__global__ void ResponseNormKernel(LocalResponseNorm op, int64_t count, Divisor channels,
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
__global__ void ResponseNormGradientKernel(LocalResponseNorm op, int64_t count, Divisor channels,
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
    Start(stream, blocks, kThreads, AdaptivePoolKernel<T>, shape, OutputGrid(shape),
          Windows(shape.height, shape.out_height), Windows(shape.width, shape.out_width), count,
          static_cast<const T*>(x), static_cast<T*>(y));
  });
}

cudaError_t AdaptivePoolGradient(cudaStream_t stream, Type type, const ResizeShape& shape,
                                 const void* dy, void* dx) {
  const int64_t count = InputCount(shape);
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, AdaptivePoolGradientKernel<T>, shape, InputGrid(shape),
          Windows(shape.height, shape.out_height), Windows(shape.width, shape.out_width), count,
          static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

cudaError_t UpsampleForward(cudaStream_t stream, Type type, const ResizeShape& shape, const void* x,
                            void* y) {
  const int64_t count = OutputCount(shape);
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, UpsampleKernel<T>, shape, OutputGrid(shape),
          Divisor(shape.out_height / shape.height), count, static_cast<const T*>(x),
          static_cast<T*>(y));
  });
}

cudaError_t UpsampleGradient(cudaStream_t stream, Type type, const ResizeShape& shape,
                             const void* dy, void* dx) {
  const int64_t count = InputCount(shape);
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, UpsampleGradientKernel<T>, shape, InputGrid(shape),
          shape.out_height / shape.height, count, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

cudaError_t ResponseNormForward(cudaStream_t stream, Type type, const LocalResponseNorm& op,
                                int64_t pixels, int64_t channels, const void* x, void* y,
                                float* scale) {
  const int64_t count = pixels * channels;
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, ResponseNormKernel<T>, op, count, Divisor(channels),
          static_cast<const T*>(x), static_cast<T*>(y), scale);
  });
}

cudaError_t ResponseNormGradient(cudaStream_t stream, Type type, const LocalResponseNorm& op,
                                 int64_t pixels, int64_t channels, const void* x,
                                 const float* scale, const void* dy, void* dx) {
  const int64_t count = pixels * channels;
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, ResponseNormGradientKernel<T>, op, count, Divisor(channels),
          static_cast<const T*>(x), scale, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace psgd::cudnn
