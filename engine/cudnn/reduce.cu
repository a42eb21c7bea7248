// Sums of the columns of a matrix, and batch normalization, which uses them. A block sums a band of
// rows for 32 columns. A second kernel adds the bands in their order.
#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

constexpr int kColumns = 32;  // of a block, so that a warp reads a line
constexpr int kRowThreads = kThreads / kColumns;
constexpr int64_t kMostBands = 256;
constexpr int64_t kRowsOfABand = 256;  // at least, unless there are fewer rows

int64_t Bands(int64_t rows) { return std::clamp<int64_t>(rows / kRowsOfABand, 1, kMostBands); }

// partial[band, column] = sum of term(row, column) over the band's rows.
template <typename Term>
__device__ void SumBand(int64_t rows, int64_t columns, float* partial, Term term) {
  __shared__ float parts[kRowThreads][kColumns];
  const int lane = threadIdx.x % kColumns, strip = threadIdx.x / kColumns;
  const int64_t column = int64_t{blockIdx.x} * kColumns + lane;
  const int64_t bands = gridDim.y, band = blockIdx.y;
  const int64_t first = rows * band / bands, last = rows * (band + 1) / bands;
  float sum = 0;
  if (column < columns) {
    for (int64_t row = first + strip; row < last; row += kRowThreads) sum += term(row, column);
  }
  parts[strip][lane] = sum;
  __syncthreads();
  if (strip > 0 || column >= columns) return;
  for (int s = 1; s < kRowThreads; ++s) sum += parts[s][lane];
  partial[band * columns + column] = sum;
}

__device__ double SumBands(int64_t bands, int64_t columns, int64_t column, const float* partial) {
  double sum = 0;
  for (int64_t band = 0; band < bands; ++band) sum += partial[band * columns + column];
  return sum;
}

template <typename T>
__global__ void BandSumKernel(int64_t rows, int64_t columns, const T* x, float* partial) {
  SumBand(rows, columns, partial,
          [&](int64_t row, int64_t column) { return Load(x, row * columns + column); });
}

template <typename T>
__global__ void BandSquareKernel(int64_t rows, int64_t columns, const T* x, const float* mean,
                                 float* partial) {
  SumBand(rows, columns, partial, [&](int64_t row, int64_t column) {
    const float d = Load(x, row * columns + column) - mean[column];
    return d * d;
  });
}

__global__ void AddBandsKernel(int64_t bands, int64_t columns, const float* partial, float scale,
                               float* sums) {
  for (int64_t c = FirstIndex(); c < columns; c += IndexStep()) {
    sums[c] = static_cast<float>(SumBands(bands, columns, c, partial) * scale);
  }
}

__global__ void VarianceKernel(int64_t bands, int64_t rows, int64_t columns, const float* partial,
                               const float* mean, float momentum, BatchNormRunning running,
                               float* var) {
  for (int64_t c = FirstIndex(); c < columns; c += IndexStep()) {
    const double squares = SumBands(bands, columns, c, partial);
    var[c] = static_cast<float>(squares / static_cast<double>(rows));
    running.mean_delta[c] = momentum * (mean[c] - running.mean[c]);
    const double unbiased = squares / static_cast<double>(rows - 1);
    running.var_delta[c] =
        static_cast<float>(static_cast<double>(momentum) * (unbiased - running.var[c]));
  }
}

template <typename T>
__global__ void NormaliseKernel(int64_t count, int64_t columns, const T* x, const float* gamma,
                                const float* beta, const float* mean, const float* var,
                                float epsilon, T* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const int64_t c = i % columns;
    const float scale = gamma[c] * rsqrtf(var[c] + epsilon);
    Store((Load(x, i) - mean[c]) * scale + beta[c], y, i);
  }
}

template <typename T>
__global__ void BandProjectKernel(int64_t rows, int64_t columns, const T* x, const T* dy,
                                  const float* mean, const float* var, float epsilon,
                                  float* partial) {
  SumBand(rows, columns, partial, [&](int64_t row, int64_t column) {
    const int64_t i = row * columns + column;
    return Load(dy, i) * (Load(x, i) - mean[column]) * rsqrtf(var[column] + epsilon);
  });
}

template <typename T>
__global__ void NormaliseGradientKernel(int64_t rows, int64_t columns, const T* x, const T* dy,
                                        const float* gamma, const float* mean, const float* var,
                                        const float* dgamma, const float* dbeta, float epsilon,
                                        T* dx) {
  const float share = 1.0f / static_cast<float>(rows);
  for (int64_t i = FirstIndex(); i < rows * columns; i += IndexStep()) {
    const int64_t c = i % columns;
    const float inverse = rsqrtf(var[c] + epsilon);
    const float normal = (Load(x, i) - mean[c]) * inverse;
    Store(gamma[c] * inverse * (Load(dy, i) - dbeta[c] * share - normal * dgamma[c] * share), dx,
          i);
  }
}

template <typename T>
__global__ void BandRowProjectKernel(int64_t rows, int64_t columns, const T* x, const T* dy,
                                     const float* mean, const float* var, float epsilon,
                                     float* partial) {
  SumBand(rows, columns, partial, [&](int64_t row, int64_t column) {
    const int64_t i = row * columns + column;
    return Load(dy, i) * ((Load(x, i) - mean[row]) * (1 / sqrtf(var[row] + epsilon)));
  });
}

dim3 BandGrid(int64_t rows, int64_t columns) {
  return dim3(static_cast<unsigned>((columns + kColumns - 1) / kColumns),
              static_cast<unsigned>(Bands(rows)));
}

}  // namespace

int64_t ColumnPartials(int64_t rows, int64_t columns) { return Bands(rows) * columns; }

cudaError_t SumColumns(cudaStream_t stream, Type type, int64_t rows, int64_t columns, const void* x,
                       float* partial, float* sums) {
  return ForType(type, [&]<typename T>(T*) {
    Start(stream, BandGrid(rows, columns), kThreads, BandSumKernel<T>, rows, columns,
          static_cast<const T*>(x), partial);
    Start(stream, Blocks(columns), kThreads, AddBandsKernel, Bands(rows), columns, partial, 1.0f,
          sums);
  });
}

cudaError_t BatchNormStatistics(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                                const void* x, float momentum, const BatchNormRunning& running,
                                float* partial, float* mean, float* var) {
  return ForType(type, [&]<typename T>(T*) {
    const T* values = static_cast<const T*>(x);
    Start(stream, BandGrid(rows, columns), kThreads, BandSumKernel<T>, rows, columns, values,
          partial);
    Start(stream, Blocks(columns), kThreads, AddBandsKernel, Bands(rows), columns, partial,
          1.0f / static_cast<float>(rows), mean);
    // A second pass, because squares of values far from zero would drown the variance.
    Start(stream, BandGrid(rows, columns), kThreads, BandSquareKernel<T>, rows, columns, values,
          mean, partial);
    Start(stream, Blocks(columns), kThreads, VarianceKernel, Bands(rows), rows, columns, partial,
          mean, momentum, running, var);
  });
}

cudaError_t BatchNormApply(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                           const void* x, const float* gamma, const float* beta, const float* mean,
                           const float* var, float epsilon, void* y) {
  return ForElements(type, rows * columns, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, NormaliseKernel<T>, rows * columns, columns,
          static_cast<const T*>(x), gamma, beta, mean, var, epsilon, static_cast<T*>(y));
  });
}

cudaError_t BatchNormSums(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                          const void* x, const void* dy, const float* mean, const float* var,
                          float epsilon, float* partial, float* dgamma, float* dbeta) {
  return ForType(type, [&]<typename T>(T*) {
    Start(stream, BandGrid(rows, columns), kThreads, BandProjectKernel<T>, rows, columns,
          static_cast<const T*>(x), static_cast<const T*>(dy), mean, var, epsilon, partial);
    Start(stream, Blocks(columns), kThreads, AddBandsKernel, Bands(rows), columns, partial, 1.0f,
          dgamma);
    Start(stream, BandGrid(rows, columns), kThreads, BandSumKernel<T>, rows, columns,
          static_cast<const T*>(dy), partial);
    Start(stream, Blocks(columns), kThreads, AddBandsKernel, Bands(rows), columns, partial, 1.0f,
          dbeta);
  });
}

cudaError_t BatchNormGradient(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                              const void* x, const void* dy, const float* gamma, const float* mean,
                              const float* var, const float* dgamma, const float* dbeta,
                              float epsilon, void* dx) {
  return ForElements(type, rows * columns, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, NormaliseGradientKernel<T>, rows, columns,
          static_cast<const T*>(x), static_cast<const T*>(dy), gamma, mean, var, dgamma, dbeta,
          epsilon, static_cast<T*>(dx));
  });
}

cudaError_t LayerNormSums(cudaStream_t stream, Type type, int64_t rows, int64_t width,
                          const void* x, const void* dy, const float* mean, const float* var,
                          float epsilon, float* partial, float* dgamma, float* dbeta) {
  return ForType(type, [&]<typename T>(T*) {
    Start(stream, BandGrid(rows, width), kThreads, BandRowProjectKernel<T>, rows, width,
          static_cast<const T*>(x), static_cast<const T*>(dy), mean, var, epsilon, partial);
    Start(stream, Blocks(width), kThreads, AddBandsKernel, Bands(rows), width, partial, 1.0f,
          dgamma);
    Start(stream, BandGrid(rows, width), kThreads, BandSumKernel<T>, rows, width,
          static_cast<const T*>(dy), partial);
    Start(stream, Blocks(width), kThreads, AddBandsKernel, Bands(rows), width, partial, 1.0f,
          dbeta);
  });
}

}  // namespace psgd::cudnn
