// One function an op: plain loops that follow the formula in the op's header. Sums are always in
// double, so that the fp32 variant is as exact as fp32 storage allows.
#pragma once

#include "engine/reference/operands.h"

namespace psgd::reference {

#define PSGD_DECLARE(Op) \
  template <typename T>  \
  void Compute(const Op& op, const Operands<T>& t);
PSGD_OPS(PSGD_DECLARE)
#undef PSGD_DECLARE

}  // namespace psgd::reference

// At the end of an op's file: instantiates its function for both types.
#define PSGD_REFERENCE_OP(Op)                                      \
  template void Compute<float>(const Op&, const Operands<float>&); \
  template void Compute<double>(const Op&, const Operands<double>&)
