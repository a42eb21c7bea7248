#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

// Kernels run over packs of channels, which lie side by side. Grids: that of x for gradients, else
// that of y.

// The windows over element `at`: [first, last].
struct Span {
  int64_t first, last;
};
__device__ Span WindowsOver(int64_t at, int64_t kernel, const Divisor& stride, int64_t pad,
                            int64_t out) {
  const int64_t lowest = at + pad - kernel + 1;
  const int64_t first = lowest <= 0 ? 0 : stride.Quotient(lowest + stride.value() - 1);
  const int64_t last = stride.Quotient(at + pad);
  return {first, last < out ? last : out - 1};
}

// Calls visit(index of x, place in the window) for the elements of the window of output `at` that
// lie inside the image, in row-major order.
template <typename Visit>
__device__ void ForEachInWindow(const PoolShape& s, const Place& at, Visit visit) {
  for (int64_t u = 0; u < s.kernel_height; ++u) {
    const int64_t row = at.row * s.stride_height + u - s.pad_height;
    if (row < 0 || row >= s.height) continue;
#pragma unroll 1
    for (int64_t v = 0; v < s.kernel_width; ++v) {
      const int64_t column = at.column * s.stride_width + v - s.pad_width;
      if (column < 0 || column >= s.width) continue;
      visit(((at.image * s.height + row) * s.width + column) * s.channels + at.channel,
            u * s.kernel_width + v);
    }
  }
}

template <typename T>
__global__ void MaxPoolKernel(PoolShape s, Grid grid, Run run, const T* x, T* y, uint16_t* where) {
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N>, int64_t i) {
    Pack<float, N> best = {};
    Pack<uint16_t, N> places = {};
    bool first = true;
    ForEachInWindow(s, grid.At(i), [&](int64_t from, int64_t in_window) {
      const Pack<float, N> values = LoadPack<N>(x, from);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float value = values.of[k];
        if (!first && !(value > best.of[k]) && value == value) continue;  // NaN is the largest
        best.of[k] = value;
        places.of[k] = static_cast<uint16_t>(in_window);
      }
      first = false;
    });
    StorePack(best, y, i);
    *reinterpret_cast<Pack<uint16_t, N>*>(where + i) = places;
  });
}

// Each thread gathers its elements of dx, so no two threads write one place and the order of the
// sum is fixed. flow(Width<N>, index of y, place in its window) returns the contribution of that y.
template <typename T, typename Flow>
__device__ void GatherGradient(const PoolShape& s, const Grid& grid, const Divisor& stride_height,
                               const Divisor& stride_width, const Run& run, T* dx, Flow flow) {
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N> width, int64_t i) {
    const Place at = grid.At(i);
    const Span rows =
        WindowsOver(at.row, s.kernel_height, stride_height, s.pad_height, s.out_height);
    const Span columns =
        WindowsOver(at.column, s.kernel_width, stride_width, s.pad_width, s.out_width);
    Pack<float, N> sums = {};
    for (int64_t r = rows.first; r <= rows.last; ++r) {
#pragma unroll 1
      for (int64_t c = columns.first; c <= columns.last; ++c) {
        const int64_t place = (at.row + s.pad_height - r * s.stride_height) * s.kernel_width +
                              at.column + s.pad_width - c * s.stride_width;
        const Pack<float, N> more =
            flow(width, ((at.image * s.out_height + r) * s.out_width + c) * s.channels + at.channel,
                 place);
#pragma unroll
        for (int k = 0; k < N; ++k) sums.of[k] += more.of[k];
      }
    }
    StorePack(sums, dx, i);
  });
}

template <typename T>
__global__ void MaxPoolGradientKernel(PoolShape s, Grid grid, Divisor stride_height,
                                      Divisor stride_width, Run run, const T* dy,
                                      const uint16_t* where, T* dx) {
  GatherGradient(s, grid, stride_height, stride_width, run, dx,
                 [&]<int N>(Width<N>, int64_t y, int64_t place) {
                   const auto places = *reinterpret_cast<const Pack<uint16_t, N>*>(where + y);
                   Pack<float, N> values = LoadPack<N>(dy, y);
#pragma unroll
                   for (int k = 0; k < N; ++k) {
                     if (places.of[k] != place) values.of[k] = 0;
                   }
                   return values;
                 });
}

template <typename T>
__global__ void AveragePoolKernel(PoolShape s, Grid grid, Run run, const T* x, T* y) {
  const float share = 1.0f / static_cast<float>(s.kernel_height * s.kernel_width);
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N>, int64_t i) {
    Pack<float, N> sums = {};
    ForEachInWindow(s, grid.At(i), [&](int64_t from, int64_t) {
      const Pack<float, N> values = LoadPack<N>(x, from);
#pragma unroll
      for (int k = 0; k < N; ++k) sums.of[k] += values.of[k];
    });
#pragma unroll
    for (int k = 0; k < N; ++k) sums.of[k] *= share;
    StorePack(sums, y, i);
  });
}

template <typename T>
__global__ void AveragePoolGradientKernel(PoolShape s, Grid grid, Divisor stride_height,
                                          Divisor stride_width, Run run, const T* dy, T* dx) {
  const float share = 1.0f / static_cast<float>(s.kernel_height * s.kernel_width);
  GatherGradient(s, grid, stride_height, stride_width, run, dx,
                 [&]<int N>(Width<N>, int64_t y, int64_t) {
                   Pack<float, N> values = LoadPack<N>(dy, y);
#pragma unroll
                   for (int k = 0; k < N; ++k) values.of[k] *= share;
                   return values;
                 });
}

int64_t InputCount(const PoolShape& s) { return s.images * s.channels * s.height * s.width; }
int64_t OutputCount(const PoolShape& s) {
  return s.images * s.channels * s.out_height * s.out_width;
}
Grid InputGrid(const PoolShape& s) { return Grid(s.height, s.width, s.channels); }
Grid OutputGrid(const PoolShape& s) { return Grid(s.out_height, s.out_width, s.channels); }

}  // namespace

cudaError_t MaxPoolForward(cudaStream_t stream, Type type, const PoolShape& shape, const void* x,
                           void* y, uint16_t* where) {
  return ForType(type, [&]<typename T>(T*) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    const Run run = RunOfRows<kPackOf<T>>(OutputCount(shape), shape.channels, from, to, where);
    Start(stream, Blocks(run), kThreads, MaxPoolKernel<T>, shape, OutputGrid(shape), run, from, to,
          where);
  });
}

cudaError_t MaxPoolGradient(cudaStream_t stream, Type type, const PoolShape& shape, const void* dy,
                            const uint16_t* where, void* dx) {
  return ForType(type, [&]<typename T>(T*) {
    const T* from = static_cast<const T*>(dy);
    T* to = static_cast<T*>(dx);
    const Run run = RunOfRows<kPackOf<T>>(InputCount(shape), shape.channels, from, to, where);
    Start(stream, Blocks(run), kThreads, MaxPoolGradientKernel<T>, shape, InputGrid(shape),
          Divisor(shape.stride_height), Divisor(shape.stride_width), run, from, where, to);
  });
}

cudaError_t AveragePoolForward(cudaStream_t stream, Type type, const PoolShape& shape,
                               const void* x, void* y) {
  return ForType(type, [&]<typename T>(T*) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    const Run run = RunOfRows<kPackOf<T>>(OutputCount(shape), shape.channels, from, to);
    Start(stream, Blocks(run), kThreads, AveragePoolKernel<T>, shape, OutputGrid(shape), run, from,
          to);
  });
}

cudaError_t AveragePoolGradient(cudaStream_t stream, Type type, const PoolShape& shape,
                                const void* dy, void* dx) {
  return ForType(type, [&]<typename T>(T*) {
    const T* from = static_cast<const T*>(dy);
    T* to = static_cast<T*>(dx);
    const Run run = RunOfRows<kPackOf<T>>(InputCount(shape), shape.channels, from, to);
    Start(stream, Blocks(run), kThreads, AveragePoolGradientKernel<T>, shape, InputGrid(shape),
          Divisor(shape.stride_height), Divisor(shape.stride_width), run, from, to);
  });
}

}  // namespace psgd::cudnn
