// The update of parameters by an optimizer: one launch for many parameters.
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
    static_assert(sizeof(Updates) <= 4096);  // what parameters of kernels may take on any device
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

  // Does the work of a block of threads.
  __device__ void Run(uint32_t block) const {
    uint32_t at = 0;
    while (block >= of_[at].end) ++at;
    const One& one = of_[at];
    const ParameterUpdate& of = one.update;
    const size_t begin = size_t{block - (at == 0 ? 0 : of_[at - 1].end)} * kEach;
    const size_t end = begin + kEach < of.size ? begin + kEach : of.size;
    const size_t packed = one.aligned ? begin + (end - begin) / kPack * kPack : begin;
    for (size_t i = begin + threadIdx.x * kPack; i < packed; i += kThreads * kPack) {
      Apply<kPack>(of, i);
    }
    for (size_t i = packed + threadIdx.x; i < end; i += kThreads) Apply<1>(of, i);
  }

 private:
  struct One {
    ParameterUpdate update;
    uint32_t end;  // blocks of this parameter and of those before it
    bool aligned;
  };
  static constexpr uint32_t kMost = (4096 - 16) / sizeof(One);

  // Elements [i, i + N).
  template <int N>
  __device__ static void Apply(const ParameterUpdate& of, size_t i) {
    const auto at = static_cast<int64_t>(i);
    const Pack<float, N> gradient = LoadPack<N>(of.gradient, at);
    Pack<float, N> weights = LoadPack<N>(of.weights, at), first{}, second{};
    if (of.states[0] != nullptr) first = LoadPack<N>(of.states[0], at);
    if (of.states[1] != nullptr) second = LoadPack<N>(of.states[1], at);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      of.update.Apply(gradient.of[k], &weights.of[k], &first.of[k], &second.of[k]);
    }
    StorePack(weights, of.weights, at);
    if (of.states[0] != nullptr) StorePack(first, of.states[0], at);
    if (of.states[1] != nullptr) StorePack(second, of.states[1], at);
  }

  uint32_t count_ = 0;
  One of_[kMost];
};

__global__ void UpdateKernel(Updates updates) { updates.Run(blockIdx.x); }

}  // namespace

cudaError_t UpdateParameters(cudaStream_t stream, const ParameterUpdate* updates, size_t count) {
  Updates launch;
  const auto start = [&] {
    if (launch.blocks() > 0) Start(stream, launch.blocks(), kThreads, UpdateKernel, launch);
    launch = {};
  };
  for (size_t i = 0; i < count; ++i) {
    if (launch.Add(updates[i])) continue;
    start();
    launch.Add(updates[i]);
  }
  start();
  return cudaGetLastError();
}

}  // namespace psgd::cudnn
