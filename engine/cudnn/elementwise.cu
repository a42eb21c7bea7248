#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"
#include "engine/ops/activation_formula.h"
#include "engine/ops/select.h"

namespace psgd::cudnn {
namespace {

struct Same {
  __device__ float operator()(float x) const { return x; }
};

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
    StartMap(stream, shape.images * shape.channels * shape.area, Same(), to, from);
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

// Where the first channel of a pixel is in row-major images.
__device__ int64_t FirstChannel(int64_t pixel, const Divisor& area, int channels) {
  const int64_t place = area.Split(&pixel);
  return pixel * channels * area.value() + place;
}

// The channels of a pixel as one pack, behind them zeros, and back. A warp has neighbouring pixels,
// so it reads and writes whole lines of each channel.
template <typename From, typename To>
__global__ void PadChannelsKernel(int64_t pixels, Divisor area, int channels, const From* from,
                                  To* to) {
  constexpr int N = kPaddedBytes / sizeof(To);
  for (int64_t i = FirstIndex(); i < pixels; i += IndexStep()) {
    const int64_t first = FirstChannel(i, area, channels);
    Pack<float, N> values;
#pragma unroll
    for (int c = 0; c < N; ++c) {
      values.of[c] = c < channels ? Load(from, first + c * area.value()) : 0.0f;
    }
    StorePack(values, to, i * N);
  }
}

template <typename From, typename To>
__global__ void CutChannelsKernel(int64_t pixels, Divisor area, int channels, const From* from,
                                  To* to) {
  constexpr int N = kPaddedBytes / sizeof(From);
  for (int64_t i = FirstIndex(); i < pixels; i += IndexStep()) {
    const int64_t first = FirstChannel(i, area, channels);
    const Pack<float, N> values = LoadPack<N>(from, i * N);
#pragma unroll
    for (int c = 0; c < N; ++c) {
      if (c < channels) Store(values.of[c], to, first + c * area.value());
    }
  }
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
template <typename T>
struct AddRelu {
  __device__ float operator()(float a, float b) const { return Relu()(Rounded<T>(a + b)); }
};
template <typename T>
struct AddReluSlope {
  __device__ float operator()(float y, float a, float b) const {
    return ReluSlope()(y, Rounded<T>(a + b));
  }
};
struct Multiply {
  __device__ float operator()(float a, float b) const { return a * b; }
};
struct SelectOfTwo {
  __device__ float operator()(float c, float a, float b) const { return Selected(c, a, b); }
};
// A number instead of a, of b, or of both.
struct SelectNumberOr {
  float a;
  __device__ float operator()(float c, float b) const { return Selected(c, a, b); }
};
struct SelectOrNumber {
  float b;
  __device__ float operator()(float c, float a) const { return Selected(c, a, b); }
};
struct SelectNumber {
  float a, b;
  __device__ float operator()(float c) const { return Selected(c, a, b); }
};
struct Unmask {
  float scale;
  __device__ float operator()(float dy, float kept) const { return kept != 0 ? dy * scale : 0.0f; }
};

// Moves the values of a pack one place down and puts `last` behind them.
template <int N>
__device__ void Shift(Pack<float, N>* values, float last) {
#pragma unroll
  for (int k = 0; k + 1 < N; ++k) values->of[k] = values->of[k + 1];
  values->of[N - 1] = last;
}

// MapKernel for an op whose code is long: the code is there once. The values pass through the first
// place of their pack, because registers have no index.
template <typename Op, typename T, typename... From>
__global__ void LongMapKernel(Run run, Op op, T* to, const From*... from) {
  constexpr int N = kPackOf<T>;
  const int64_t singles = run.count - run.packs * N;
  for (int64_t unit = FirstIndex(); unit < run.packs + singles; unit += IndexStep()) {
    const bool whole = unit < run.packs;
    const int64_t i = whole ? unit * N : run.count - singles + unit - run.packs;
    const auto load = [&](const T* p) {
      return whole ? LoadPack<N>(p, i) : Pack<float, N>{Load(p, i)};
    };
    const auto apply = [&](auto... values) {
      Pack<float, N> results = {};
#pragma unroll 1
      for (int k = whole ? N : 1; k > 0; --k) {
        Shift(&results, op(values.of[0]...));
        (Shift(&values, 0), ...);
      }
      if (whole) {
        StorePack(results, to, i);
      } else {
        Store(results.of[N - 1], to, i);
      }
    };
    apply(load(from)...);
  }
}

template <typename Op, typename T, typename... From>
void StartLongMap(cudaStream_t stream, int64_t count, Op op, T* to, const From*... from) {
  const Run run = RunOf<kPackOf<T>>(count, to, from...);
  Start(stream, Blocks(run), kThreads, LongMapKernel<Op, T, From...>, run, op, to, from...);
}

struct Activate {
  Activation op;
  __device__ float operator()(float x) const { return ActivationOf(op, x); }
};
struct ActivationGradientOf {
  Activation op;
  __device__ float operator()(float of, float dy) const { return dy * ActivationSlope(op, of); }
};

// The most frequent activation has kernels of its own: without branches they keep up with memory.
struct Gelu {
  static constexpr auto kKind = Activation::Kind::kGelu;
  __device__ float operator()(float x) const { return ActivationOf(Activation{kKind}, x); }
};
struct GeluGradient {
  __device__ float operator()(float x, float dy) const {
    return dy * ActivationSlope(Activation{Gelu::kKind}, x);
  }
};

// No __restrict__: y may be x. A pack has one channel, or its channels lie side by side.
template <typename T, bool kRelu>
__global__ void AddBiasKernel(Run run, Divisor inner, Divisor channels, const T* x,
                              const float* bias, T* y) {
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N>, int64_t i) {
    int64_t place = i;
    inner.Split(&place);
    const int64_t channel = channels.Split(&place);
    Pack<float, N> values = LoadPack<N>(x, i);
    if (inner.value() == 1) {
      const Pack<float, N> added = LoadPack<N>(bias, channel);
#pragma unroll
      for (int k = 0; k < N; ++k) values.of[k] += added.of[k];
    } else {
      const float added = bias[channel];
#pragma unroll
      for (int k = 0; k < N; ++k) values.of[k] += added;
    }
    if constexpr (kRelu) {
#pragma unroll
      for (int k = 0; k < N; ++k) values.of[k] = Relu()(Rounded<T>(values.of[k]));
    }
    StorePack(values, y, i);
  });
}

// The word of a block for element i. REQUIRES: the block is that of counter i / 4.
__device__ uint32_t WordOf(const PhiloxBlock& draw, int64_t i) {
  const uint32_t low = i % 2 == 0 ? draw.word[0] : draw.word[1];
  const uint32_t high = i % 2 == 0 ? draw.word[2] : draw.word[3];
  return i % 4 < 2 ? low : high;
}

// A counter of the random numbers serves four elements.
template <typename T>
__global__ void DropoutKernel(Run run, float rate, PhiloxKey key, const StepValues* step,
                              const T* x, T* y, uint8_t* mask) {
  const float scale = 1.0f / (1.0f - rate);
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N>, int64_t i) {
    static_assert(N == 1 || N % 4 == 0);
    Pack<float, N> values = LoadPack<N>(x, i);
    Pack<uint8_t, N> kept;
    PhiloxBlock draw;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (k % 4 == 0) draw = Philox(key, (i + k) / 4, step->number);
      const uint32_t word = N == 1 ? WordOf(draw, i) : draw.word[k % 4];
      kept.of[k] = UnitFloat(word) >= rate;
      values.of[k] = kept.of[k] ? values.of[k] * scale : 0.0f;
    }
    *reinterpret_cast<Pack<uint8_t, N>*>(mask + i) = kept;
    StorePack(values, y, i);
  });
}

__global__ void SetStepValuesKernel(StepValues values, StepValues* step) { *step = values; }

// There is no race: all threads that find an overflow write the same value.
__global__ void UnscaleKernel(Run run, float* gradient, StepValues* step) {
  const float factor = 1 / step->loss_scale;
  ForEachPack<kPackOf<float>>(run, [&]<int N>(Width<N>, int64_t i) {
    Pack<float, N> values = LoadPack<N>(gradient, i);
    bool finite = true;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      values.of[k] *= factor;
      finite &= isfinite(values.of[k]);
    }
    StorePack(values, gradient, i);
    if (!finite) step->overflowed = 1;
  });
}

template <bool kRelu>
cudaError_t StartAddBias(cudaStream_t stream, Type type, int64_t count, int64_t channels,
                         int64_t inner, const void* x, const float* bias, void* y) {
  return ForType(type, [&]<typename T>(T*) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    const int64_t width = inner == 1 ? channels : inner;
    const Run run = RunOfRows<kPackOf<T>>(count, width, from, bias, to);
    Start(stream, Blocks(run), kThreads, AddBiasKernel<T, kRelu>, run, Divisor(inner),
          Divisor(channels), from, bias, to);
  });
}

}  // namespace

cudaError_t SetStepValues(cudaStream_t stream, const StepValues& values, StepValues* step) {
  Start(stream, 1, 1, SetStepValuesKernel, values, step);
  return cudaGetLastError();
}

cudaError_t Unscale(cudaStream_t stream, int64_t count, float* gradient, StepValues* step) {
  const Run run = RunOf<kPackOf<float>>(count, gradient);
  Start(stream, Blocks(run), kThreads, UnscaleKernel, run, gradient, step);
  return cudaGetLastError();
}

cudaError_t Convert(cudaStream_t stream, const ImageShape& shape, const void* from,
                    Format from_format, void* to, Format to_format) {
  // With one channel or one pixel both layouts are the same.
  const bool transpose =
      from_format.layout != to_format.layout && shape.channels > 1 && shape.area > 1;
  const bool to_last = to_format.layout == Layout::kChannelsLast;
  const int64_t pixels = shape.images * shape.area;
  const auto channels = static_cast<int>(shape.channels);
  cudaError_t error = cudaErrorInvalidValue;
  if ((to_format.channels > 0 && from_format.layout != Layout::kPlain) ||
      (from_format.channels > 0 && to_format.layout != Layout::kPlain)) {
    return error;
  }
  ForType(from_format.type, [&]<typename From>(From*) {
    ForType(to_format.type, [&]<typename To>(To*) {
      // A device computes in only one type besides fp32.
      if constexpr (std::is_same_v<From, To> || std::is_same_v<From, float> ||
                    std::is_same_v<To, float>) {
        const From* const source = static_cast<const From*>(from);
        To* const target = static_cast<To*>(to);
        if (to_format.channels > 0) {
          Start(stream, Blocks(pixels), kThreads, PadChannelsKernel<From, To>, pixels,
                Divisor(shape.area), channels, source, target);
          error = cudaGetLastError();
        } else if (from_format.channels > 0) {
          Start(stream, Blocks(pixels), kThreads, CutChannelsKernel<From, To>, pixels,
                Divisor(shape.area), channels, source, target);
          error = cudaGetLastError();
        } else {
          error = ConvertAs(stream, shape, transpose, to_last, source, target);
        }
      }
    });
  });
  return error;
}

cudaError_t ReluForward(cudaStream_t stream, Type type, int64_t count, const void* x, void* y) {
  return ForType(type, [&]<typename T>(T*) {
    StartMap(stream, count, Relu(), static_cast<T*>(y), static_cast<const T*>(x));
  });
}

cudaError_t ReluGradient(cudaStream_t stream, Type type, int64_t count, const void* y,
                         const void* dy, void* dx) {
  return ForType(type, [&]<typename T>(T*) {
    StartMap(stream, count, ReluSlope(), static_cast<T*>(dx), static_cast<const T*>(y),
             static_cast<const T*>(dy));
  });
}

cudaError_t AddPair(cudaStream_t stream, Type type, int64_t count, const void* a, const void* b,
                    void* y) {
  return ForType(type, [&]<typename T>(T*) {
    StartMap(stream, count, Add(), static_cast<T*>(y), static_cast<const T*>(a),
             static_cast<const T*>(b));
  });
}

cudaError_t AddReluForward(cudaStream_t stream, Type type, int64_t count, const void* a,
                           const void* b, void* y) {
  return ForType(type, [&]<typename T>(T*) {
    StartMap(stream, count, AddRelu<T>(), static_cast<T*>(y), static_cast<const T*>(a),
             static_cast<const T*>(b));
  });
}

cudaError_t AddReluGradient(cudaStream_t stream, Type type, int64_t count, const void* y,
                            const void* a, const void* b, void* dx) {
  return ForType(type, [&]<typename T>(T*) {
    StartMap(stream, count, AddReluSlope<T>(), static_cast<T*>(dx), static_cast<const T*>(y),
             static_cast<const T*>(a), static_cast<const T*>(b));
  });
}

cudaError_t MultiplyPair(cudaStream_t stream, Type type, int64_t count, const void* a,
                         const void* b, void* y) {
  return ForType(type, [&]<typename T>(T*) {
    StartMap(stream, count, Multiply(), static_cast<T*>(y), static_cast<const T*>(a),
             static_cast<const T*>(b));
  });
}

cudaError_t SelectElements(cudaStream_t stream, Type type, const Select& op, int64_t count,
                           const void* condition, const void* a, const void* b, void* y) {
  return ForType(type, [&]<typename T>(T*) {
    T* const to = static_cast<T*>(y);
    const T* const by = static_cast<const T*>(condition);
    const T *const left = static_cast<const T*>(a), *const right = static_cast<const T*>(b);
    if (op.a && op.b) {
      StartMap(stream, count, SelectNumber{*op.a, *op.b}, to, by);
    } else if (op.a) {
      StartMap(stream, count, SelectNumberOr{*op.a}, to, by, right);
    } else if (op.b) {
      StartMap(stream, count, SelectOrNumber{*op.b}, to, by, left);
    } else {
      StartMap(stream, count, SelectOfTwo(), to, by, left, right);
    }
  });
}

cudaError_t ActivationForward(cudaStream_t stream, Type type, const Activation& op, int64_t count,
                              const void* x, void* y) {
  return ForType(type, [&]<typename T>(T*) {
    T* const to = static_cast<T*>(y);
    const T* const from = static_cast<const T*>(x);
    if (op.kind == Gelu::kKind) {
      StartMap(stream, count, Gelu(), to, from);
    } else {
      StartLongMap(stream, count, Activate{op}, to, from);
    }
  });
}

cudaError_t ActivationGradient(cudaStream_t stream, Type type, const Activation& op, int64_t count,
                               const void* of, const void* dy, void* dx) {
  return ForType(type, [&]<typename T>(T*) {
    T* const to = static_cast<T*>(dx);
    const T *const from = static_cast<const T*>(of), *const slope = static_cast<const T*>(dy);
    if (op.kind == Gelu::kKind) {
      StartMap(stream, count, GeluGradient(), to, from, slope);
    } else {
      StartLongMap(stream, count, ActivationGradientOf{op}, to, from, slope);
    }
  });
}

cudaError_t AddBias(cudaStream_t stream, Type type, int64_t count, int64_t channels, int64_t inner,
                    const void* x, const float* bias, void* y) {
  return StartAddBias<false>(stream, type, count, channels, inner, x, bias, y);
}

cudaError_t AddBiasRelu(cudaStream_t stream, Type type, int64_t count, int64_t channels,
                        int64_t inner, const void* x, const float* bias, void* y) {
  return StartAddBias<true>(stream, type, count, channels, inner, x, bias, y);
}

cudaError_t DropoutForward(cudaStream_t stream, Type type, int64_t count, float rate, PhiloxKey key,
                           const StepValues* step, const void* x, void* y, uint8_t* mask) {
  return ForType(type, [&]<typename T>(T*) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    const Run run = RunOf<kPackOf<T>>(count, from, to, mask);
    Start(stream, Blocks(run), kThreads, DropoutKernel<T>, run, rate, key, step, from, to, mask);
  });
}

cudaError_t DropoutGradient(cudaStream_t stream, Type type, int64_t count, float rate,
                            const void* dy, const uint8_t* mask, void* dx) {
  return ForType(type, [&]<typename T>(T*) {
    StartMap(stream, count, Unmask{1.0f / (1.0f - rate)}, static_cast<T*>(dx),
             static_cast<const T*>(dy), mask);
  });
}

}  // namespace psgd::cudnn
