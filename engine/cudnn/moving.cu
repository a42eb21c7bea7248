// Kernels that only move elements, and kernels for rows of tables.
#include <cub/device/device_radix_sort.cuh>

#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

// Index: 32 bits if the count fits, because 64-bit divisions take longer than the copy.
template <typename T, typename Index>
__global__ void MoveKernel(Move move, int64_t count, const T* from, T* to) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    Index rest = static_cast<Index>(i);
    int64_t source = move.from_begin, target = move.to_begin;
    for (int axis = move.axes - 1; axis >= 0; --axis) {
      const Index size = static_cast<Index>(move.size[axis]);
      const auto at = static_cast<int64_t>(rest % size);
      rest /= size;
      source += at * move.from_stride[axis];
      target += at * move.to_stride[axis];
    }
    to[target] = from[source];
  }
}

template <typename T>
__global__ void FillKernel(int64_t count, float value, T* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) Store(value, y, i);
}

template <typename T>
__global__ void MapAxisKernel(AxisShape s, const int32_t* first, const int32_t* source,
                              const float* weight, const T* x, T* y) {
  const int64_t count = s.outer * s.rows * s.inner;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const int64_t inner = i % s.inner, row = i / s.inner % s.rows, outer = i / s.inner / s.rows;
    double sum = 0;  // double, because a row may add up all pixels of an image
    for (int32_t k = first[row]; k < first[row + 1]; ++k) {
      sum += double{weight[k]} * Load(x, (outer * s.columns + source[k]) * s.inner + inner);
    }
    Store(static_cast<float>(sum), y, i);
  }
}

template <typename T>
__global__ void TableKernel(TableShape s, const int32_t* index, const float* value, const float* w,
                            T* y) {
  const int64_t count = s.places / s.entries * s.width;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const int64_t row = i / s.width, column = i % s.width;
    float sum = 0;
    for (int64_t f = row * s.entries; f < (row + 1) * s.entries; ++f) {
      const float factor = value == nullptr ? 1.0f : value[f];
      if (factor != 0) sum += factor * w[index[f] * s.width + column];
    }
    Store(sum, y, i);
  }
}

__global__ void CountKernel(int64_t count, int32_t* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) y[i] = static_cast<int32_t>(i);
}

// The first place behind `begin` with a larger index. REQUIRES: `index` is sorted.
__device__ int64_t EndOfRun(const int32_t* index, int64_t begin, int64_t count) {
  const int32_t row = index[begin];
  int64_t low = begin + 1, high = count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (index[middle] == row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// A thread adds one column of a run of equal indices, in the order of the places. Unused rows are
// not written.
template <typename T>
__global__ void TableGradientKernel(TableShape s, const int32_t* index, const int32_t* place,
                                    const float* value, const T* dy, float* dw) {
  for (int64_t i = FirstIndex(); i < s.places * s.width; i += IndexStep()) {
    const int64_t begin = i / s.width, column = i % s.width;
    if (begin > 0 && index[begin - 1] == index[begin]) continue;
    const int64_t end = EndOfRun(index, begin, s.places);
    double sum = 0;  // double, because a common token has thousands of places
#pragma unroll 4
    for (int64_t k = begin; k < end; ++k) {
      const float factor = value == nullptr ? 1.0f : value[place[k]];
      const float from = Load(dy, place[k] / s.entries * s.width + column);
      if (factor != 0) sum += double{factor} * from;
    }
    dw[index[begin] * s.width + column] = static_cast<float>(sum);
  }
}

// The number of bits of an index below `rows`.
int IndexBits(int64_t rows) {
  int bits = 1;
  while (bits < 31 && (int64_t{1} << bits) < rows) ++bits;
  return bits;
}

// The scratch memory of a gradient: places in their order, the sorted indices, their places, and
// the sort's own memory.
struct SortMemory {
  SortMemory(void* memory, int64_t places)
      : counted(static_cast<int32_t*>(memory)),
        index(counted + Padded(places)),
        place(index + Padded(places)),
        rest(place + Padded(places)) {}
  static int64_t Padded(int64_t places) { return (places + 63) / 64 * 64; }

  int32_t *counted, *index, *place;
  void* rest;
};

cudaError_t Sort(cudaStream_t stream, const TableShape& shape, const int32_t* index,
                 const SortMemory& memory, void* rest, size_t* rest_bytes) {
  return cub::DeviceRadixSort::SortPairs(rest, *rest_bytes, index, memory.index, memory.counted,
                                         memory.place, shape.places, 0, IndexBits(shape.rows),
                                         stream);
}

}  // namespace

cudaError_t MoveElements(cudaStream_t stream, Type type, const Move& move, const void* from,
                         void* to) {
  int64_t count = 1;
  for (int axis = 0; axis < move.axes; ++axis) count *= move.size[axis];
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    if (count <= UINT32_MAX) {
      Start(stream, blocks, kThreads, MoveKernel<T, uint32_t>, move, count,
            static_cast<const T*>(from), static_cast<T*>(to));
    } else {
      Start(stream, blocks, kThreads, MoveKernel<T, uint64_t>, move, count,
            static_cast<const T*>(from), static_cast<T*>(to));
    }
  });
}

cudaError_t Fill(cudaStream_t stream, Type type, int64_t count, float value, void* y) {
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, FillKernel<T>, count, value, static_cast<T*>(y));
  });
}

cudaError_t MapAxis(cudaStream_t stream, Type type, const AxisShape& shape, const int32_t* first,
                    const int32_t* source, const float* weight, const void* x, void* y) {
  return ForElements(type, shape.outer * shape.rows * shape.inner, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, MapAxisKernel<T>, shape, first, source, weight,
          static_cast<const T*>(x), static_cast<T*>(y));
  });
}

cudaError_t TableForward(cudaStream_t stream, Type type, const TableShape& shape,
                         const int32_t* index, const float* value, const float* w, void* y) {
  return ForElements(
      type, shape.places / shape.entries * shape.width, [&]<typename T>(int blocks, T*) {
        Start(stream, blocks, kThreads, TableKernel<T>, shape, index, value, w, static_cast<T*>(y));
      });
}

cudaError_t TableGradientBytes(const TableShape& shape, size_t* bytes) {
  size_t rest = 0;
  const cudaError_t error = Sort(nullptr, shape, nullptr, SortMemory(nullptr, 0), nullptr, &rest);
  *bytes = 3 * SortMemory::Padded(shape.places) * sizeof(int32_t) + rest;
  return error;
}

cudaError_t TableGradient(cudaStream_t stream, Type type, const TableShape& shape,
                          const int32_t* index, const float* value, const void* dy, void* memory,
                          size_t bytes, float* dw) {
  const SortMemory sorted(memory, shape.places);
  size_t rest = bytes - 3 * SortMemory::Padded(shape.places) * sizeof(int32_t);
  Start(stream, Blocks(shape.places), kThreads, CountKernel, shape.places, sorted.counted);
  // A radix sort is stable, so places of one index stay in their order.
  cudaError_t error = Sort(stream, shape, index, sorted, sorted.rest, &rest);
  if (error != cudaSuccess) return error;
  error = cudaMemsetAsync(dw, 0, shape.rows * shape.width * sizeof(float), stream);
  if (error != cudaSuccess) return error;
  return ForElements(type, shape.places * shape.width, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, TableGradientKernel<T>, shape, sorted.index, sorted.place,
          value, static_cast<const T*>(dy), dw);
  });
}

}  // namespace psgd::cudnn
