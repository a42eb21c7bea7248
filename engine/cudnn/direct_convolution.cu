#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

// Plain sums, for the convolutions that cuDNN refuses. They are never fast, but always right.
namespace psgd::cudnn {
namespace {

// The row or column of the output whose window has its element `place` at `at`; -1: there is none.
__device__ int64_t OutputOf(int64_t at, int64_t place, int64_t stride, int64_t pad,
                            int64_t dilation, int64_t out) {
  const int64_t first = at + pad - place * dilation;
  if (first < 0 || first % stride != 0 || first / stride >= out) return -1;
  return first / stride;
}

template <typename T>
__global__ void DirectForwardKernel(DirectConvolution s, Grid grid, int64_t count, const T* x,
                                    const T* w, T* y) {
  const int64_t of_group = s.channels / s.groups, outputs_of_group = s.outputs / s.groups;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = grid.At(i);
    const int64_t first = at.channel / outputs_of_group * of_group;
    float sum = 0;
    for (int64_t u = 0; u < s.kernel_height; ++u) {
      const int64_t row = at.row * s.stride_height - s.pad_height + u * s.dilation_height;
      if (row < 0 || row >= s.height) continue;
      for (int64_t v = 0; v < s.kernel_width; ++v) {
        const int64_t column = at.column * s.stride_width - s.pad_width + v * s.dilation_width;
        if (column < 0 || column >= s.width) continue;
        const int64_t of_x = ((at.image * s.height + row) * s.width + column) * s.channels + first;
        const int64_t of_w = ((at.channel * s.kernel_height + u) * s.kernel_width + v) * of_group;
        for (int64_t c = 0; c < of_group; ++c) sum += Load(x, of_x + c) * Load(w, of_w + c);
      }
    }
    Store(sum, y, i);
  }
}

template <typename T>
__global__ void DirectDataKernel(DirectConvolution s, Grid grid, int64_t count, const T* w,
                                 const T* dy, T* dx) {
  const int64_t of_group = s.channels / s.groups, outputs_of_group = s.outputs / s.groups;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const Place at = grid.At(i);
    const int64_t first = at.channel / of_group * outputs_of_group;
    float sum = 0;
    for (int64_t u = 0; u < s.kernel_height; ++u) {
      const int64_t row =
          OutputOf(at.row, u, s.stride_height, s.pad_height, s.dilation_height, s.out_height);
      if (row < 0) continue;
      for (int64_t v = 0; v < s.kernel_width; ++v) {
        const int64_t column =
            OutputOf(at.column, v, s.stride_width, s.pad_width, s.dilation_width, s.out_width);
        if (column < 0) continue;
        const int64_t of_y = ((at.image * s.out_height + row) * s.out_width + column) * s.outputs;
        for (int64_t o = first; o < first + outputs_of_group; ++o) {
          const int64_t of_w =
              ((o * s.kernel_height + u) * s.kernel_width + v) * of_group + at.channel % of_group;
          sum += Load(dy, of_y + o) * Load(w, of_w);
        }
      }
    }
    Store(sum, dx, i);
  }
}

// A warp makes one element at a time.
template <typename T>
__global__ void DirectWeightsKernel(DirectConvolution s, Grid filters, Grid grid, int64_t count,
                                    const T* x, const T* dy, T* dw) {
  const int64_t of_group = s.channels / s.groups, outputs_of_group = s.outputs / s.groups;
  const int64_t places = s.images * s.out_height * s.out_width;
  const int lane = threadIdx.x % kWarp;
  for (int64_t i = FirstIndex() / kWarp; i < count; i += IndexStep() / kWarp) {
    const Place of = filters.At(i);
    const int64_t o = of.image, channel = o / outputs_of_group * of_group + of.channel;
    float sum = 0;
    for (int64_t place = lane; place < places; place += kWarp) {
      const Place at = grid.At(place);
      const int64_t row = at.row * s.stride_height - s.pad_height + of.row * s.dilation_height;
      const int64_t column =
          at.column * s.stride_width - s.pad_width + of.column * s.dilation_width;
      if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
      sum += Load(x, ((at.image * s.height + row) * s.width + column) * s.channels + channel) *
             Load(dy, place * s.outputs + o);
    }
    sum = SumOfWarp(sum);
    if (lane == 0) Store(sum, dw, i);
  }
}

}  // namespace

cudaError_t DirectForward(cudaStream_t stream, Type type, const DirectConvolution& shape,
                          const void* x, const void* w, void* y) {
  const int64_t count = shape.images * shape.out_height * shape.out_width * shape.outputs;
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, DirectForwardKernel<T>, shape,
          Grid(shape.out_height, shape.out_width, shape.outputs), count, static_cast<const T*>(x),
          static_cast<const T*>(w), static_cast<T*>(y));
  });
}

cudaError_t DirectData(cudaStream_t stream, Type type, const DirectConvolution& shape,
                       const void* w, const void* dy, void* dx) {
  const int64_t count = shape.images * shape.height * shape.width * shape.channels;
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, DirectDataKernel<T>, shape,
          Grid(shape.height, shape.width, shape.channels), count, static_cast<const T*>(w),
          static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

cudaError_t DirectWeights(cudaStream_t stream, Type type, const DirectConvolution& shape,
                          const void* x, const void* dy, void* dw) {
  const int64_t count =
      shape.outputs * shape.kernel_height * shape.kernel_width * (shape.channels / shape.groups);
  return ForElements(type, kWarp * count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, DirectWeightsKernel<T>, shape,
          Grid(shape.kernel_height, shape.kernel_width, shape.channels / shape.groups),
          Grid(shape.out_height, shape.out_width, 1), count, static_cast<const T*>(x),
          static_cast<const T*>(dy), static_cast<T*>(dw));
  });
}

}  // namespace psgd::cudnn
