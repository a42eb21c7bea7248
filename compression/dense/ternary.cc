#include "compression/dense/ternary.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compression/codec_checks.h"
#include "compression/dense/ternary_value.h"
#include "compression/lanes.h"
#include "compression/payload_bytes.h"
#include "compression/twinned_codec.h"

namespace psgd {
namespace {

constexpr size_t kHeaderBytes = 4;

size_t PayloadBytes(size_t elements) { return kHeaderBytes + TernaryDigitBytes(elements); }

// Hands out the elements of packed digits from front to back, group by group.
class TritCursor {
 public:
  TritCursor(const std::byte* digits, size_t elements, const TernaryKernels& kernels)
      : kernels_(kernels), next_(digits), packed_(elements) {}

  // y += value * trits.
  void Add(float value, std::span<float> y) {
    while (!y.empty()) {
      if (begin_ == end_) Refill();
      const size_t count = std::min(y.size(), end_ - begin_);
      kernels_.add(trits_.data() + begin_, value, y.first(count));
      begin_ += count;
      y = y.subspan(count);
    }
  }

 private:
  void Refill() {
    const size_t count = std::min(packed_, kTernaryGroup);
    kernels_.unpack(next_, TernaryBytes(count), trits_.data());
    next_ += TernaryBytes(count);
    packed_ -= count;
    begin_ = 0;
    end_ = count;
  }

  const TernaryKernels& kernels_;
  const std::byte* next_;
  size_t packed_;     // elements not yet unpacked
  size_t begin_ = 0;  // in trits_: unpacked, not yet added
  size_t end_ = 0;
  std::array<int8_t, kTernaryGroup> trits_;
};

class TernaryEncoder final : public Encoder {
 public:
  TernaryEncoder(const TernaryTwin& options, const CodecKernels& kernels)
      : clip_(options.clip), kernels_(kernels.ternary) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const bool keep = !input.residual.empty();
    const size_t elements = input.gradient.size();
    const float limit = TernaryLimit(Measure(input), clip_, elements);
    std::byte* payload = Grow(PayloadBytes(elements), out);
    std::byte* digits = payload + kHeaderBytes;
    const Drawn drawn = Draw(input, limit, digits);
    float value = limit;
    if (keep) {
      value = FittedTernary(drawn, limit);
      TritCursor(digits, elements, kernels_).Add(-value, input.residual);
    }
    StoreField(value, payload);
  }

 private:
  // Measures the slice by stretches; see lanes.h.
  Moments Measure(const EncodeInput& input) const {
    const bool keep = !input.residual.empty();
    Moments all;
    for (size_t begin = 0; begin < input.gradient.size(); begin += kSumStretch) {
      const size_t count = std::min(kSumStretch, input.gradient.size() - begin);
      const Moments part = kernels_.measure(input.gradient.subspan(begin, count),
                                            keep ? &input.residual[begin] : nullptr);
      all.largest = std::max(all.largest, part.largest);
      all.sum_squares += part.sum_squares;
    }
    return all;
  }

  Drawn Draw(const EncodeInput& input, float limit, std::byte* digits) const {
    const std::span<const float> corrected =
        input.residual.empty() ? input.gradient : std::span<const float>(input.residual);
    TernaryDraw draw = {limit, input.key, input.step, 0};
    Drawn all;
    for (size_t begin = 0; begin < corrected.size(); begin += kSumStretch) {
      const size_t count = std::min(kSumStretch, corrected.size() - begin);
      draw.first = static_cast<uint32_t>(begin);
      const Drawn part =
          kernels_.draw(corrected.subspan(begin, count), draw, digits + begin / kTernaryDigits);
      all.sum += part.sum;
      all.count += part.count;
    }
    return all;
  }

  const double clip_;
  const TernaryKernels& kernels_;
};

class TernaryReader final : public PayloadReader {
 public:
  TernaryReader(uint32_t elements, ByteSpan payload, const CodecKernels& kernels)
      : PayloadReader(elements),
        value_(LoadField<float>(payload.data())),
        cursor_(payload.data() + kHeaderBytes, elements, kernels.ternary) {}

  void AddBlock(float scale, std::span<float> block) override {
    cursor_.Add(scale * value_, block);
  }
  float Largest() const override { return value_; }

 private:
  const float value_;
  TritCursor cursor_;
};

// Checks that the digits beyond the last group's elements stand for 0.
bool PaddingIsZero(ByteSpan last_group, size_t elements) {
  for (size_t e = elements; e < last_group.size() * kTernaryDigits; ++e) {
    unsigned rest = std::to_integer<unsigned>(last_group[e % last_group.size()]);
    for (size_t t = 0; t < e / last_group.size(); ++t) rest /= 3;
    if (rest % 3 != 1) return false;
  }
  return true;
}

class Ternary final : public TwinnedCodec<TernaryTwin, TernaryEncoder> {
 public:
  using TwinnedCodec::TwinnedCodec;

  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    PSGD_RETURN_IF_ERROR(
        CheckLength(name(), payload, shape.elements, PayloadBytes(shape.elements)));
    PSGD_RETURN_IF_ERROR(CheckMagnitude(name(), LoadField<float>(payload.data())));
    unsigned largest = 0;
    for (std::byte b : payload.subspan(kHeaderBytes)) {
      largest = std::max(largest, std::to_integer<unsigned>(b));
    }
    if (largest > kLargestTernaryByte) {
      return InvalidArgumentError("ternary payload has a byte of ", largest,
                                  ": five digits reach 242");
    }
    const size_t rest = shape.elements % kTernaryGroup;
    if (!PaddingIsZero(payload.last(TernaryBytes(rest)), rest)) {
      return absl::InvalidArgumentError("ternary payload has digits beyond its last element");
    }
    return std::make_unique<TernaryReader>(shape.elements, payload, kernels());
  }

  size_t MaxPayload(uint32_t elements) const override { return PayloadBytes(elements); }
};

}  // namespace

StatusOrCodec MakeTernary(const TernaryCodec& config, const CodecKernels& kernels) {
  const double clip = config.clip();
  if (!std::isfinite(clip) || clip < 0) {
    return InvalidArgumentError(
        "compression ternary.clip is ", clip,
        "; it counts standard deviations: 2.5 is usual, 0 switches clipping off");
  }
  return std::make_unique<Ternary>(CODEC_TERNARY, "ternary", TernaryTwin{clip}, kernels);
}

}  // namespace psgd
