#include "compression/topk.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "compression/payload_bytes.h"
#include "compression/rice.h"
#include "compression/topk_encoder.h"

namespace psgd {
namespace {

constexpr size_t kHeaderBytes = 8;

struct Parts {
  uint32_t count = 0;
  const std::byte* values = nullptr;
  RiceReader indices;
};

class TopkReader final : public PayloadReader {
 public:
  TopkReader(uint32_t elements, const Parts& parts)
      : PayloadReader(elements), left_(parts.count), value_(parts.values), rice_(parts.indices) {
    Advance();
  }

  void AddBlock(float scale, std::span<float> block) override {
    const uint64_t end = position_ + block.size();
    while (index_ < end) {
      block[index_ - position_] += scale * TakeValue();
      Advance();
    }
    position_ = end;
  }

  bool sparse() const override { return true; }

  size_t NextEntries(std::span<uint32_t> indices, std::span<float> values) override {
    const size_t room = std::min(indices.size(), values.size());
    size_t filled = 0;
    for (; filled < room && index_ != kNone; ++filled) {
      indices[filled] = static_cast<uint32_t>(index_);
      values[filled] = TakeValue();
      Advance();
    }
    return filled;
  }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};

  float TakeValue() {
    const float value = LoadField<float>(value_);
    value_ += sizeof(float);
    return value;
  }
  void Advance() {
    index_ = left_ == 0 ? kNone : rice_.Next();
    left_ -= left_ > 0;
  }

  uint32_t left_;  // indices not yet read
  const std::byte* value_;
  RiceReader rice_;
  uint64_t index_ = kNone;  // of the next entry
  uint64_t position_ = 0;
};

absl::Status CheckIndices(RiceReader reader, uint32_t count, uint32_t elements) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t index = reader.Next();
    if (reader.Overrun()) {
      return absl::InvalidArgumentError(
          absl::StrCat("topk payload ends within index ", i, " of ", count));
    }
    if (index >= elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("topk entry ", i, " has index ", index, " in a slice of ", elements));
    }
  }
  if (!reader.AtCleanEnd()) {
    return absl::InvalidArgumentError("topk payload has bits beyond its last index");
  }
  return absl::OkStatus();
}

class Topk final : public Codec {
 public:
  Topk(double density, const CodecKernels& kernels) : density_(density), kernels_(kernels) {}

  CodecId id() const override { return CODEC_TOPK; }
  absl::string_view name() const override { return "topk"; }
  bool lossless() const override { return false; }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape&) const override {
    return std::make_unique<TopkEncoder>(density_, kernels_);
  }

  absl::StatusOr<std::unique_ptr<PayloadReader>> Open(ByteSpan payload,
                                                      const SliceShape& shape) const override {
    PSGD_ASSIGN_OR_RETURN(const Parts parts, Split(payload, shape.elements));
    if (!kernels_.dense.all_finite(parts.values, parts.count)) {
      return absl::OutOfRangeError("topk payload holds NaN or infinity");
    }
    PSGD_RETURN_IF_ERROR(CheckIndices(parts.indices, parts.count, shape.elements));
    return std::make_unique<TopkReader>(shape.elements, parts);
  }

  // The chosen Rice codes take less than 2 bits for each element of the slice, sent or not.
  size_t MaxPayload(uint32_t elements) const override {
    return kHeaderBytes + size_t{elements} * sizeof(float) + (size_t{elements} + 3) / 4;
  }

 private:
  static absl::StatusOr<Parts> Split(ByteSpan payload, uint32_t elements) {
    if (payload.size() < kHeaderBytes) {
      return absl::InvalidArgumentError("topk payload ends within its header");
    }
    Parts parts;
    parts.count = LoadField<uint32_t>(payload.data());
    const uint32_t low_bits = LoadField<uint32_t>(payload.data() + sizeof(uint32_t));
    if (parts.count > elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("topk payload of ", parts.count, " entries for ", elements, " elements"));
    }
    if (low_bits > (parts.count == 0 ? 0 : kMostRiceLowBits)) {
      return absl::InvalidArgumentError(absl::StrCat("topk payload with low_bits ", low_bits));
    }
    const size_t value_bytes = size_t{parts.count} * sizeof(float);
    if (payload.size() - kHeaderBytes < value_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "topk payload of ", payload.size(), " bytes ends within ", parts.count, " values"));
    }
    parts.values = payload.data() + kHeaderBytes;
    parts.indices = RiceReader(payload.subspan(kHeaderBytes + value_bytes), low_bits);
    return parts;
  }

  const double density_;
  const CodecKernels& kernels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Codec>> MakeTopk(const TopkCodec& config,
                                                const CodecKernels& kernels) {
  const double density = config.density();
  if (!(density > 0 && density <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("compression topk.density is ", density,
                     "; it is the share of elements sent: above 0, at most 1, such as 0.01"));
  }
  return std::make_unique<Topk>(density, kernels);
}

}  // namespace psgd
