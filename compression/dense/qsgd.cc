#include "compression/dense/qsgd.h"

#include "absl/strings/str_cat.h"
#include "compression/dense/quantized.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<Codec>> MakeQsgd(const QsgdCodec& config,
                                                const CodecKernels& kernels) {
  const int64_t bits = config.bits();
  if (bits < kLeastQuantizedBits || bits > kMostQuantizedBits) {
    return absl::InvalidArgumentError(
        absl::StrCat("qsgd.bits is ", bits, "; an element takes 2 to 8, such as 4"));
  }
  QuantizedOptions options;
  options.id = CODEC_QSGD;
  options.name = "qsgd";
  options.block = static_cast<uint32_t>(config.block());
  options.bits = static_cast<uint32_t>(bits);
  options.packed = true;
  options.l2 = config.norm() == QsgdCodec::L2;
  options.stochastic = config.rounding() == Rounding::STOCHASTIC;
  return MakeQuantized(options, kernels);
}

}  // namespace psgd
