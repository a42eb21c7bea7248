#include "compression/dense/int8.h"

#include "compression/dense/quantized.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<Codec>> MakeInt8(const Int8Codec& config,
                                                const CodecKernels& kernels) {
  QuantizedOptions options;
  options.id = CODEC_INT8;
  options.name = "int8";
  options.block = static_cast<uint32_t>(config.block());
  options.stochastic = config.rounding() == Rounding::STOCHASTIC;
  return MakeQuantized(options, kernels);
}

}  // namespace psgd
