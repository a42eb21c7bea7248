#include "compression/dense/onebit.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compression/coarse.h"
#include "compression/codec_checks.h"
#include "compression/dense/sign_bits.h"
#include "compression/payload_bytes.h"
#include "compression/twinned_codec.h"

namespace psgd {
namespace {

constexpr size_t kHeaderBytes = 4;

struct Pair {
  float high = 0;
  float low = 0;
};

constexpr size_t kPairBytes = 4;

void StorePair(const Pair& pair, std::byte* at) {
  StoreField(CoarseBits(pair.high), at);
  StoreField(CoarseBits(pair.low), at + 2);
}

Pair LoadPair(const std::byte* at) {
  return {FromCoarseBits(LoadField<uint16_t>(at)), FromCoarseBits(LoadField<uint16_t>(at + 2))};
}

size_t BlockCount(size_t elements, size_t block) { return (elements + block - 1) / block; }

size_t PayloadBytes(size_t elements, size_t block) {
  return kHeaderBytes + BlockCount(elements, block) * kPairBytes + SignBytes(elements);
}

bool ValidBlock(int64_t block) {
  return block >= kOnebitBlockUnit && block <= kLargestOnebitBlock && block % kOnebitBlockUnit == 0;
}

Pair Means(const SignSums& sums, size_t count) {
  return {CoarseMean(sums.positive, sums.positive_count),
          CoarseMean(sums.negative, count - sums.positive_count)};
}

class OnebitEncoder final : public Encoder {
 public:
  OnebitEncoder(const OnebitTwin& options, const CodecKernels& kernels)
      : block_(options.block), kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    std::byte* payload = Grow(PayloadBytes(elements, block_), out);
    StoreField(block_, payload);
    std::byte* pair = payload + kHeaderBytes;
    std::byte* bits = pair + BlockCount(elements, block_) * kPairBytes;
    for (size_t begin = 0; begin < elements; begin += block_) {
      const size_t count = std::min<size_t>(block_, elements - begin);
      StorePair(EncodeBlock(input.gradient.subspan(begin, count),
                            input.residual.empty() ? std::span<float>()
                                                   : input.residual.subspan(begin, count),
                            bits + begin / 8),
                pair);
      pair += kPairBytes;
    }
  }

 private:
  Pair EncodeBlock(std::span<const float> gradient, std::span<float> residual, std::byte* bits) {
    const bool keep = !residual.empty();
    SignSums sums = kernels_.onebit.split(gradient, keep ? residual.data() : nullptr, bits);
    if (!std::isfinite(sums.positive) || !std::isfinite(sums.negative)) {
      sums = SumSignsOneByOne(keep ? residual : gradient);
    }
    const Pair means = Means(sums, gradient.size());
    if (keep) kernels_.onebit.add(bits, 0, -means.high, -means.low, residual);
    return means;
  }

  const uint32_t block_;
  const CodecKernels& kernels_;
};

class OnebitReader final : public PayloadReader {
 public:
  OnebitReader(uint32_t elements, ByteSpan payload, const CodecKernels& kernels)
      : PayloadReader(elements),
        kernels_(kernels),
        block_(LoadField<uint32_t>(payload.data())),
        pairs_(payload.data() + kHeaderBytes),
        bits_(pairs_ + BlockCount(elements, block_) * kPairBytes) {}

  void AddBlock(float scale, std::span<float> block) override {
    while (!block.empty()) {
      const size_t count = std::min<size_t>(block.size(), block_ - position_ % block_);
      const Pair pair = LoadPair(pairs_ + position_ / block_ * kPairBytes);
      kernels_.onebit.add(bits_, position_, scale * pair.high, scale * pair.low,
                          block.first(count));
      position_ += count;
      block = block.subspan(count);
    }
  }
  float Largest() const override {
    float largest = 0;
    for (size_t i = 0; i < BlockCount(elements(), block_); ++i) {
      const Pair pair = LoadPair(pairs_ + i * kPairBytes);
      largest = std::max({largest, pair.high, -pair.low});
    }
    return largest;
  }

 private:
  const CodecKernels& kernels_;
  const uint32_t block_;
  const std::byte* const pairs_;
  const std::byte* const bits_;
  size_t position_ = 0;
};

absl::Status CheckPairs(const std::byte* pairs, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const Pair pair = LoadPair(pairs + i * kPairBytes);
    if (!std::isfinite(pair.high) || !std::isfinite(pair.low)) {
      return OutOfRangeError("onebit block ", i, " has a value that is not finite");
    }
    if (pair.high < 0 || pair.low > 0) {
      return InvalidArgumentError("onebit block ", i, " has values on the wrong side of zero");
    }
  }
  return absl::OkStatus();
}

class Onebit final : public TwinnedCodec<OnebitTwin, OnebitEncoder> {
 public:
  using TwinnedCodec::TwinnedCodec;

  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    const size_t elements = shape.elements;
    if (payload.size() < kHeaderBytes) {
      return absl::InvalidArgumentError("onebit payload ends before its block size");
    }
    const uint32_t block = LoadField<uint32_t>(payload.data());
    if (!ValidBlock(block)) {
      return InvalidArgumentError("onebit payload with blocks of ", block);
    }
    PSGD_RETURN_IF_ERROR(CheckLength(absl::StrCat("onebit (blocks of ", block, ")"), payload,
                                     elements, PayloadBytes(elements, block)));
    PSGD_RETURN_IF_ERROR(CheckPairs(payload.data() + kHeaderBytes, BlockCount(elements, block)));
    PSGD_RETURN_IF_ERROR(CheckSigns(name(), payload, elements));
    return std::make_unique<OnebitReader>(shape.elements, payload, kernels());
  }

  size_t MaxPayload(uint32_t elements) const override {
    return PayloadBytes(elements, kOnebitBlockUnit);
  }
};

}  // namespace

StatusOrCodec MakeOnebit(const OnebitCodec& config, const CodecKernels& kernels) {
  if (!ValidBlock(config.block())) {
    return InvalidArgumentError(
        "onebit.block is ", config.block(),
        "; it must be a multiple of 64 between 64 and 1048576, such as 128");
  }
  const OnebitTwin options = {static_cast<uint32_t>(config.block())};
  return std::make_unique<Onebit>(CODEC_ONEBIT, "onebit", options, kernels);
}

}  // namespace psgd
