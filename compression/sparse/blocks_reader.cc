#include "compression/sparse/blocks_reader.h"
#include "compression/magnitude.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compression/payload_bytes.h"
#include "compression/sparse/rice.h"

namespace psgd {
namespace {

struct Parts {
  uint32_t count = 0;
  uint32_t block = 1;
  uint32_t sent = 0;  // elements
  const std::byte* values = nullptr;
  RiceReader numbers;
};

class BlocksReader final : public PayloadReader {
 public:
  BlocksReader(uint32_t elements, const Parts& parts, const CodecKernels& kernels)
      : PayloadReader(elements),
        kernels_(kernels),
        block_(parts.block),
        left_(parts.count),
        sent_(parts.sent),
        values_(parts.values),
        value_(parts.values),
        numbers_(parts.numbers) {
    Advance();
  }

  void AddBlock(float scale, std::span<float> block) override {
    const uint64_t end = position_ + block.size();
    while (begin_ < end) {
      const size_t count = std::min(end, end_) - begin_;
      kernels_.dense.add_scaled(scale, value_, block.subspan(begin_ - position_, count));
      Take(count);
    }
    position_ = end;
  }

  bool sparse() const override { return true; }
  float Largest() const override { return LargestMagnitude(values_, sent_); }

  size_t NextEntries(std::span<uint32_t> indices, std::span<float> values) override {
    const size_t room = std::min(indices.size(), values.size());
    size_t filled = 0;
    while (filled < room && begin_ != kNone) {
      const size_t count = std::min<uint64_t>(room - filled, end_ - begin_);
      for (size_t i = 0; i < count; ++i) {
        indices[filled + i] = static_cast<uint32_t>(begin_ + i);
        values[filled + i] = LoadField<float>(value_ + i * sizeof(float));
      }
      filled += count;
      Take(count);
    }
    return filled;
  }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};

  // Moves on by that many elements of the current block.
  void Take(size_t count) {
    value_ += count * sizeof(float);
    begin_ += count;
    if (begin_ == end_) Advance();
  }

  void Advance() {
    begin_ = end_ = kNone;
    if (left_ == 0) return;
    --left_;
    begin_ = numbers_.Next() * block_;
    end_ = std::min<uint64_t>(begin_ + block_, elements());
  }

  const CodecKernels& kernels_;
  const uint64_t block_;
  uint32_t left_;  // blocks not yet begun
  const uint32_t sent_;
  const std::byte* const values_;
  const std::byte* value_;
  RiceReader numbers_;
  uint64_t begin_ = kNone;  // start of the rest of the current block
  uint64_t end_ = kNone;
  uint64_t position_ = 0;
};

// Finds the parts of the payload. Values and block numbers are not checked yet.
absl::StatusOr<Parts> Split(ByteSpan payload, uint32_t elements) {
  if (payload.size() < kBlocksHeaderBytes) {
    return absl::InvalidArgumentError("blocks payload ends within its header");
  }
  Parts parts;
  parts.count = LoadField<uint32_t>(payload.data());
  const uint32_t low_bits = LoadField<uint32_t>(payload.data() + 4);
  parts.block = LoadField<uint32_t>(payload.data() + 8);
  parts.sent = LoadField<uint32_t>(payload.data() + 12);
  if (parts.block < 1 || parts.block > kLargestSparseBlock) {
    return absl::InvalidArgumentError(absl::StrCat("blocks payload of blocks of ", parts.block));
  }
  if (low_bits > (parts.count == 0 ? 0 : kMostRiceLowBits)) {
    return absl::InvalidArgumentError(absl::StrCat("blocks payload with low_bits ", low_bits));
  }
  const ByteSpan rest = payload.subspan(kBlocksHeaderBytes);
  const uint64_t value_bytes = uint64_t{parts.sent} * sizeof(float);
  if (parts.sent > elements || value_bytes > rest.size()) {
    return absl::InvalidArgumentError(absl::StrCat("blocks payload of ", payload.size(),
                                                   " bytes with ", parts.sent, " values for ",
                                                   elements, " elements"));
  }
  parts.values = rest.data();
  parts.numbers = RiceReader(rest.subspan(value_bytes), low_bits);
  return parts;
}

absl::Status CheckNumbers(RiceReader reader, const Parts& parts, uint32_t elements) {
  uint64_t sent = 0;
  for (uint32_t i = 0; i < parts.count; ++i) {
    const uint64_t number = reader.Next();
    const uint64_t begin = number < elements ? number * parts.block : elements;
    if (reader.Overrun() || begin >= elements) {
      return absl::InvalidArgumentError(absl::StrCat("blocks payload: block ", i, " of ",
                                                     parts.count, " is not one of ", elements,
                                                     " elements"));
    }
    sent += std::min<uint64_t>(parts.block, elements - begin);
  }
  if (sent != parts.sent || !reader.AtCleanEnd()) {
    return absl::InvalidArgumentError(absl::StrCat("blocks payload: its blocks have ", sent,
                                                   " elements and not ", parts.sent,
                                                   ", or there are bits beyond the last"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PayloadReader>> OpenBlocks(ByteSpan payload, uint32_t elements,
                                                          const CodecKernels& kernels) {
  PSGD_ASSIGN_OR_RETURN(const Parts parts, Split(payload, elements));
  PSGD_RETURN_IF_ERROR(CheckNumbers(parts.numbers, parts, elements));
  if (!kernels.dense.all_finite(parts.values, parts.sent)) {
    return absl::OutOfRangeError("blocks payload holds NaN or infinity");
  }
  return std::make_unique<BlocksReader>(elements, parts, kernels);
}

}  // namespace psgd
