// The optimizers' inner loops, vectorized for the CPU. optimizer.h has the formulas. Instruction
// sets differ only in width, never in the order or the rounding of operations.
#pragma once

#include <cstddef>

#include "server/shard/optimizer.h"

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
void CompensateDelayLoop(float lambda, const float* now, const float* then, float* gradient,
                         size_t size);
void AddDeltaLoop(const float* delta, const float* in, float* out, size_t size);

}  // namespace psgd
