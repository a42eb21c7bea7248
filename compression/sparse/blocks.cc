#include "compression/sparse/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compression/codec_checks.h"
#include "compression/payload_bytes.h"
#include "compression/sparse/block_norm.h"
#include "compression/sparse/density_count.h"
#include "compression/sparse/rice.h"
#include "compression/sparse/select.h"
#include "compression/twinned_codec.h"

namespace psgd {
namespace {

constexpr int64_t kLargestSparseBlock = 1 << 20;

class BlocksEncoder final : public Encoder {
 public:
  BlocksEncoder(const BlocksTwin& options, const CodecKernels& kernels)
      : options_(options), kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    const bool keep = !input.residual.empty();
    Measure(input);
    Choose();
    const std::span<const float> corrected = keep ? input.residual : input.gradient;
    size_t sent = 0;
    for (uint32_t b : chosen_) sent += BlockAt(b, elements);
    const RiceShape shape = ChooseRice(chosen_);
    const size_t bytes = kBlocksHeaderBytes + sent * sizeof(float) + (shape.total_bits + 7) / 8;
    std::byte* payload = Grow(bytes, out);
    StoreField(static_cast<uint32_t>(chosen_.size()), payload);
    StoreField(shape.low_bits, payload + 4);
    StoreField(options_.block, payload + 8);
    StoreField(static_cast<uint32_t>(sent), payload + 12);
    payload += kBlocksHeaderBytes;
    for (uint32_t b : chosen_) {
      const size_t begin = size_t{b} * options_.block, count = BlockAt(b, elements);
      std::memcpy(payload, &corrected[begin], count * sizeof(float));
      payload += count * sizeof(float);
      if (keep) std::fill_n(&input.residual[begin], count, 0.0f);
    }
    WriteRice(chosen_, shape, payload);
  }

 private:
  // Number of elements in block `index`.
  size_t BlockAt(size_t index, size_t elements) const {
    return std::min<size_t>(options_.block, elements - index * options_.block);
  }

  // Leaves gradient + residual in the residual, if there is one, and the blocks' norms in norms_.
  void Measure(const EncodeInput& input) {
    const size_t elements = input.gradient.size();
    norms_.clear();
    for (size_t begin = 0; begin < elements; begin += options_.block) {
      const size_t count = std::min<size_t>(options_.block, elements - begin);
      std::span<const float> part = input.gradient.subspan(begin, count);
      if (!input.residual.empty()) {
        kernels_.dense.add(part, input.residual.subspan(begin, count));
        part = input.residual.subspan(begin, count);
      }
      norms_.push_back(NormOfBlock(kernels_.dense.sum_squares(part)));
    }
  }

  void Choose() {
    chosen_.clear();
    if (norms_.empty()) return;
    Cut cut = FindCut(norms_, CountAt(options_.density, norms_.size()), &scratch_);
    for (uint32_t b = 0; b < norms_.size(); ++b) {
      const uint32_t bits = MagnitudeBits(norms_[b]);
      const bool tie = bits == cut.least && cut.ties > 0;
      cut.ties -= tie;
      if ((tie || bits > cut.least) && bits > 0) chosen_.push_back(b);
    }
  }

  const BlocksTwin options_;
  const CodecKernels& kernels_;
  std::vector<float> norms_;
  // Buffers, kept from step to step only to spare allocations.
  std::vector<uint32_t> chosen_;
  std::vector<uint32_t> scratch_;
};

struct Parts {
  uint32_t count = 0;
  uint32_t block = 1;
  uint32_t sent = 0;  // elements
  const std::byte* values = nullptr;
  float largest = 0;  // of the values' magnitudes
  RiceReader numbers;
};

class BlocksReader final : public PayloadReader {
 public:
  BlocksReader(uint32_t elements, const Parts& parts, const CodecKernels& kernels)
      : PayloadReader(elements),
        kernels_(kernels),
        block_(parts.block),
        left_(parts.count),
        largest_(parts.largest),
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
  float Largest() const override { return largest_; }

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
  const float largest_;
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
    return InvalidArgumentError("blocks payload of blocks of ", parts.block);
  }
  if (low_bits > (parts.count == 0 ? 0 : kMostRiceLowBits)) {
    return InvalidArgumentError("blocks payload with low_bits ", low_bits);
  }
  const ByteSpan rest = payload.subspan(kBlocksHeaderBytes);
  const uint64_t value_bytes = uint64_t{parts.sent} * sizeof(float);
  if (parts.sent > elements || value_bytes > rest.size()) {
    return InvalidArgumentError("blocks payload of ", payload.size(), " bytes with ", parts.sent,
                                " values for ", elements, " elements");
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
      return InvalidArgumentError("blocks payload: block ", i, " of ", parts.count,
                                  " is not one of ", elements, " elements");
    }
    sent += std::min<uint64_t>(parts.block, elements - begin);
  }
  if (sent != parts.sent || !reader.AtCleanEnd()) {
    return InvalidArgumentError("blocks payload: its blocks have ", sent, " elements and not ",
                                parts.sent, ", or there are bits beyond the last");
  }
  return absl::OkStatus();
}

// Checks every byte of a payload and opens it.
StatusOrReader OpenBlocks(ByteSpan payload, uint32_t elements, const CodecKernels& kernels) {
  PSGD_ASSIGN_OR_RETURN(Parts parts, Split(payload, elements));
  PSGD_RETURN_IF_ERROR(CheckNumbers(parts.numbers, parts, elements));
  parts.largest = kernels.dense.largest(parts.values, parts.sent);
  if (!std::isfinite(parts.largest)) return NotFinite("blocks");
  return std::make_unique<BlocksReader>(elements, parts, kernels);
}

class Blocks final : public TwinnedCodec<BlocksTwin, BlocksEncoder> {
 public:
  using TwinnedCodec::TwinnedCodec;

  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    return OpenBlocks(payload, shape.elements, kernels());
  }
  // Rice codes take less than 2 bits for each block, and there are at most n blocks.
  size_t MaxPayload(uint32_t elements) const override {
    return kBlocksHeaderBytes + size_t{elements} * sizeof(float) + (size_t{elements} + 3) / 4;
  }
};

}  // namespace

StatusOrCodec MakeBlocks(const BlocksCodec& config, const CodecKernels& kernels) {
  PSGD_RETURN_IF_ERROR(CheckDensity("blocks", config.density()));
  if (config.block() < 1 || config.block() > kLargestSparseBlock) {
    return InvalidArgumentError("blocks.block is ", config.block(),
                                "; it is 1 to 1048576 elements, such as 256");
  }
  const BlocksTwin options = {config.density(), static_cast<uint32_t>(config.block())};
  return std::make_unique<Blocks>(CODEC_BLOCKS, "blocks", options, kernels);
}

}  // namespace psgd
