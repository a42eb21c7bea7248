#include "compression/dense/fp16.h"

#include "compression/dense/half_codec.h"

namespace psgd {

std::unique_ptr<Codec> MakeFp16(const CodecKernels& kernels) {
  return MakeHalfCodec(CODEC_FP16, "fp16", kernels.fp16);
}

}  // namespace psgd
