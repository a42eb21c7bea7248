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

// The y of a batch norm, as it is stored. The gradient calls it again and gets the same bits, as
// nothing here is left to the compiler.
template <typename T>
__device__ float Normalized(float x, float mean, float scale, float beta) {
  return Rounded<T>(__fmaf_rn(x - mean, scale, beta));
}

// The sums of dy xhat and of dy, with a mean and a variance a column or a row. kRelu: see
// BatchNormSums.
template <typename T, bool kOfRows, bool kRelu>
__global__ void BandGradientKernel(int64_t rows, int64_t columns, Sums<2> sums, const T* x,
                                   const T* dy, Normalization by) {
  SumBand(rows, columns, sums, [&](int64_t row, int64_t column, float* sum) {
    const int64_t i = row * columns + column, of = kOfRows ? row : column;
    const float from = Load(x, i), inverse = rsqrtf(by.var[of] + by.epsilon);
    float slope = Load(dy, i);
    if constexpr (kRelu) {
      const float y = Normalized<T>(from, by.mean[of], by.gamma[of] * inverse, by.beta[of]);
      slope = ReluSlope()(y, slope);
    }
    sum[0] += slope * (from - by.mean[of]) * inverse;
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

// Elements of the channels from c on.
template <typename T, int N>
__device__ Pack<float, N> NormalizedPack(Pack<float, N> x, const Normalization& by, int64_t c) {
  const auto of_mean = LoadPack<N>(by.mean, c), of_var = LoadPack<N>(by.var, c);
  const auto of_gamma = LoadPack<N>(by.gamma, c), of_beta = LoadPack<N>(by.beta, c);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float scale = of_gamma.of[k] * rsqrtf(of_var.of[k] + by.epsilon);
    x.of[k] = Normalized<T>(x.of[k], of_mean.of[k], scale, of_beta.of[k]);
  }
  return x;
}

enum class Added { kNothing, kPlain, kNormalized };

template <typename T, Added kAdded, bool kRelu>
__global__ void NormaliseKernel(Run run, Divisor columns, const T* x, Normalization by,
                                const T* added, Normalization added_by, T* y) {
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N>, int64_t i) {
    int64_t row = i;
    const int64_t c = columns.Split(&row);
    const Pack<float, N> from = LoadPack<N>(x, i);
    Pack<float, N> others;
    if constexpr (kAdded != Added::kNothing) others = LoadPack<N>(added, i);
    Pack<float, N> values = NormalizedPack<T, N>(from, by, c);
    if constexpr (kAdded == Added::kNormalized) {
      others = NormalizedPack<T, N>(others, added_by, c);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
      float value = values.of[k];
      if constexpr (kAdded != Added::kNothing) value = Rounded<T>(value + others.of[k]);
      values.of[k] = kRelu ? Relu()(value) : value;
    }
    StorePack(values, y, i);
  });
}

template <typename T, bool kRelu>
__global__ void NormaliseGradientKernel(Run run, Divisor columns, float share, const T* x,
                                        const T* dy, Normalization by, const float* dgamma,
                                        const float* dbeta, T* dx) {
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N>, int64_t i) {
    int64_t row = i;
    const int64_t c = columns.Split(&row);
    const auto from = LoadPack<N>(x, i);
    Pack<float, N> values = LoadPack<N>(dy, i), of_beta;
    if constexpr (kRelu) of_beta = LoadPack<N>(by.beta, c);
    const auto of_mean = LoadPack<N>(by.mean, c), of_var = LoadPack<N>(by.var, c);
    const auto of_gamma = LoadPack<N>(by.gamma, c);
    const auto of_dgamma = LoadPack<N>(dgamma, c), of_dbeta = LoadPack<N>(dbeta, c);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float inverse = rsqrtf(of_var.of[k] + by.epsilon);
      const float scale = of_gamma.of[k] * inverse;
      float slope = values.of[k];
      if constexpr (kRelu) {
        const float y = Normalized<T>(from.of[k], of_mean.of[k], scale, of_beta.of[k]);
        slope = ReluSlope()(y, slope);
      }
      const float normal = (from.of[k] - of_mean.of[k]) * inverse;
      values.of[k] = scale * (slope - of_dbeta.of[k] * share - normal * of_dgamma.of[k] * share);
    }
    StorePack(values, dx, i);
  });
}

// Calls work(std::bool_constant<value>).
template <typename Work>
void ForBool(bool value, Work work) {
  value ? work(std::true_type()) : work(std::false_type());
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
                           const void* x, const Normalization& by, const Following& following,
                           void* y) {
  const Normalization& also = following.added_by;
  return ForType(type, [&]<typename T>(T*) {
    const T *from = static_cast<const T*>(x), *added = static_cast<const T*>(following.added);
    T* to = static_cast<T*>(y);
    const Run run =
        RunOfRows<kPackOf<T>>(rows * columns, columns, from, by.gamma, by.beta, by.mean, by.var,
                              added, also.gamma, also.beta, also.mean, also.var, to);
    const auto start = [&]<Added kAdded>(std::integral_constant<Added, kAdded>) {
      ForBool(following.relu, [&]<bool kRelu>(std::bool_constant<kRelu>) {
        Start(stream, Blocks(run), kThreads, NormaliseKernel<T, kAdded, kRelu>, run,
              Divisor(columns), from, by, added, also, to);
      });
    };
    if (added == nullptr) {
      start(std::integral_constant<Added, Added::kNothing>());
    } else if (also.mean == nullptr) {
      start(std::integral_constant<Added, Added::kPlain>());
    } else {
      start(std::integral_constant<Added, Added::kNormalized>());
    }
  });
}

cudaError_t BatchNormSums(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                          const void* x, const void* dy, const Normalization& by, float* partial,
                          float* dgamma, float* dbeta) {
  return ForType(type, [&]<typename T>(T*) {
    ForBool(by.beta != nullptr, [&]<bool kRelu>(std::bool_constant<kRelu>) {
      StartSums(stream, rows, columns, partial, Sums<2>{{dgamma, dbeta}},
                BandGradientKernel<T, false, kRelu>, static_cast<const T*>(x),
                static_cast<const T*>(dy), by);
    });
  });
}

cudaError_t BatchNormGradient(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                              const void* x, const void* dy, const Normalization& by,
                              const float* dgamma, const float* dbeta, void* dx) {
  return ForType(type, [&]<typename T>(T*) {
    const T *from = static_cast<const T*>(x), *slopes = static_cast<const T*>(dy);
    T* to = static_cast<T*>(dx);
    const Run run = RunOfRows<kPackOf<T>>(rows * columns, columns, from, slopes, by.gamma, by.beta,
                                          by.mean, by.var, dgamma, dbeta, to);
    ForBool(by.beta != nullptr, [&]<bool kRelu>(std::bool_constant<kRelu>) {
      Start(stream, Blocks(run), kThreads, NormaliseGradientKernel<T, kRelu>, run, Divisor(columns),
            1.0f / static_cast<float>(rows), from, slopes, by, dgamma, dbeta, to);
    });
  });
}

cudaError_t LayerNormSums(cudaStream_t stream, Type type, int64_t rows, int64_t width,
                          const void* x, const void* dy, const float* mean, const float* var,
                          float epsilon, float* partial, float* dgamma, float* dbeta) {
  return ForType(type, [&]<typename T>(T*) {
    const Normalization by = {.mean = mean, .var = var, .epsilon = epsilon};
    StartSums(stream, rows, width, partial, Sums<2>{{dgamma, dbeta}},
              BandGradientKernel<T, true, false>, static_cast<const T*>(x),
              static_cast<const T*>(dy), by);
  });
}

}  // namespace psgd::cudnn
