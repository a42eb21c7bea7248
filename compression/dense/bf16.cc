#include "compression/dense/bf16.h"

#include "compression/dense/half_codec.h"

namespace psgd {

std::unique_ptr<Codec> MakeBf16(const CodecKernels& kernels) {
  return MakeHalfCodec(CODEC_BF16, "bf16", kernels.bf16);
}

}  // namespace psgd
