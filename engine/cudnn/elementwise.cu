#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"
#include "engine/ops/activation_formula.h"

namespace psgd::cudnn {
namespace {

template <typename From, typename To>
__global__ void CastKernel(int64_t count, const From* from, To* to) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) Store(Load(from, i), to, i);
}

constexpr int kTile = 32;
constexpr int kTileRows = 8;

// Transposes rows x columns matrices, one a grid z. Tiles in shared memory let it read and write
// whole lines.
template <typename From, typename To>
__global__ void TransposeKernel(int64_t rows, int64_t columns, const From* from, To* to) {
  __shared__ float tile[kTile][kTile + 1];  // one more column avoids bank conflicts
  const int64_t matrix = blockIdx.z * rows * columns;
  const int64_t column = int64_t{blockIdx.x} * kTile;
  for (int64_t row = int64_t{blockIdx.y} * kTile; row < rows; row += int64_t{gridDim.y} * kTile) {
    for (int r = threadIdx.y; r < kTile; r += kTileRows) {
      if (row + r < rows && column + threadIdx.x < columns) {
        tile[r][threadIdx.x] = Load(from, matrix + (row + r) * columns + column + threadIdx.x);
      }
    }
    __syncthreads();
    for (int c = threadIdx.y; c < kTile; c += kTileRows) {
      if (column + c < columns && row + threadIdx.x < rows) {
        Store(tile[threadIdx.x][c], to, matrix + (column + c) * rows + row + threadIdx.x);
      }
    }
    __syncthreads();
  }
}

template <typename From, typename To>
cudaError_t ConvertAs(cudaStream_t stream, const ImageShape& shape, bool transpose, bool to_last,
                      const From* from, To* to) {
  if (!transpose) {
    const int64_t count = shape.images * shape.channels * shape.area;
    Start(stream, Blocks(count), kThreads, CastKernel<From, To>, count, from, to);
    return cudaGetLastError();
  }
  const int64_t rows = to_last ? shape.channels : shape.area;
  const int64_t columns = to_last ? shape.area : shape.channels;
  constexpr int64_t kMost = 65535;  // limit of a grid's second and third axis
  for (int64_t first = 0; first < shape.images; first += kMost) {
    const dim3 grid(static_cast<unsigned>((columns + kTile - 1) / kTile),
                    static_cast<unsigned>(std::min(kMost, (rows + kTile - 1) / kTile)),
                    static_cast<unsigned>(std::min(kMost, shape.images - first)));
    const int64_t offset = first * rows * columns;
    Start(stream, grid, dim3(kTile, kTileRows), TransposeKernel<From, To>, rows, columns,
          from + offset, to + offset);
  }
  return cudaGetLastError();
}

template <typename T>
__global__ void ReluKernel(int64_t count, const T* x, T* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const float value = Load(x, i);
    Store(value <= 0 ? 0.0f : value, y, i);  // NaN stays
  }
}

template <typename T>
__global__ void ReluGradientKernel(int64_t count, const T* y, const T* dy, T* dx) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    Store(Load(y, i) <= 0 ? 0.0f : Load(dy, i), dx, i);
  }
}

template <typename T>
__global__ void AddPairKernel(int64_t count, const T* a, const T* b, T* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) Store(Load(a, i) + Load(b, i), y, i);
}

template <typename T>
__global__ void MultiplyPairKernel(int64_t count, const T* a, const T* b, T* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) Store(Load(a, i) * Load(b, i), y, i);
}

template <typename T>
__global__ void ActivationKernel(Activation op, int64_t count, const T* x, T* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    Store(ActivationOf(op, Load(x, i)), y, i);
  }
}

template <typename T>
__global__ void ActivationGradientKernel(Activation op, int64_t count, const T* of, const T* dy,
                                         T* dx) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    Store(Load(dy, i) * ActivationSlope(op, Load(of, i)), dx, i);
  }
}

// No __restrict__: y may be x.
template <typename T>
__global__ void AddBiasKernel(int64_t count, int64_t channels, int64_t inner, const T* x,
                              const float* bias, T* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const int64_t place = inner == 1 ? i : i / inner;
    Store(Load(x, i) + bias[place % channels], y, i);
  }
}

// A thread draws the four elements of one counter.
template <typename T>
__global__ void DropoutKernel(int64_t count, float rate, PhiloxKey key, const StepValues* step,
                              const T* x, T* y, uint8_t* mask) {
  const float scale = 1.0f / (1.0f - rate);
  for (int64_t block = FirstIndex(); block * 4 < count; block += IndexStep()) {
    const PhiloxBlock draw = Philox(key, block, step->number);
    for (int64_t i = block * 4; i < count && i < block * 4 + 4; ++i) {
      mask[i] = UnitFloat(draw.word[i - block * 4]) >= rate;
      Store(mask[i] ? Load(x, i) * scale : 0.0f, y, i);
    }
  }
}

template <typename T>
__global__ void DropoutGradientKernel(int64_t count, float rate, const T* dy, const uint8_t* mask,
                                      T* dx) {
  const float scale = 1.0f / (1.0f - rate);
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    Store(mask[i] ? Load(dy, i) * scale : 0.0f, dx, i);
  }
}

__global__ void SetStepValuesKernel(StepValues values, StepValues* step) { *step = values; }

// There is no race: all threads that find an overflow write the same value.
__global__ void UnscaleKernel(int64_t count, float* gradient, StepValues* step) {
  const float factor = 1 / step->loss_scale;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const float value = gradient[i] * factor;
    gradient[i] = value;
    if (!isfinite(value)) step->overflowed = 1;
  }
}

}  // namespace

cudaError_t SetStepValues(cudaStream_t stream, const StepValues& values, StepValues* step) {
  Start(stream, 1, 1, SetStepValuesKernel, values, step);
  return cudaGetLastError();
}

cudaError_t Unscale(cudaStream_t stream, int64_t count, float* gradient, StepValues* step) {
  Start(stream, Blocks(count), kThreads, UnscaleKernel, count, gradient, step);
  return cudaGetLastError();
}

cudaError_t Convert(cudaStream_t stream, const ImageShape& shape, const void* from,
                    Format from_format, void* to, Format to_format) {
  // With one channel or one pixel both layouts are the same.
  const bool transpose =
      from_format.layout != to_format.layout && shape.channels > 1 && shape.area > 1;
  const bool to_last = to_format.layout == Layout::kChannelsLast;
  cudaError_t error = cudaErrorInvalidValue;
  ForType(from_format.type, [&]<typename From>(From*) {
    ForType(to_format.type, [&]<typename To>(To*) {
      // A device computes in only one type besides fp32.
      if constexpr (std::is_same_v<From, To> || std::is_same_v<From, float> ||
                    std::is_same_v<To, float>) {
        error = ConvertAs(stream, shape, transpose, to_last, static_cast<const From*>(from),
                          static_cast<To*>(to));
      }
    });
  });
  return error;
}

cudaError_t ReluForward(cudaStream_t stream, Type type, int64_t count, const void* x, void* y) {
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, ReluKernel<T>, count, static_cast<const T*>(x),
          static_cast<T*>(y));
  });
}

cudaError_t ReluGradient(cudaStream_t stream, Type type, int64_t count, const void* y,
                         const void* dy, void* dx) {
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, ReluGradientKernel<T>, count, static_cast<const T*>(y),
          static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

cudaError_t AddPair(cudaStream_t stream, Type type, int64_t count, const void* a, const void* b,
                    void* y) {
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, AddPairKernel<T>, count, static_cast<const T*>(a),
          static_cast<const T*>(b), static_cast<T*>(y));
  });
}

cudaError_t MultiplyPair(cudaStream_t stream, Type type, int64_t count, const void* a,
                         const void* b, void* y) {
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, MultiplyPairKernel<T>, count, static_cast<const T*>(a),
          static_cast<const T*>(b), static_cast<T*>(y));
  });
}

cudaError_t ActivationForward(cudaStream_t stream, Type type, const Activation& op, int64_t count,
                              const void* x, void* y) {
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, ActivationKernel<T>, op, count, static_cast<const T*>(x),
          static_cast<T*>(y));
  });
}

cudaError_t ActivationGradient(cudaStream_t stream, Type type, const Activation& op, int64_t count,
                               const void* of, const void* dy, void* dx) {
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, ActivationGradientKernel<T>, op, count,
          static_cast<const T*>(of), static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

cudaError_t AddBias(cudaStream_t stream, Type type, int64_t count, int64_t channels, int64_t inner,
                    const void* x, const float* bias, void* y) {
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, AddBiasKernel<T>, count, channels, inner,
          static_cast<const T*>(x), bias, static_cast<T*>(y));
  });
}

cudaError_t DropoutForward(cudaStream_t stream, Type type, int64_t count, float rate, PhiloxKey key,
                           const StepValues* step, const void* x, void* y, uint8_t* mask) {
  return ForType(type, [&]<typename T>(T*) {
    Start(stream, Blocks((count + 3) / 4), kThreads, DropoutKernel<T>, count, rate, key, step,
          static_cast<const T*>(x), static_cast<T*>(y), mask);
  });
}

cudaError_t DropoutGradient(cudaStream_t stream, Type type, int64_t count, float rate,
                            const void* dy, const uint8_t* mask, void* dx) {
  return ForElements(type, count, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, DropoutGradientKernel<T>, count, rate,
          static_cast<const T*>(dy), mask, static_cast<T*>(dx));
  });
}

}  // namespace psgd::cudnn
