// The update of parameters by an optimizer: one launch for many parameters.
#include "common/newton_schulz.h"
#include "common/rounded_math.h"
#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

constexpr int kPack = 4;
constexpr uint32_t kEach = 4 * kPack * kThreads;  // elements of a block

// The parameters of a launch. The kernel takes them as its parameter.
class Updates {
 public:
  // Returns false if there is no room for it.
  bool Add(const ParameterUpdate& of) {
    static_assert(sizeof(Updates) <= kBytes);
    if (count_ == kMost) return false;
    uintptr_t addresses = reinterpret_cast<uintptr_t>(of.gradient);
    for (const float* memory : {of.weights, of.states[0], of.states[1]}) {
      addresses |= reinterpret_cast<uintptr_t>(memory);
    }
    const auto more = static_cast<uint32_t>((of.size + kEach - 1) / kEach);
    of_[count_] = {of, blocks() + more, addresses % (kPack * sizeof(float)) == 0};
    ++count_;
    return true;
  }
  uint32_t blocks() const { return count_ == 0 ? 0 : of_[count_ - 1].end; }

  // Calls body(Width<N>, parameter, i) for elements [i, i + N) of a block, over its threads.
  template <typename Body>
  __device__ void ForEach(uint32_t block, Body body) const {
    uint32_t at = 0;
    while (block >= of_[at].end) ++at;
    const One& one = of_[at];
    const ParameterUpdate& of = one.update;
    const size_t begin = size_t{block - (at == 0 ? 0 : of_[at - 1].end)} * kEach;
    const size_t end = begin + kEach < of.size ? begin + kEach : of.size;
    const size_t packed = one.aligned ? begin + (end - begin) / kPack * kPack : begin;
    for (size_t i = begin + threadIdx.x * kPack; i < packed; i += kThreads * kPack) {
      body(Width<kPack>(), of, static_cast<int64_t>(i));
    }
    for (size_t i = packed + threadIdx.x; i < end; i += kThreads) {
      body(Width<1>(), of, static_cast<int64_t>(i));
    }
  }

 private:
  struct One {
    ParameterUpdate update;
    uint32_t end;  // blocks of this parameter and of those before it
    bool aligned;
  };
  // With the other parameters at most 4096, which kernels may take on any device.
  static constexpr size_t kBytes = 4000;
  static constexpr uint32_t kMost = (kBytes - 16) / sizeof(One);

  uint32_t count_ = 0;
  One of_[kMost];
};

// A sum of squares for each block.
__global__ void SquaresKernel(Updates updates, GradientBounds bounds, double* sums) {
  double mine = 0;
  updates.ForEach(blockIdx.x, [&]<int N>(Width<N>, const ParameterUpdate& of, int64_t i) {
    if (of.update.kind == ElementUpdate::Kind::kAdd) return;
    const Pack<float, N> gradient = LoadPack<N>(of.gradient, i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const double g = bounds.Bound(gradient.of[k]);
      mine += g * g;
    }
  });
  const double sum = SumOfBlock(mine);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Sets sums[0], what gradients are multiplied by, from the blocks' sums behind it.
template <typename By>
__global__ void ScaleKernel(int64_t blocks, By by, double* sums) {
  double mine = 0;
  for (int64_t i = threadIdx.x; i < blocks; i += kThreads) mine += sums[1 + i];
  const double sum = SumOfBlock(mine);
  if (threadIdx.x == 0) sums[0] = by.Scale(sum);
}

// `scale`: of gradients; null: 1.
__global__ void UpdateKernel(Updates updates, GradientBounds bounds, const double* scale) {
  const float by = scale == nullptr ? 1.0f : static_cast<float>(*scale);
  updates.ForEach(blockIdx.x, [&]<int N>(Width<N>, const ParameterUpdate& of, int64_t i) {
    const bool trained = of.update.kind != ElementUpdate::Kind::kAdd;
    Pack<float, N> gradient = LoadPack<N>(of.gradient, i);
    Pack<float, N> weights = LoadPack<N>(of.weights, i), first{}, second{};
    if (of.states[0] != nullptr) first = LoadPack<N>(of.states[0], i);
    if (of.states[1] != nullptr) second = LoadPack<N>(of.states[1], i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (trained) gradient.of[k] = RoundedMath::Mul(bounds.Bound(gradient.of[k]), by);
      of.update.Apply(gradient.of[k], &weights.of[k], &first.of[k], &second.of[k]);
    }
    StorePack(weights, of.weights, i);
    if (of.states[0] != nullptr) StorePack(first, of.states[0], i);
    if (of.states[1] != nullptr) StorePack(second, of.states[1], i);
  });
}

// Calls launch(updates) for all of them, with as many at once as possible.
template <typename Launch>
void ForEachLaunch(const ParameterUpdate* updates, size_t count, Launch launch) {
  Updates some;
  for (size_t i = 0; i < count; ++i) {
    if (some.Add(updates[i])) continue;
    if (some.blocks() > 0) launch(some);
    some = {};
    some.Add(updates[i]);
  }
  if (some.blocks() > 0) launch(some);
}

// Sets sums[0] by by.Scale, from the squares of all gradients.
template <typename By>
void StartScale(cudaStream_t stream, const ParameterUpdate* updates, size_t count,
                const GradientBounds& bounds, By by, double* sums) {
  int64_t blocks = 0;
  ForEachLaunch(updates, count, [&](const Updates& some) {
    Start(stream, some.blocks(), kThreads, SquaresKernel, some, bounds, sums + 1 + blocks);
    blocks += some.blocks();
  });
  Start(stream, 1, kThreads, ScaleKernel<By>, blocks, by, sums);
}

struct TimesScale {
  const double* scale;
  __device__ float operator()(float x) const {
    return RoundedMath::Mul(x, static_cast<float>(*scale));
  }
};

}  // namespace

size_t UpdateSums(const ParameterUpdate* updates, size_t count) {
  size_t blocks = 0;
  for (size_t i = 0; i < count; ++i) blocks += (updates[i].size + kEach - 1) / kEach;
  return 1 + blocks;
}

cudaError_t UpdateParameters(cudaStream_t stream, const ParameterUpdate* updates, size_t count,
                             const GradientBounds& bounds, double* sums) {
  const bool scales = bounds.norm > 0;
  if (scales) StartScale(stream, updates, count, bounds, bounds, sums);
  ForEachLaunch(updates, count, [&](const Updates& some) {
    Start(stream, some.blocks(), kThreads, UpdateKernel, some, bounds,
          static_cast<const double*>(scales ? sums : nullptr));
  });
  return cudaGetLastError();
}

cudaError_t Normalize(cudaStream_t stream, size_t size, const float* x, double* sums, float* to) {
  ParameterUpdate of;
  of.size = size;
  of.gradient = x;
  of.update.kind = ElementUpdate::Kind::kSgd;
  StartScale(stream, &of, 1, GradientBounds(), NewtonSchulz(), sums);
  StartMap(stream, static_cast<int64_t>(size), TimesScale{sums}, to, x);
  return cudaGetLastError();
}

}  // namespace psgd::cudnn
