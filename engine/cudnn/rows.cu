// Normalization of rows: layer normalization, softmax, and lengths for masks and padding. A warp
// computes a row: its lanes stride along the row, and their sums are added in a fixed order. Lanes
// keep the values of short rows, so these are read once.
#include "common/rounded_math.h"
#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

constexpr int kKept = 32;  // values of a row that a lane may keep

// For a loop `for (row = FirstRow(); row < rows; row += RowStep())`, the same for all lanes of a
// warp.
__device__ int64_t FirstRow() { return FirstIndex() / kWarp; }
__device__ int64_t RowStep() { return IndexStep() / kWarp; }
__device__ int Lane() { return threadIdx.x % kWarp; }

int RowBlocks(int64_t rows) { return Blocks(rows * kWarp); }

// A row of one or two tensors. `run` is that of a row.
template <typename T, bool kKeep, int kTensors>
class Row {
 public:
  static constexpr int kPack = kPackOf<T>;

  template <typename... From>
  __device__ Row(const Run& run, const From*... from) : run_(run), from_{from...} {
    if constexpr (kKeep) {
      ForEach([&]<int N>(Width<N>, int64_t i, Pack<float, N>* values) {
        for (int t = 0; t < kTensors; ++t) values[t] = LoadPack<N>(from_[t], i);
      });
    }
  }

  // Calls body(Width<N>, i, values) for this lane's values from i, an array with a pack a tensor.
  // If they are kept, changes by the body stay.
  template <typename Body>
  __device__ void ForEach(Body body) {
    if constexpr (kKeep) {
#pragma unroll
      for (int pack = 0; pack < kKept / kPack; ++pack) {
        const int64_t i = (pack * kWarp + Lane()) * kPack;
        if (i < run_.count) body(Width<kPack>(), i, kept_[pack]);
      }
    } else {
#pragma unroll 1
      for (int64_t i = Lane(); i < run_.packs; i += kWarp) Visit<kPack>(i * kPack, body);
#pragma unroll 1
      for (int64_t i = run_.packs * kPack + Lane(); i < run_.count; i += kWarp) Visit<1>(i, body);
    }
  }

 private:
  template <int N, typename Body>
  __device__ void Visit(int64_t i, Body body) {
    Pack<float, N> values[kTensors];
    for (int t = 0; t < kTensors; ++t) values[t] = LoadPack<N>(from_[t], i);
    body(Width<N>(), i, values);
  }

  const Run run_;
  const T* from_[kTensors];
  Pack<float, kPack> kept_[kKeep ? kKept / kPack : 1][kTensors];
};

// Calls launch<T, kKeep>(run of a row). Rows are kept if they are short, and whole packs.
template <typename Launch, typename... Memory>
cudaError_t ForRows(Type type, int64_t width, Launch launch, const Memory*... memory) {
  return ForType(type, [&]<typename T>(T*) {
    constexpr int N = kPackOf<T>;
    const Run run = RunOfRows<N>(width, width, static_cast<const float*>(memory)...);
    if (run.packs * N == width && width <= kWarp * kKept) {
      launch.template operator()<T, true>(run);
    } else {
      launch.template operator()<T, false>(run);
    }
  });
}

// The moments of a warp's values, the same in every lane.
__device__ Moments<float> MergedOfWarp(Moments<float> mine) {
  for (int reach = 1; reach < kWarp; reach *= 2) {
    const Moments<float> other = {__shfl_xor_sync(0xFFFFFFFF, mine.count, reach),
                                  __shfl_xor_sync(0xFFFFFFFF, mine.mean, reach),
                                  __shfl_xor_sync(0xFFFFFFFF, mine.squares, reach)};
    mine = (Lane() & reach) == 0 ? Merged(mine, other) : Merged(other, mine);
  }
  return mine;
}

// The mean and variance of a row.
template <typename T, bool kKeep>
__device__ Moments<float> MomentsOf(const T* x, const Run& run, Row<T, kKeep, 1>& row) {
  const float count = static_cast<float>(run.count);
  if constexpr (kKeep) {  // two passes over what is kept cost little and round least
    float sum = 0, squares = 0;
    row.ForEach([&]<int N>(Width<N>, int64_t, Pack<float, N>* values) {
      for (int k = 0; k < N; ++k) sum += values->of[k];
    });
    const float mean = SumOfWarp(sum) / count;
    row.ForEach([&]<int N>(Width<N>, int64_t, Pack<float, N>* values) {
      for (int k = 0; k < N; ++k) {
        const float d = values->of[k] - mean;
        squares += d * d;
      }
    });
    return {count, mean, SumOfWarp(squares)};
  } else {
    int64_t values_seen = 0;
    // Any value of the row will do.
    ShiftedSums sums(Load(x, min(int64_t{Lane()}, run.count - 1)));
    row.ForEach([&]<int N>(Width<N>, int64_t, Pack<float, N>* values) {
      for (int k = 0; k < N; ++k) sums.Add(values->of[k]);
      values_seen += N;
    });
    const float zero = Load(x, 0);
    Moments<float> moments =
        MergedOfWarp(values_seen == 0 ? Moments<float>{} : sums.Of(values_seen, zero));
    moments.mean += zero;
    return moments;
  }
}

template <typename T, bool kKeep>
__global__ void LayerNormKernel(int64_t rows, Run run, const T* all_x, const float* gamma,
                                const float* beta, float epsilon, T* all_y, float* all_mean,
                                float* all_var) {
  for (int64_t r = FirstRow(); r < rows; r += RowStep()) {
    const T* x = all_x + r * run.count;
    T* y = all_y + r * run.count;
    Row<T, kKeep, 1> row(run, x);
    const Moments<float> moments = MomentsOf(x, run, row);
    const float var = moments.squares / moments.count, inverse = rsqrtf(var + epsilon);
    row.ForEach([&]<int N>(Width<N>, int64_t i, Pack<float, N>* values) {
      const Pack<float, N> of_gamma = LoadPack<N>(gamma, i), of_beta = LoadPack<N>(beta, i);
      Pack<float, N> made;
      for (int k = 0; k < N; ++k) {
        made.of[k] = (values->of[k] - moments.mean) * inverse * of_gamma.of[k] + of_beta.of[k];
      }
      StorePack(made, y, i);
    });
    if (Lane() > 0) continue;
    all_mean[r] = moments.mean;
    all_var[r] = var;
  }
}

template <typename T, bool kKeep>
__global__ void LayerNormGradientKernel(int64_t rows, Run run, const T* all_x, const float* gamma,
                                        const float* all_mean, const float* all_var,
                                        const T* all_dy, float epsilon, T* all_dx) {
  const float share = 1 / static_cast<float>(run.count);
  for (int64_t r = FirstRow(); r < rows; r += RowStep()) {
    T* dx = all_dx + r * run.count;
    Row<T, kKeep, 2> row(run, all_x + r * run.count, all_dy + r * run.count);
    const float mean = all_mean[r], inverse = rsqrtf(all_var[r] + epsilon);
    // Makes xhat of x and gamma dy of dy.
    const auto prepare = [&]<int N>(int64_t i, Pack<float, N>* values) {
      const Pack<float, N> of_gamma = LoadPack<N>(gamma, i);
      for (int k = 0; k < N; ++k) {
        values[0].of[k] = (values[0].of[k] - mean) * inverse;
        values[1].of[k] = RoundedMath::Mul(values[1].of[k], of_gamma.of[k]);
      }
    };
    float sum = 0, projected = 0;
    row.ForEach([&]<int N>(Width<N>, int64_t i, Pack<float, N>* values) {
      prepare(i, values);
      for (int k = 0; k < N; ++k) {
        sum += values[1].of[k];
        projected += values[1].of[k] * values[0].of[k];
      }
    });
    sum = SumOfWarp(sum) * share;
    projected = SumOfWarp(projected) * share;
    row.ForEach([&]<int N>(Width<N>, int64_t i, Pack<float, N>* values) {
      if constexpr (!kKeep) prepare(i, values);
      Pack<float, N> made;
      for (int k = 0; k < N; ++k) {
        made.of[k] = inverse * (values[1].of[k] - sum - values[0].of[k] * projected);
      }
      StorePack(made, dx, i);
    });
  }
}

// The shape with fast divisions.
struct SoftmaxRows {
  explicit SoftmaxRows(const SoftmaxShape& s)
      : shape(s),
        queries(std::max<int64_t>(s.queries, 1)),
        rows_each(std::max<int64_t>(s.rows_each, 1)),
        stair(std::max<int64_t>(s.stair, 1)) {}

  // The number of open places, which are the first places of the row.
  __device__ int64_t Open(int64_t row, const int32_t* lengths) const {
    int64_t open = shape.keys, block = row;
    const int64_t query = queries.Split(&block);
    if (shape.queries > 0) open = min(open, query + 1 + shape.keys - shape.queries);
    if (lengths != nullptr) open = min(open, int64_t{lengths[rows_each.Quotient(row)]});
    return max(open, int64_t{0});
  }

  // The part of the row that counts, in packs of N.
  template <int N>
  __device__ Run Reach(int64_t row, const Run& whole) const {
    if (shape.stair == 0) return whole;
    int64_t block = row;
    const int64_t end = (stair.Quotient(queries.Split(&block)) + 1) * shape.stair;
    return {whole.packs == 0 ? 0 : end / N, end};
  }

  SoftmaxShape shape;
  Divisor queries, rows_each, stair;
};

template <typename T, bool kKeep>
__global__ void SoftmaxKernel(SoftmaxRows rows, Run run, const T* all_x, const int32_t* lengths,
                              T* all_y) {
  const SoftmaxShape& s = rows.shape;
  for (int64_t r = FirstRow(); r < s.rows; r += RowStep()) {
    T* y = all_y + r * s.keys;
    const int64_t open = rows.Open(r, lengths);
    Row<T, kKeep, 1> row(rows.Reach<kPackOf<T>>(r, run), all_x + r * s.keys);
    float largest = -INFINITY;  // fmaxf drops NaN, but the exponentials of NaN stay NaN
    row.ForEach([&]<int N>(Width<N>, int64_t i, Pack<float, N>* values) {
      for (int k = 0; k < N; ++k) {
        if (i + k < open) largest = fmaxf(largest, values->of[k]);
      }
    });
    for (int reach = kWarp / 2; reach > 0; reach /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFF, largest, reach));
    }
    const auto power = [&]<int N>(int64_t i, Pack<float, N>* values) {
      for (int k = 0; k < N; ++k) {
        values->of[k] = i + k < open ? expf(s.scale * (values->of[k] - largest)) : 0.0f;
      }
    };
    float sum = 0;
    row.ForEach([&]<int N>(Width<N>, int64_t i, Pack<float, N>* values) {
      power(i, values);
      for (int k = 0; k < N; ++k) sum += values->of[k];
    });
    const float share = 1 / SumOfWarp(sum);
    row.ForEach([&]<int N>(Width<N>, int64_t i, Pack<float, N>* values) {
      if constexpr (!kKeep) power(i, values);
      for (int k = 0; k < N; ++k) values->of[k] = i + k < open ? values->of[k] * share : 0.0f;
      StorePack(*values, y, i);
    });
  }
}

template <typename T, bool kKeep>
__global__ void SoftmaxGradientKernel(SoftmaxRows rows, Run run, const T* all_y, const T* all_dy,
                                      T* all_dx) {
  const float scale = rows.shape.scale;
  for (int64_t r = FirstRow(); r < rows.shape.rows; r += RowStep()) {
    T* dx = all_dx + r * run.count;
    Row<T, kKeep, 2> row(rows.Reach<kPackOf<T>>(r, run), all_y + r * run.count,
                         all_dy + r * run.count);
    float sum = 0;
    row.ForEach([&]<int N>(Width<N>, int64_t, Pack<float, N>* values) {
      for (int k = 0; k < N; ++k) sum += values[0].of[k] * values[1].of[k];
    });
    sum = SumOfWarp(sum);
    row.ForEach([&]<int N>(Width<N>, int64_t i, Pack<float, N>* values) {
      Pack<float, N> made;
      for (int k = 0; k < N; ++k) {
        made.of[k] = scale * (values[0].of[k] * (values[1].of[k] - sum));
      }
      StorePack(made, dx, i);
    });
  }
}

__global__ void LengthsKernel(Lengths op, int64_t rows, int64_t tokens, const int32_t* x,
                              int32_t* y) {
  for (int64_t row = FirstIndex(); row < rows; row += IndexStep()) y[row] = op.Of(x + row * tokens);
}

__global__ void LengthsOfAttentionKernel(int64_t samples, int32_t queries, int32_t keys,
                                         const int32_t* lengths, int32_t* query_lengths,
                                         int32_t* key_lengths) {
  for (int64_t n = FirstIndex(); n < samples; n += IndexStep()) {
    query_lengths[n] = queries;
    key_lengths[n] = lengths == nullptr ? keys : max(1, min(lengths[n], keys));
  }
}

template <typename T>
__global__ void ClearPaddingKernel(Run run, Divisor heads, Divisor places, Divisor width,
                                   const int32_t* lengths, T* x) {
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N>, int64_t i) {
    int64_t sample = i;
    width.Split(&sample);
    const int64_t place = places.Split(&sample);
    heads.Split(&sample);
    if (place >= lengths[sample]) StorePack(Pack<float, N>{}, x, i);
  });
}

}  // namespace

cudaError_t LengthsOfRows(cudaStream_t stream, const Lengths& op, int64_t rows, int64_t tokens,
                          const int32_t* x, int32_t* y) {
  Start(stream, Blocks(rows), kThreads, LengthsKernel, op, rows, tokens, x, y);
  return cudaGetLastError();
}

cudaError_t LengthsOfAttention(cudaStream_t stream, int64_t samples, int32_t queries, int32_t keys,
                               const int32_t* lengths, int32_t* query_lengths,
                               int32_t* key_lengths) {
  Start(stream, Blocks(samples), kThreads, LengthsOfAttentionKernel, samples, queries, keys,
        lengths, query_lengths, key_lengths);
  return cudaGetLastError();
}

cudaError_t ClearPadding(cudaStream_t stream, Type type, const PaddedShape& shape,
                         const int32_t* lengths, void* x) {
  return ForType(type, [&]<typename T>(T*) {
    T* const to = static_cast<T*>(x);
    const Run run = RunOfRows<kPackOf<T>>(shape.samples * shape.heads * shape.places * shape.width,
                                          shape.width, to);
    Start(stream, Blocks(run), kThreads, ClearPaddingKernel<T>, run, Divisor(shape.heads),
          Divisor(shape.places), Divisor(shape.width), lengths, to);
  });
}

cudaError_t LayerNormForward(cudaStream_t stream, Type type, int64_t rows, int64_t width,
                             const void* x, const float* gamma, const float* beta, float epsilon,
                             void* y, float* mean, float* var) {
  const auto launch = [&]<typename T, bool kKeep>(const Run& run) {
    Start(stream, RowBlocks(rows), kThreads, LayerNormKernel<T, kKeep>, rows, run,
          static_cast<const T*>(x), gamma, beta, epsilon, static_cast<T*>(y), mean, var);
  };
  return ForRows(type, width, launch, x, gamma, beta, y);
}

cudaError_t LayerNormGradient(cudaStream_t stream, Type type, int64_t rows, int64_t width,
                              const void* x, const float* gamma, const float* mean,
                              const float* var, const void* dy, float epsilon, void* dx) {
  const auto launch = [&]<typename T, bool kKeep>(const Run& run) {
    Start(stream, RowBlocks(rows), kThreads, LayerNormGradientKernel<T, kKeep>, rows, run,
          static_cast<const T*>(x), gamma, mean, var, static_cast<const T*>(dy), epsilon,
          static_cast<T*>(dx));
  };
  return ForRows(type, width, launch, x, gamma, dy, dx);
}

cudaError_t SoftmaxForward(cudaStream_t stream, Type type, const SoftmaxShape& shape, const void* x,
                           const int32_t* lengths, void* y) {
  const auto launch = [&]<typename T, bool kKeep>(const Run& run) {
    Start(stream, RowBlocks(shape.rows), kThreads, SoftmaxKernel<T, kKeep>, SoftmaxRows(shape), run,
          static_cast<const T*>(x), lengths, static_cast<T*>(y));
  };
  return ForRows(type, shape.keys, launch, x, y);
}

cudaError_t SoftmaxGradient(cudaStream_t stream, Type type, const SoftmaxShape& shape,
                            const void* y, const void* dy, void* dx) {
  const auto launch = [&]<typename T, bool kKeep>(const Run& run) {
    Start(stream, RowBlocks(shape.rows), kThreads, SoftmaxGradientKernel<T, kKeep>,
          SoftmaxRows(shape), run, static_cast<const T*>(y), static_cast<const T*>(dy),
          static_cast<T*>(dx));
  };
  return ForRows(type, shape.keys, launch, y, dy, dx);
}

}  // namespace psgd::cudnn
