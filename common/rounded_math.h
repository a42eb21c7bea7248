// Operations that round each by itself: a compiler may not merge a product with a later sum, so
// equal terms cancel to the bit, and a device has the host's bits. nvcc reads this.
#pragma once

#include <cmath>

#include "common/host_device.h"

namespace psgd {

struct RoundedMath {
#ifdef __CUDA_ARCH__
  PS_HD static float Mul(float a, float b) { return __fmul_rn(a, b); }
  PS_HD static float Add(float a, float b) { return __fadd_rn(a, b); }
  PS_HD static float Sub(float a, float b) { return __fsub_rn(a, b); }
  PS_HD static float Div(float a, float b) { return __fdiv_rn(a, b); }
  PS_HD static float Sqrt(float a) { return __fsqrt_rn(a); }
#else
  PS_HD static float Mul(float a, float b) { return a * b; }
  PS_HD static float Add(float a, float b) { return a + b; }
  PS_HD static float Sub(float a, float b) { return a - b; }
  PS_HD static float Div(float a, float b) { return a / b; }
  PS_HD static float Sqrt(float a) { return std::sqrt(a); }
#endif
};

}  // namespace psgd
