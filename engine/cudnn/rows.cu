// Normalization of rows: layer normalization, softmax, and lengths for masks. A warp computes a
// row: its lanes stride along the row, and their sums are added in a fixed order.
#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

// For a loop `for (row = FirstRow(); row < rows; row += RowStep())`, the same for all lanes of a
// warp.
__device__ int64_t FirstRow() { return FirstIndex() / kWarp; }
__device__ int64_t RowStep() { return IndexStep() / kWarp; }
__device__ int Lane() { return threadIdx.x % kWarp; }

int RowBlocks(int64_t rows) { return Blocks(rows * kWarp); }

// Sum of term(i) over i < width.
template <typename Term>
__device__ float SumOfRow(int64_t width, Term term) {
  float sum = 0;
  for (int64_t i = Lane(); i < width; i += kWarp) sum += term(i);
  return SumOfWarp(sum);
}

template <typename T>
__global__ void LayerNormKernel(int64_t rows, int64_t width, const T* all_x, const float* gamma,
                                const float* beta, float epsilon, T* all_y, float* all_mean,
                                float* all_var) {
  const float count = static_cast<float>(width);
  for (int64_t row = FirstRow(); row < rows; row += RowStep()) {
    const T* x = all_x + row * width;
    T* y = all_y + row * width;
    const float mean = SumOfRow(width, [&](int64_t i) { return Load(x, i); }) / count;
    // A second pass, because squares of values far from zero would drown the variance.
    const float var = SumOfRow(width,
                               [&](int64_t i) {
                                 const float d = Load(x, i) - mean;
                                 return d * d;
                               }) /
                      count;
    const float inverse = 1 / sqrtf(var + epsilon);
    for (int64_t i = Lane(); i < width; i += kWarp) {
      Store((Load(x, i) - mean) * inverse * gamma[i] + beta[i], y, i);
    }
    if (Lane() > 0) continue;
    all_mean[row] = mean;
    all_var[row] = var;
  }
}

template <typename T>
__global__ void LayerNormGradientKernel(int64_t rows, int64_t width, const T* all_x,
                                        const float* gamma, const float* all_mean,
                                        const float* all_var, const T* all_dy, float epsilon,
                                        T* all_dx) {
  const float count = static_cast<float>(width);
  for (int64_t row = FirstRow(); row < rows; row += RowStep()) {
    const T *x = all_x + row * width, *dy = all_dy + row * width;
    T* dx = all_dx + row * width;
    const float mean = all_mean[row], inverse = 1 / sqrtf(all_var[row] + epsilon);
    const float sum = SumOfRow(width, [&](int64_t i) { return gamma[i] * Load(dy, i); });
    const float projected = SumOfRow(
        width, [&](int64_t i) { return gamma[i] * Load(dy, i) * ((Load(x, i) - mean) * inverse); });
    for (int64_t i = Lane(); i < width; i += kWarp) {
      const float normal = (Load(x, i) - mean) * inverse;
      Store(inverse * (gamma[i] * Load(dy, i) - sum / count - normal * (projected / count)), dx, i);
    }
  }
}

// The number of open places, which are the first places of the row.
__device__ int64_t OpenPlaces(const SoftmaxShape& s, int64_t row, const int32_t* lengths) {
  int64_t open = s.keys;
  if (s.queries > 0) open = min(open, row % s.queries + 1 + s.keys - s.queries);
  if (lengths != nullptr) open = min(open, int64_t{lengths[row / s.rows_each]});
  return max(open, int64_t{0});
}

template <typename T>
__global__ void SoftmaxKernel(SoftmaxShape s, const T* all_x, const int32_t* lengths, T* all_y) {
  for (int64_t row = FirstRow(); row < s.rows; row += RowStep()) {
    const T* x = all_x + row * s.keys;
    T* y = all_y + row * s.keys;
    const int64_t open = OpenPlaces(s, row, lengths);
    float largest = -INFINITY;  // fmaxf drops NaN, but the exponentials of NaN stay NaN
    for (int64_t k = Lane(); k < open; k += kWarp) largest = fmaxf(largest, Load(x, k));
    for (int reach = kWarp / 2; reach > 0; reach /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFF, largest, reach));
    }
    const auto power = [&](int64_t k) { return expf(s.scale * (Load(x, k) - largest)); };
    const float sum = SumOfRow(open, power);
    for (int64_t k = Lane(); k < s.keys; k += kWarp) {
      Store(k < open ? power(k) / sum : 0.0f, y, k);
    }
  }
}

template <typename T>
__global__ void SoftmaxGradientKernel(SoftmaxShape s, const T* all_y, const T* all_dy, T* all_dx) {
  for (int64_t row = FirstRow(); row < s.rows; row += RowStep()) {
    const T *y = all_y + row * s.keys, *dy = all_dy + row * s.keys;
    T* dx = all_dx + row * s.keys;
    const float sum = SumOfRow(s.keys, [&](int64_t k) { return Load(y, k) * Load(dy, k); });
    for (int64_t k = Lane(); k < s.keys; k += kWarp) {
      Store(s.scale * (Load(y, k) * (Load(dy, k) - sum)), dx, k);
    }
  }
}

__global__ void LengthsKernel(Lengths op, int64_t rows, int64_t tokens, const int32_t* x,
                              int32_t* y) {
  for (int64_t row = FirstIndex(); row < rows; row += IndexStep()) y[row] = op.Of(x + row * tokens);
}

}  // namespace

cudaError_t LengthsOfRows(cudaStream_t stream, const Lengths& op, int64_t rows, int64_t tokens,
                          const int32_t* x, int32_t* y) {
  Start(stream, Blocks(rows), kThreads, LengthsKernel, op, rows, tokens, x, y);
  return cudaGetLastError();
}

cudaError_t LayerNormForward(cudaStream_t stream, Type type, int64_t rows, int64_t width,
                             const void* x, const float* gamma, const float* beta, float epsilon,
                             void* y, float* mean, float* var) {
  return ForType(type, [&]<typename T>(T*) {
    Start(stream, RowBlocks(rows), kThreads, LayerNormKernel<T>, rows, width,
          static_cast<const T*>(x), gamma, beta, epsilon, static_cast<T*>(y), mean, var);
  });
}

cudaError_t LayerNormGradient(cudaStream_t stream, Type type, int64_t rows, int64_t width,
                              const void* x, const float* gamma, const float* mean,
                              const float* var, const void* dy, float epsilon, void* dx) {
  return ForType(type, [&]<typename T>(T*) {
    Start(stream, RowBlocks(rows), kThreads, LayerNormGradientKernel<T>, rows, width,
          static_cast<const T*>(x), gamma, mean, var, static_cast<const T*>(dy), epsilon,
          static_cast<T*>(dx));
  });
}

cudaError_t SoftmaxForward(cudaStream_t stream, Type type, const SoftmaxShape& shape, const void* x,
                           const int32_t* lengths, void* y) {
  return ForType(type, [&]<typename T>(T*) {
    Start(stream, RowBlocks(shape.rows), kThreads, SoftmaxKernel<T>, shape,
          static_cast<const T*>(x), lengths, static_cast<T*>(y));
  });
}

cudaError_t SoftmaxGradient(cudaStream_t stream, Type type, const SoftmaxShape& shape,
                            const void* y, const void* dy, void* dx) {
  return ForType(type, [&]<typename T>(T*) {
    Start(stream, RowBlocks(shape.rows), kThreads, SoftmaxGradientKernel<T>, shape,
          static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace psgd::cudnn
