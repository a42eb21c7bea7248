// signum: the sign of the worker's momentum.
// Bernstein, Wang, Azizzadenesheli, Anandkumar: "signSGD: compressed optimisation for non-convex
// problems", ICML 2018 (its Algorithm 2).
//
// Steps:
//   1. m[i] = momentum * m[i] + (1 - momentum) * gradient[i]
//   2. bit i = (m[i] > 0); for a zero, bit i = (i + step is odd);  decoded[i] = bit i ? 1 : -1
// The paper's sign of 0 is 0, which a bit cannot say. With + and - in turn such a weight stays.
//
// Wire, ceil(n / 8) bytes: bits, as sign_bits.h says. 1 bit an element. State: m, kept in
// checkpoints. Biased. No error feedback: magnitudes are dropped on purpose.
//
// The server adds up the votes of -1 and +1 as it adds gradients. With sgd, the learning rate is
// the largest step of a weight (about 1e-4 where Adam's is 1e-3). consistency.reduction: mean makes
// the step the mean of the workers' votes. The paper takes the majority's sign: the direction is
// the same, but the mean is shorter where workers disagree. The worker applies the momentum, so the
// server's must be 0. Small tensors are sent as signs too (policy.h), at the same rate.
#pragma once

#include "compression/kernels.h"

namespace psgd {

StatusOrCodec MakeSignum(const SignumCodec& config, const CodecKernels& kernels);

}  // namespace psgd
