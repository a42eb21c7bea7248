// Sums and moments of the columns of a matrix, and batch normalization, which uses them. A block
// adds up a band of rows for 32 columns. A second kernel adds up the bands. Both do so in a fixed
// order.
#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

constexpr int kColumns = 32;  // of a block, so that a warp reads a line
constexpr int kRowThreads = kThreads / kColumns;
constexpr int64_t kMostBands = 256;
constexpr int64_t kRowsOfABand = 256;  // at least, unless there are fewer rows

int64_t Bands(int64_t rows) { return std::clamp<int64_t>(rows / kRowsOfABand, 1, kMostBands); }

dim3 BandGrid(int64_t columns, int64_t bands) {
  return dim3(static_cast<unsigned>((columns + kColumns - 1) / kColumns),
              static_cast<unsigned>(bands));
}

// The rows of band `band` are [BandBegin(band), BandBegin(band + 1)).
__host__ __device__ int64_t BandBegin(int64_t rows, int64_t bands, int64_t band) {
  return rows * band / bands;
}

// The place of a thread: it adds up every kRowThreads-th row of a column.
struct Strip {
  __device__ Strip()
      : lane(threadIdx.x % kColumns),
        first(threadIdx.x / kColumns),
        column(int64_t{blockIdx.x} * kColumns + lane) {}

  int lane, first;
  int64_t column;
};

// One or two sums of each column: to[sum][band, column].
template <int kSums>
struct Sums {
  float* to[kSums];
};

// add(row, column, sums) adds the terms of an element to the sums.
template <int kSums, typename Add>
__device__ void SumBand(int64_t rows, int64_t columns, const Sums<kSums>& sums, Add add) {
  __shared__ float parts[kSums][kRowThreads][kColumns];
  const Strip strip;
  const int64_t bands = gridDim.y, band = blockIdx.y;
  const int64_t last = BandBegin(rows, bands, band + 1);
  float mine[kSums] = {};
  if (strip.column < columns) {
#pragma unroll 4
    for (int64_t row = BandBegin(rows, bands, band) + strip.first; row < last; row += kRowThreads) {
      add(row, strip.column, mine);
    }
  }
  for (int k = 0; k < kSums; ++k) parts[k][strip.first][strip.lane] = mine[k];
  __syncthreads();
  if (strip.first > 0 || strip.column >= columns) return;
  for (int k = 0; k < kSums; ++k) {
    for (int s = 1; s < kRowThreads; ++s) mine[k] += parts[k][s][strip.lane];
    sums.to[k][band * columns + strip.column] = mine[k];
  }
}

// The sums of the bands, a grid y a sum. In double, because bands may cancel each other.
template <int kSums>
__global__ void AddBandsKernel(int64_t bands, int64_t columns, Sums<kSums> partial,
                               Sums<kSums> sums) {
  __shared__ double parts[kRowThreads][kColumns];
  const Strip strip;
  const float* from = kSums == 1 || blockIdx.y == 0 ? partial.to[0] : partial.to[kSums - 1];
  double sum = 0;
  if (strip.column < columns) {
#pragma unroll 4
    for (int64_t band = strip.first; band < bands; band += kRowThreads) {
      sum += from[band * columns + strip.column];
    }
  }
  parts[strip.first][strip.lane] = sum;
  __syncthreads();
  if (strip.first > 0 || strip.column >= columns) return;
  for (int s = 1; s < kRowThreads; ++s) sum += parts[s][strip.lane];
  float* to = kSums == 1 || blockIdx.y == 0 ? sums.to[0] : sums.to[kSums - 1];
  to[strip.column] = static_cast<float>(sum);
}

// Starts kernel(rows, columns, sums, arguments...) for the bands, then adds them up. A single band
// is the result.
template <int kSums, typename... Parameters, typename... Arguments>
void StartSums(cudaStream_t stream, int64_t rows, int64_t columns, float* partial,
               const Sums<kSums>& sums, void (*kernel)(int64_t, int64_t, Parameters...),
               Arguments... arguments) {
  const int64_t bands = Bands(rows);
  Sums<kSums> of_bands = sums;
  for (int k = 0; k < kSums && bands > 1; ++k) of_bands.to[k] = partial + k * bands * columns;
  Start(stream, BandGrid(columns, bands), kThreads, kernel, rows, columns, of_bands, arguments...);
  if (bands == 1) return;
  Start(stream, BandGrid(columns, kSums), kThreads, AddBandsKernel<kSums>, bands, columns, of_bands,
        sums);
}

template <typename T>
__global__ void BandSumKernel(int64_t rows, int64_t columns, Sums<1> sums, const T* x) {
  SumBand(rows, columns, sums, [&](int64_t row, int64_t column, float* sum) {
    sum[0] += Load(x, row * columns + column);
  });
}

// The sums of dy xhat and of dy, with a mean and a variance a column or a row.
template <typename T, bool kOfRows>
__global__ void BandGradientKernel(int64_t rows, int64_t columns, Sums<2> sums, const T* x,
                                   const T* dy, const float* mean, const float* var,
                                   float epsilon) {
  SumBand(rows, columns, sums, [&](int64_t row, int64_t column, float* sum) {
    const int64_t i = row * columns + column, of = kOfRows ? row : column;
    const float slope = Load(dy, i);
    sum[0] += slope * (Load(x, i) - mean[of]) * rsqrtf(var[of] + epsilon);
    sum[1] += slope;
  });
}

// The moments of a block's column, from those of its threads. REQUIRES: all threads call it; the
// first thread of each column gets them.
template <typename T>
__device__ Moments<T> MergedOfBlock(const Strip& strip, Moments<T> mine) {
  __shared__ Moments<T> parts[kRowThreads][kColumns];
  parts[strip.first][strip.lane] = mine;
  __syncthreads();
  if (strip.first > 0) return mine;
  for (int s = 1; s < kRowThreads; ++s) mine = Merged(mine, parts[s][strip.lane]);
  return mine;
}

// The moments of a band, in one pass.
template <typename T>
__global__ void BandMomentsKernel(int64_t rows, int64_t columns, const T* x, float* means,
                                  float* squares) {
  const Strip strip;
  const int64_t bands = gridDim.y, band = blockIdx.y;
  const int64_t begin = BandBegin(rows, bands, band), first = begin + strip.first;
  const int64_t last = BandBegin(rows, bands, band + 1);
  const float zero = strip.column < columns ? Load(x, begin * columns + strip.column) : 0.0f;
  Moments<float> mine = {};
  if (strip.column < columns && first < last) {
    ShiftedSums sums(Load(x, first * columns + strip.column));
#pragma unroll 4
    for (int64_t row = first; row < last; row += kRowThreads) {
      sums.Add(Load(x, row * columns + strip.column));
    }
    mine = sums.Of((last - first + kRowThreads - 1) / kRowThreads, zero);
  }
  mine = MergedOfBlock(strip, mine);
  if (strip.first > 0 || strip.column >= columns) return;
  means[band * columns + strip.column] = zero + mine.mean;
  squares[band * columns + strip.column] = mine.squares;
}

__global__ void MomentsKernel(int64_t rows, int64_t bands, int64_t columns, const float* means,
                              const float* squares, float momentum, BatchNormRunning running,
                              float* mean, float* var) {
  const Strip strip;
  const int64_t c = strip.column;
  Moments<double> mine = {};
  if (c < columns) {
    for (int64_t band = strip.first; band < bands; band += kRowThreads) {
      const int64_t count = BandBegin(rows, bands, band + 1) - BandBegin(rows, bands, band);
      mine = Merged<double>(mine, {static_cast<double>(count), means[band * columns + c],
                                   squares[band * columns + c]});
    }
  }
  mine = MergedOfBlock(strip, mine);
  if (strip.first > 0 || c >= columns) return;
  mean[c] = static_cast<float>(mine.mean);
  var[c] = static_cast<float>(mine.squares / mine.count);
  running.mean_delta[c] = momentum * (mean[c] - running.mean[c]);
  const double unbiased = mine.squares / (mine.count - 1);
  running.var_delta[c] =
      static_cast<float>(static_cast<double>(momentum) * (unbiased - running.var[c]));
}

template <typename T>
__global__ void NormaliseKernel(Run run, Divisor columns, const T* x, const float* gamma,
                                const float* beta, const float* mean, const float* var,
                                float epsilon, T* y) {
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N>, int64_t i) {
    int64_t row = i;
    const int64_t c = columns.Split(&row);
    Pack<float, N> values = LoadPack<N>(x, i);
    const auto of_mean = LoadPack<N>(mean, c), of_var = LoadPack<N>(var, c);
    const auto of_gamma = LoadPack<N>(gamma, c), of_beta = LoadPack<N>(beta, c);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float scale = of_gamma.of[k] * rsqrtf(of_var.of[k] + epsilon);
      values.of[k] = (values.of[k] - of_mean.of[k]) * scale + of_beta.of[k];
    }
    StorePack(values, y, i);
  });
}

template <typename T>
__global__ void NormaliseGradientKernel(Run run, Divisor columns, float share, const T* x,
                                        const T* dy, const float* gamma, const float* mean,
                                        const float* var, const float* dgamma, const float* dbeta,
                                        float epsilon, T* dx) {
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N>, int64_t i) {
    int64_t row = i;
    const int64_t c = columns.Split(&row);
    const auto from = LoadPack<N>(x, i);
    Pack<float, N> values = LoadPack<N>(dy, i);
    const auto of_mean = LoadPack<N>(mean, c), of_var = LoadPack<N>(var, c);
    const auto of_gamma = LoadPack<N>(gamma, c);
    const auto of_dgamma = LoadPack<N>(dgamma, c), of_dbeta = LoadPack<N>(dbeta, c);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float inverse = rsqrtf(of_var.of[k] + epsilon);
      const float normal = (from.of[k] - of_mean.of[k]) * inverse;
      values.of[k] = of_gamma.of[k] * inverse *
                     (values.of[k] - of_dbeta.of[k] * share - normal * of_dgamma.of[k] * share);
    }
    StorePack(values, dx, i);
  });
}

}  // namespace

int64_t ColumnPartials(int64_t rows, int64_t columns, int sums) {
  return sums * Bands(rows) * columns;
}

cudaError_t SumColumns(cudaStream_t stream, Type type, int64_t rows, int64_t columns, const void* x,
                       float* partial, float* sums) {
  return ForType(type, [&]<typename T>(T*) {
    StartSums(stream, rows, columns, partial, Sums<1>{{sums}}, BandSumKernel<T>,
              static_cast<const T*>(x));
  });
}

cudaError_t BatchNormStatistics(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                                const void* x, float momentum, const BatchNormRunning& running,
                                float* partial, float* mean, float* var) {
  const int64_t bands = Bands(rows);
  float* squares = partial + bands * columns;
  return ForType(type, [&]<typename T>(T*) {
    Start(stream, BandGrid(columns, bands), kThreads, BandMomentsKernel<T>, rows, columns,
          static_cast<const T*>(x), partial, squares);
    Start(stream, BandGrid(columns, 1), kThreads, MomentsKernel, rows, bands, columns, partial,
          squares, momentum, running, mean, var);
  });
}

cudaError_t BatchNormApply(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                           const void* x, const float* gamma, const float* beta, const float* mean,
                           const float* var, float epsilon, void* y) {
  return ForType(type, [&]<typename T>(T*) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    const Run run =
        RunOfRows<kPackOf<T>>(rows * columns, columns, from, gamma, beta, mean, var, to);
    Start(stream, Blocks(run), kThreads, NormaliseKernel<T>, run, Divisor(columns), from, gamma,
          beta, mean, var, epsilon, to);
  });
}

cudaError_t BatchNormSums(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                          const void* x, const void* dy, const float* mean, const float* var,
                          float epsilon, float* partial, float* dgamma, float* dbeta) {
  return ForType(type, [&]<typename T>(T*) {
    StartSums(stream, rows, columns, partial, Sums<2>{{dgamma, dbeta}},
              BandGradientKernel<T, false>, static_cast<const T*>(x), static_cast<const T*>(dy),
              mean, var, epsilon);
  });
}

cudaError_t BatchNormGradient(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                              const void* x, const void* dy, const float* gamma, const float* mean,
                              const float* var, const float* dgamma, const float* dbeta,
                              float epsilon, void* dx) {
  return ForType(type, [&]<typename T>(T*) {
    const T *from = static_cast<const T*>(x), *slopes = static_cast<const T*>(dy);
    T* to = static_cast<T*>(dx);
    const Run run = RunOfRows<kPackOf<T>>(rows * columns, columns, from, slopes, gamma, mean, var,
                                          dgamma, dbeta, to);
    Start(stream, Blocks(run), kThreads, NormaliseGradientKernel<T>, run, Divisor(columns),
          1.0f / static_cast<float>(rows), from, slopes, gamma, mean, var, dgamma, dbeta, epsilon,
          to);
  });
}

cudaError_t LayerNormSums(cudaStream_t stream, Type type, int64_t rows, int64_t width,
                          const void* x, const void* dy, const float* mean, const float* var,
                          float epsilon, float* partial, float* dgamma, float* dbeta) {
  return ForType(type, [&]<typename T>(T*) {
    StartSums(stream, rows, width, partial, Sums<2>{{dgamma, dbeta}}, BandGradientKernel<T, true>,
              static_cast<const T*>(x), static_cast<const T*>(dy), mean, var, epsilon);
  });
}

}  // namespace psgd::cudnn
