#include "compression/dense/sign_bits.h"

#include <algorithm>
#include <cmath>

#include "compression/lanes.h"

namespace psgd {

SignSums SumSignsOneByOne(std::span<const float> values) {
  SignSums sums;
  for (float v : values) {
    (v >= 0 ? sums.positive : sums.negative) += v;
    sums.positive_count += v >= 0;
  }
  return sums;
}

double SplitAllSigns(std::span<const float> gradient, std::span<float> residual, std::byte* bits,
                     const CodecKernels& kernels) {
  double total = 0;
  for (size_t begin = 0; begin < gradient.size(); begin += kSignStretch) {
    const std::span<const float> part =
        gradient.subspan(begin, std::min(kSignStretch, gradient.size() - begin));
    float* keep = residual.empty() ? nullptr : residual.data() + begin;
    SignSums sums = kernels.onebit.split(part, keep, bits + begin / 8);
    if (!std::isfinite(sums.positive) || !std::isfinite(sums.negative)) {
      sums = SumSignsOneByOne(keep != nullptr ? std::span<const float>(keep, part.size()) : part);
    }
    total += sums.positive - sums.negative;
  }
  return total;
}

}  // namespace psgd
