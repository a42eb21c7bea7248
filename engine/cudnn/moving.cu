// Kernels that only move elements, and kernels for rows of tables.
#include <cub/device/device_radix_sort.cuh>

#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

// A piece of memory that moves as one. Larger pieces need fewer instructions.
template <int kBytes>
struct alignas(kBytes) Piece {
  uint8_t of[kBytes];
};

// A Move that divides fast.
struct Steps {
  explicit Steps(const Move& move) : move(move) {
    for (int axis = 0; axis < move.axes; ++axis) size[axis] = Divisor(move.size[axis]);
  }

  Move move;
  Divisor size[Move::kMostAxes];
};

template <typename Unit>
__global__ void MoveKernel(Steps steps, int64_t count, const Unit* from, Unit* to) {
  const Move& move = steps.move;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    int64_t rest = i, source = move.from_begin, target = move.to_begin;
    for (int axis = move.axes - 1; axis >= 0; --axis) {
      const int64_t at = steps.size[axis].Split(&rest);
      source += at * move.from_stride[axis];
      target += at * move.to_stride[axis];
    }
    to[target] = from[source];
  }
}

// Makes `elements` elements side by side one. Returns false if that is not possible.
bool Widen(int64_t elements, Move* move) {
  if (elements == 1) return true;
  const int last = move->axes - 1;
  if (last < 0 || move->from_stride[last] != 1 || move->to_stride[last] != 1) return false;
  Move wide = *move;
  bool whole = true;
  const auto divide = [&](int64_t* number) {
    whole &= *number % elements == 0;
    *number /= elements;
  };
  divide(&wide.size[last]);
  divide(&wide.from_begin);
  divide(&wide.to_begin);
  for (int axis = 0; axis < last; ++axis) {
    divide(&wide.from_stride[axis]);
    divide(&wide.to_stride[axis]);
  }
  if (whole) *move = wide;
  return whole;
}

// Starts the move in pieces if they hold whole elements and fit the move.
template <int kBytes>
bool StartPieces(cudaStream_t stream, size_t element, Move move, const void* from, void* to) {
  using Unit = Piece<kBytes>;
  const auto aligned = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % kBytes == 0; };
  if (kBytes < element || !aligned(from) || !aligned(to) ||
      !Widen(static_cast<int64_t>(kBytes / element), &move)) {
    return false;
  }
  int64_t count = 1;
  for (int axis = 0; axis < move.axes; ++axis) count *= move.size[axis];
  Start(stream, Blocks(count), kThreads, MoveKernel<Unit>, Steps(move), count,
        static_cast<const Unit*>(from), static_cast<Unit*>(to));
  return true;
}

struct Always {
  float value;
  __device__ float operator()() const { return value; }
};

template <typename T>
__global__ void MapAxisKernel(AxisShape s, Divisor by_inner, Divisor by_rows, const int32_t* first,
                              const int32_t* source, const float* weight, const T* x, T* y) {
  const int64_t count = s.outer * s.rows * s.inner;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    int64_t outer = i;
    const int64_t inner = by_inner.Split(&outer), row = by_rows.Split(&outer);
    double sum = 0;  // double, because a row may add up all pixels of an image
    for (int32_t k = first[row]; k < first[row + 1]; ++k) {
      sum += double{weight[k]} * Load(x, (outer * s.columns + source[k]) * s.inner + inner);
    }
    Store(static_cast<float>(sum), y, i);
  }
}

template <typename T>
__global__ void TableKernel(TableShape s, Divisor width, Run run, const int32_t* index,
                            const float* value, const float* w, T* y) {
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N>, int64_t i) {
    int64_t row = i;
    const int64_t column = width.Split(&row);
    Pack<float, N> sums = {};
    for (int64_t f = row * s.entries; f < (row + 1) * s.entries; ++f) {
      const float factor = value == nullptr ? 1.0f : value[f];
      if (factor == 0) continue;
      const Pack<float, N> weights = LoadPack<N>(w, index[f] * s.width + column);
#pragma unroll
      for (int k = 0; k < N; ++k) sums.of[k] += factor * weights.of[k];
    }
    StorePack(sums, y, i);
  });
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
__global__ void TableGradientKernel(TableShape s, Divisor width, Divisor entries,
                                    const int32_t* index, const int32_t* place, const float* value,
                                    const T* dy, float* dw) {
  for (int64_t i = FirstIndex(); i < s.places * s.width; i += IndexStep()) {
    int64_t begin = i;
    const int64_t column = width.Split(&begin);
    if (begin > 0 && index[begin - 1] == index[begin]) continue;
    const int64_t end = EndOfRun(index, begin, s.places);
    double sum = 0;  // double, because a common token has thousands of places
#pragma unroll 4
    for (int64_t k = begin; k < end; ++k) {
      const float factor = value == nullptr ? 1.0f : value[place[k]];
      const float from = Load(dy, entries.Quotient(place[k]) * s.width + column);
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
  const size_t element = TypeBytes(type);
  const bool started = StartPieces<16>(stream, element, move, from, to) ||
                       StartPieces<4>(stream, element, move, from, to) ||
                       StartPieces<2>(stream, element, move, from, to);
  return started ? cudaGetLastError() : cudaErrorInvalidValue;
}

cudaError_t Fill(cudaStream_t stream, Type type, int64_t count, float value, void* y) {
  return ForType(
      type, [&]<typename T>(T*) { StartMap(stream, count, Always{value}, static_cast<T*>(y)); });
}

cudaError_t MapAxis(cudaStream_t stream, Type type, const AxisShape& shape, const int32_t* first,
                    const int32_t* source, const float* weight, const void* x, void* y) {
  return ForElements(type, shape.outer * shape.rows * shape.inner, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, MapAxisKernel<T>, shape, Divisor(shape.inner),
          Divisor(shape.rows), first, source, weight, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

cudaError_t TableForward(cudaStream_t stream, Type type, const TableShape& shape,
                         const int32_t* index, const float* value, const float* w, void* y) {
  return ForType(type, [&]<typename T>(T*) {
    T* to = static_cast<T*>(y);
    const Run run =
        RunOfRows<kPackOf<T>>(shape.places / shape.entries * shape.width, shape.width, w, to);
    Start(stream, Blocks(run), kThreads, TableKernel<T>, shape, Divisor(shape.width), run, index,
          value, w, to);
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
    Start(stream, blocks, kThreads, TableGradientKernel<T>, shape, Divisor(shape.width),
          Divisor(shape.entries), sorted.index, sorted.place, value, static_cast<const T*>(dy), dw);
  });
}

}  // namespace psgd::cudnn
