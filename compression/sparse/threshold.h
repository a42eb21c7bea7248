// threshold: +-tau for each element of at least that magnitude, nothing for the others.
// Strom: "Scalable distributed DNN training using commodity GPU cloud computing", Interspeech 2015.
//
// Steps, c = gradient + residual:
//   1. tau = the configured value, rounded to 8 significant bits (coarse.h)
//   2. where |c[i]| >= tau, decoded[i] = tau with the sign of c[i]; elsewhere 0. A step sends only
//      one tau of an element, however large the element is
//   3. residual[i] = c[i] - decoded[i]
//
// Wire: as sparse_payload.h says, with signs and tau as their magnitude. The number of entries
// follows the gradient; at 1 % of the elements, 0.09 bits an element. No state beside the residual.
// Biased: it needs a residual to converge. tau must fit the size of the gradients, and no rule
// finds it. If tau is too large, nothing is sent for many steps; if too small, residuals grow.
#pragma once

#include "compression/kernels.h"

namespace psgd {

StatusOrCodec MakeThreshold(const ThresholdCodec& config, const CodecKernels& kernels);

}  // namespace psgd
