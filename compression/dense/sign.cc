#include "compression/dense/sign.h"

#include "compression/coarse.h"
#include "compression/codec_checks.h"
#include "compression/dense/sign_bits.h"
#include "compression/payload_bytes.h"
#include "compression/twinned_codec.h"

namespace psgd {
namespace {

constexpr size_t kHeaderBytes = 4;

class SignEncoder final : public Encoder {
 public:
  SignEncoder(const SignTwin&, const CodecKernels& kernels) : kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    std::byte* payload = Grow(kHeaderBytes + SignBytes(elements), out);
    std::byte* bits = payload + kHeaderBytes;
    const double sum = SplitAllSigns(input.gradient, input.residual, bits, kernels_);
    // Not finite if the values are not, so that a shard refuses what the caller let through.
    const float value = CoarseMean(sum, elements);
    StoreField(value, payload);
    kernels_.onebit.add(bits, 0, -value, value, input.residual);
  }

 private:
  const CodecKernels& kernels_;
};

class Sign final : public TwinnedCodec<SignTwin, SignEncoder> {
 public:
  using TwinnedCodec::TwinnedCodec;

  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    PSGD_RETURN_IF_ERROR(CheckLength(name(), payload, shape.elements, MaxPayload(shape.elements)));
    const float value = LoadField<float>(payload.data());
    PSGD_RETURN_IF_ERROR(CheckMagnitude(name(), value));
    PSGD_RETURN_IF_ERROR(CheckSigns(name(), payload.subspan(kHeaderBytes), shape.elements));
    return std::make_unique<SignReader>(shape.elements, value, payload.data() + kHeaderBytes,
                                        kernels());
  }

  size_t MaxPayload(uint32_t elements) const override { return kHeaderBytes + SignBytes(elements); }
};

}  // namespace

std::unique_ptr<Codec> MakeSign(const CodecKernels& kernels) {
  return std::make_unique<Sign>(CODEC_SIGN, "sign", SignTwin{}, kernels);
}

}  // namespace psgd
