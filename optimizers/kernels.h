// The optimizers' inner loops, vectorized for the CPU. optimizer.h has the formulas. Instruction
// sets differ only in width, never in the order or the rounding of operations, except for the
// rounding of `multiply`. CompensateDelay and AddDelta of optimizer.h are beside them.
#pragma once

#include <cstddef>

#include "optimizers/norms.h"
#include "optimizers/optimizer.h"

namespace psgd {

struct MomentConstants {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float epsilon;
  float step_size;                // rate / (1 - beta1^t)
  float inverse_root_correction;  // 1 / sqrt(1 - beta2^t)
};

// out = scale a b + keep old, of row-major matrices without gaps; a is rows x inner, b inner x
// columns. `out` overlaps no input. If keep is 0, `old` is not read. Of a symmetric result one half
// is computed.
struct MatrixProduct {
  size_t rows, columns, inner;
  float scale;
  const float *a, *b;
  float keep;
  const float* old;
  float* out;
  bool is_symmetric = false;
};
// Columns that a product takes together, at most.
inline constexpr size_t kPanel = 64;

// The loops for this CPU.
struct OptimizerLoops {
  void (*sgd)(float rate, const OptimizerBlock& block);
  void (*momentum)(float rate, float momentum, const OptimizerBlock& block);
  void (*nesterov)(float rate, float momentum, const OptimizerBlock& block);
  void (*adagrad)(float rate, float epsilon, const OptimizerBlock& block);
  // `keep`: factor on a weight by decoupled decay.
  void (*adam)(const MomentConstants& constants, float keep, const OptimizerBlock& block);
  void (*lars)(float rate, float momentum, const OptimizerBlock& block);
  // The new moments, and lamb's r in `update`.
  void (*lamb_moments)(const MomentConstants& constants, float decay, const OptimizerBlock& block,
                       float* update);
  // The new weights, from the new moments.
  void (*lamb_step)(const MomentConstants& constants, float decay, float rate,
                    const OptimizerBlock& block);
  // The updates of delayed_nesterov that renew the momentum, and the others. `share`: a * mu.
  void (*renew_momentum)(float rate, float momentum, float share, const OptimizerBlock& block);
  void (*keep_momentum)(float rate, float share, const OptimizerBlock& block);
  // muon: the new momentum, and in `update` nesterov's look ahead.
  void (*look_ahead)(float momentum, const OptimizerBlock& block, float* update);
  void (*shrink_and_move)(float keep, float rate, const float* update, const OptimizerBlock& block);
  // `panel`: scratch of inner x kPanel floats.
  void (*multiply)(const MatrixProduct& product, float* panel);
};
const OptimizerLoops& Loops();

// Floats of a slice that stay in the first-level cache between two loops. A multiple of kSums.
inline constexpr size_t kStretch = 2048;
// Adds the next elements of a slice. REQUIRES: `size` is a multiple of kSums, but for the last.
void AddSquares(const float* values, size_t size, SquareSums* sums);

}  // namespace psgd
