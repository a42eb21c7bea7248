// topk: the k = max(1, round(density * n)) elements of largest magnitude.
// Aji, Heafield: "Sparse communication for distributed gradient descent", EMNLP 2017.
// Lin, Han, Mao, Wang, Dally: "Deep gradient compression", ICLR 2018 (select: sampled).
// Sattler, Wiedemann, Mueller, Samek: "Robust and communication-efficient federated learning from
// non-iid data", 2019 (values: ternary, their sparse ternary compression).
//
// Steps, c = gradient + residual:
//   1. a sample of c guesses a magnitude that a little more than k elements reach
//   2. one pass gathers the elements that reach it; if the guess was off, all are searched
//   3. select exact: the k largest of them, the lower index first among equals, are sent.
//      select sampled: the guess aims at k itself. If k / 2 to 4 k / 3 elements reach it, all of
//      them are sent. If more do, the k largest of them are sent (a selection among few). If fewer
//      do, the k largest of all elements are sent
//   4. values: fp32 as they are, fp16 rounded, or ternary: a sign, and for all entries their mean
//      magnitude rounded to 8 significant bits (coarse.h)
//   5. residual[i] = c[i] - decoded[i], which is c[i] where nothing was sent
// Zeros are not sent unless all elements are, so a gradient of mostly zeros sends fewer than k. If
// a bitmap would cost more than the elements left out, all elements are sent.
//
// Wire: as sparse_payload.h says. At density 0.01 with fp32: 0.4 bits an element, 8.1 of a sent
// element's 40 for its index; with fp16 0.24; with ternary 0.09. No state beside the residual.
// Biased: it needs a residual to converge.
#pragma once

#include "compression/kernels.h"
#include "compression/sparse/sparse_layout.h"

namespace psgd {

StatusOrCodec MakeTopk(const TopkCodec& config, const CodecKernels& kernels);

}  // namespace psgd
