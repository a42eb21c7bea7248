// How a shard, or a worker with local steps, turns gradients into weights. PyTorch's conventions,
// element by element:
//
//   sgd       w -= lr*g
//   momentum  v = mu*v + g;  w -= lr*v
//   nesterov  v = mu*v + g;  w -= lr*(g + mu*v)
//   adagrad   s += g*g;      w -= lr * g / (sqrt(s) + eps)
//   adam      m = b1*m + (1-b1)*g;  v = b2*v + (1-b2)*g*g
//             w -= lr/(1-b1^t) * m / (sqrt(v)/sqrt(1-b2^t) + eps)
//   adamw     w *= 1 - lr*decay; then as adam
//   lars      ratio = trust * |w|/|g|;  v = mu*v + lr*ratio*g;  w -= v
//   lamb      m and v as adam;  r = m/(1-b1^t) / (sqrt(v)/sqrt(1-b2^t) + eps) + decay*w
//             ratio = |w|/|r|;  w -= lr*ratio*r
//   muon      of a matrix inside the network:  v = mu*v + g
//             w *= 1 - lr*decay;  w -= lr*0.2*sqrt(max(rows, columns)) * O(g + mu*v)
//             of another parameter as adamw
//   delayed_nesterov
//             d += g;  if t is a multiple of N: m = mu*m + d, then d = 0
//             w -= lr*(a*mu*m + g),  a = 1 - s + s/N if t is a multiple of N, else s/N
//
// t counts the updates of the slice from 1. Coupled weight decay (sgd, adagrad, adam, lars) is
// added to the gradient by the worker, so that codecs and residuals see it. Only the decay of
// adamw, lamb and muon is here (DecouplesDecay). All loops but muon's products round after every
// operation: the same inputs give the same bits on every CPU.
//
// lars (You et al., "Large batch training of convolutional networks", 2017) and lamb (You et al.,
// "Large batch optimization for deep learning", 2019): |x| is the norm over the slice on a
// shard, which has no whole tensors, and over the tensor on a worker; a sum in double, in a fixed
// order. The ratio is 1 if one of both norms is 0, and for parameters that do not decay (biases,
// scales of norms).
//
// muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024): O(x) has
// x's singular vectors, and singular values near 1. A shard has no whole matrices, so only workers
// with local steps use it. The factor 0.2*sqrt(...) makes the update about as large as adamw's (Liu
// et al., "Muon is scalable for LLM training", 2025).
//
// delayed_nesterov (Liu et al., "Asynchronous local-SGD training for language modeling", 2024): g
// is a push times its share 1/workers, as consistency.reduction: mean makes it, so it is the
// paper's g/N, and s is the paper's c*N. The N updates of a round move the weights by mu*m once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/strings/string_view.h"
#include "common/element_update.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

inline constexpr int kMaxStateArrays = 2;

// One update of one slice; the same for all its blocks.
struct OptimizerStep {
  double learning_rate = 0;  // after schedule
  double weight_decay = 0;   // of this parameter; used if DecouplesDecay
  uint64_t step = 1;         // t: updates of this slice, this one included
  bool decays = true;        // false: biases, scales of norms; lars and lamb do not adapt these
  // muon: of a matrix inside the network, row-major. A convolution's filters are its rows. 0: it is
  // none.
  size_t rows = 0, columns = 0;
};

// A stretch of a slice: weights, then the optimizer's state arrays, all `size` long. Each output is
// its own input, or overlaps no array.
struct OptimizerBlock {
  size_t size = 0;
  const float* gradient = nullptr;
  const float* weights_in = nullptr;
  float* weights_out = nullptr;
  std::array<const float*, kMaxStateArrays> state_in{};
  std::array<float*, kMaxStateArrays> state_out{};
};

// Entries of a sparse gradient, and the whole slice, updated in place.
struct SparseUpdate {
  std::span<const uint32_t> indices;  // distinct, each below the slice's size
  std::span<const float> values;      // one for each index
  float scale = 1;                    // of the values
  float* weights = nullptr;
  std::array<float*, kMaxStateArrays> states{};
};

// Stateless: the caller owns the arrays, which are zero before the first update. Thread-safe.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual absl::string_view name() const = 0;
  virtual int state_arrays() const = 0;
  // PyTorch's name of state array i: "momentum_buffer", "exp_avg", "sum". Persisted in checkpoints:
  // do not change.
  virtual absl::string_view state_name(int i) const = 0;
  virtual void ApplyBlock(const OptimizerStep& step, const OptimizerBlock& block) const = 0;
  // What ApplyBlock does, for a device. None: devices do not have such updates.
  virtual std::optional<ElementUpdate> ElementUpdateAt(const OptimizerStep& step) const {
    return std::nullopt;
  }
  // A block for ApplyBlock must be a whole slice, because the update depends on its norms.
  virtual bool whole_slices() const { return false; }
  // An element whose gradient is 0 keeps its weight and state, so that ApplySparse, which costs
  // O(entries), gives the same bits as ApplyBlock on the dense gradient.
  virtual bool sparse() const { return false; }
  // REQUIRES: sparse().
  virtual void ApplySparse(const OptimizerStep& step, const SparseUpdate& update) const;
};

// sgd when no kind is set. `workers`: whose pushes each are an update; delayed_nesterov's N, unless
// the config has its own.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerConfig& config, int workers = 1);
// The rates that the config begins with.
HyperParameters FirstHyper(const OptimizerConfig& optimizer);

// DC-ASGD (Zheng et al., "Asynchronous stochastic gradient descent with delay compensation", ICML
// 2017): g += lambda * g*g * (now - then), a first-order estimate of the gradient at `now`, from
// the gradient computed at `then`. REQUIRES: all spans have the same length.
void CompensateDelay(float lambda, std::span<const float> weights_now,
                     std::span<const float> weights_then, std::span<float> gradient);

// For slices that no optimizer moves (running statistics): out = in + delta. in == out is allowed.
void AddDelta(std::span<const float> delta, const float* in, float* out);

}  // namespace psgd
