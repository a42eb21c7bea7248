#include "compression/sparse/randomk.h"

#include <cmath>

#include "compression/codec_checks.h"
#include "compression/payload_bytes.h"
#include "compression/sparse/density_count.h"
#include "compression/sparse/entry_reader.h"
#include "compression/sparse/strata.h"
#include "compression/twinned_codec.h"

namespace psgd {
namespace {

constexpr size_t kHeaderBytes = 20;

class RandomkEncoder final : public Encoder {
 public:
  RandomkEncoder(const RandomkTwin& options, const CodecKernels& kernels)
      : density_(options.density), kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    const auto count = static_cast<uint32_t>(CountAt(density_, elements));
    std::byte* payload = Grow(kHeaderBytes + count * sizeof(float), out);
    StoreField(count, payload);
    StoreField(input.key.low, payload + 4);
    StoreField(input.key.high, payload + 8);
    StoreField(input.step, payload + 12);
    payload += kHeaderBytes;
    const bool keep = !input.residual.empty();
    if (keep) kernels_.dense.add(input.gradient, input.residual);
    Strata strata(static_cast<uint32_t>(elements), count, input.key, input.step);
    for (; !strata.done(); payload += sizeof(float)) {
      const uint32_t index = strata.Next();
      if (keep) {
        StoreField(input.residual[index], payload);
        input.residual[index] = 0;
      } else {
        StoreField(ScaledToStratum(input.gradient[index], strata.length()), payload);
      }
    }
  }

 private:
  const double density_;
  const CodecKernels& kernels_;
};

class DrawnEntries {
 public:
  DrawnEntries(const Strata& strata, const std::byte* values, float largest)
      : strata_(strata), value_(values), largest_(largest) {}

  uint64_t NextIndex() { return strata_.done() ? kNoEntry : strata_.Next(); }
  float NextValue() {
    const float value = LoadField<float>(value_);
    value_ += sizeof(value);
    return value;
  }
  float Largest() const { return largest_; }

 private:
  Strata strata_;
  const std::byte* value_;
  float largest_;  // of the values' magnitudes
};

class Randomk final : public TwinnedCodec<RandomkTwin, RandomkEncoder> {
 public:
  using TwinnedCodec::TwinnedCodec;

  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    if (payload.size() < kHeaderBytes) {
      return absl::InvalidArgumentError("randomk payload ends within its header");
    }
    const uint32_t count = LoadField<uint32_t>(payload.data());
    if (count > shape.elements || (count == 0 && shape.elements > 0)) {
      return InvalidArgumentError("randomk payload of ", count, " entries for ", shape.elements,
                                  " elements");
    }
    if (payload.size() != kHeaderBytes + size_t{count} * sizeof(float)) {
      return InvalidArgumentError("randomk payload of ", payload.size(), " bytes for ", count,
                                  " entries");
    }
    const std::byte* values = payload.data() + kHeaderBytes;
    const float largest = kernels().dense.largest(values, count);
    if (!std::isfinite(largest)) return NotFinite(name());
    const PhiloxKey key = {LoadField<uint32_t>(payload.data() + 4),
                           LoadField<uint32_t>(payload.data() + 8)};
    const Strata strata(shape.elements, count, key, LoadField<uint64_t>(payload.data() + 12));
    return std::make_unique<EntryReader<DrawnEntries>>(shape.elements,
                                                       DrawnEntries(strata, values, largest));
  }

  size_t MaxPayload(uint32_t elements) const override {
    return kHeaderBytes + size_t{elements} * sizeof(float);
  }
};

}  // namespace

StatusOrCodec MakeRandomk(const RandomkCodec& config, const CodecKernels& kernels) {
  PSGD_RETURN_IF_ERROR(CheckDensity("randomk", config.density()));
  return std::make_unique<Randomk>(CODEC_RANDOMK, "randomk", RandomkTwin{config.density()},
                                   kernels);
}

}  // namespace psgd
