// The optimizers' inner loops, vectorized for the CPU. optimizer.h has the formulas. Instruction
// sets differ only in width, never in the order or the rounding of operations. CompensateDelay and
// AddDelta of optimizer.h are beside them.
#pragma once

#include "optimizers/optimizer.h"

namespace psgd {

struct AdamConstants {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float epsilon;
  float step_size;                // lr / (1 - beta1^t)
  float inverse_root_correction;  // 1 / sqrt(1 - beta2^t)
  float keep;                     // factor on a weight by decoupled decay
};

void SgdLoop(float rate, const OptimizerBlock& block);
void MomentumLoop(float rate, float momentum, const OptimizerBlock& block);
void NesterovLoop(float rate, float momentum, const OptimizerBlock& block);
void AdagradLoop(float rate, float epsilon, const OptimizerBlock& block);
void AdamLoop(const AdamConstants& constants, const OptimizerBlock& block);

}  // namespace psgd
