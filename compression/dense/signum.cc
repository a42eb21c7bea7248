#include "compression/dense/signum.h"

#include "compression/codec_checks.h"
#include "compression/dense/sign_bits.h"
#include "compression/payload_bytes.h"

namespace psgd {
namespace {

// Clears the bits of zeros at even places. `first` is the place of the first element. REQUIRES: the
// bits of zeros are set.
void TurnZeros(std::span<const float> mean, uint64_t first, std::byte* bits) {
  size_t zeros = 0;
  for (float m : mean) zeros += m == 0;
  if (zeros == 0) return;
  for (size_t i = 0; i < mean.size(); ++i) {
    if (mean[i] == 0 && (first + i) % 2 == 0) bits[i / 8] &= ~(std::byte{1} << (i % 8));
  }
}

class SignumEncoder final : public Encoder {
 public:
  SignumEncoder(float momentum, uint32_t elements, const CodecKernels& kernels)
      : momentum_(momentum), kernels_(kernels), mean_(elements) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = mean_.size();
    std::byte* bits = Grow(SignBytes(elements), out);
    for (size_t begin = 0; begin < elements; begin += kEncodeBlock) {
      const size_t count = std::min(kEncodeBlock, elements - begin);
      const std::span<float> mean = std::span(mean_).subspan(begin, count);
      kernels_.dense.blend(momentum_, input.gradient.subspan(begin, count), 1 - momentum_, mean);
      kernels_.onebit.split(mean, nullptr, bits + begin / 8);
      TurnZeros(mean, begin + input.step, bits + begin / 8);
    }
  }

  void SaveState(std::span<float> arrays) const override {
    std::ranges::copy(mean_, arrays.begin());
  }
  void LoadState(std::span<const float> arrays) override {
    std::ranges::copy(arrays, mean_.begin());
  }

 private:
  const float momentum_;
  const CodecKernels& kernels_;
  std::vector<float> mean_;
};

class Signum final : public Codec {
 public:
  Signum(float momentum, const CodecKernels& kernels)
      : Codec(CODEC_SIGNUM, "signum", kernels), momentum_(momentum) {}

  bool keeps_residual() const override { return false; }
  size_t state_arrays() const override { return 1; }
  uint32_t memory() const override { return CODEC_SIGNUM; }
  std::optional<TwinCodec> Twin(const SliceShape&) const override { return SignumTwin{momentum_}; }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape& shape) const override {
    return std::make_unique<SignumEncoder>(momentum_, shape.elements, kernels());
  }

  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    PSGD_RETURN_IF_ERROR(CheckLength(name(), payload, shape.elements, MaxPayload(shape.elements)));
    PSGD_RETURN_IF_ERROR(CheckSigns(name(), payload, shape.elements));
    return std::make_unique<SignReader>(shape.elements, 1.0f, payload.data(), kernels());
  }

  size_t MaxPayload(uint32_t elements) const override { return SignBytes(elements); }

 private:
  const float momentum_;
};

}  // namespace

StatusOrCodec MakeSignum(const SignumCodec& config, const CodecKernels& kernels) {
  const double momentum = config.momentum();
  if (!(momentum >= 0 && momentum < 1)) {
    return InvalidArgumentError("signum.momentum is ", momentum,
                                "; it is at least 0 and below 1, such as 0.9");
  }
  return std::make_unique<Signum>(static_cast<float>(momentum), kernels);
}

}  // namespace psgd
