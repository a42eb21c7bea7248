#include "compression/sign_bits.h"

#include <algorithm>
#include <cmath>

namespace psgd {
namespace {

constexpr size_t kStretch = 1024;  // elements summed in fp32 lanes

double SumMagnitudes(std::span<const float> values) {
  double sum = 0;
  for (float v : values) sum += std::fabs(v);
  return sum;
}

}  // namespace

double SplitAllSigns(std::span<const float> gradient, std::span<float> residual, std::byte* bits,
                     const CodecKernels& kernels) {
  double total = 0;
  for (size_t begin = 0; begin < gradient.size(); begin += kStretch) {
    const std::span<const float> part =
        gradient.subspan(begin, std::min(kStretch, gradient.size() - begin));
    float* keep = residual.empty() ? nullptr : residual.data() + begin;
    const SignSums sums = kernels.onebit.split(part, keep, bits + begin / 8);
    double sum = sums.positive - sums.negative;
    // fp32 lanes overflow only where values near the end of the fp32 range come in numbers.
    if (!std::isfinite(sum)) {
      sum = SumMagnitudes(keep != nullptr ? std::span<const float>(keep, part.size()) : part);
    }
    total += sum;
  }
  return total;
}

}  // namespace psgd
