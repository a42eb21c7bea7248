#include "compression/sparse/chunked.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compression/codec_checks.h"
#include "compression/payload_bytes.h"
#include "compression/sparse/chunk_levels.h"
#include "compression/sparse/corrected_source.h"
#include "compression/sparse/entry_reader.h"
#include "compression/sparse/rice.h"
#include "compression/sparse/sparse_payload.h"
#include "compression/twinned_codec.h"

namespace psgd {
namespace {

ChunkRange LoadRange(const std::byte* ranges, size_t chunk) {
  return RangeFromBits(LoadField<uint32_t>(ranges + chunk * kChunkRangeBytes));
}

// Returns the levels of a chunk's values; NaN if the values are not finite, so that a shard refuses
// what the caller let through.
ChunkRange RangeOf(std::span<const float> values, uint32_t bits, const CodecKernels& kernels) {
  if (values.empty()) return {};
  ChunkRange range = {std::fabs(values[0]), std::fabs(values[0])};
  bool finite = true;
  for (float value : values) {
    range.low = std::min(range.low, std::fabs(value));
    range.high = std::max(range.high, std::fabs(value));
    finite &= std::isfinite(value);
  }
  if (!finite) {
    constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
    return {kNone, kNone};
  }
  for (int fit = 0; fit < kLevelFits; ++fit) {
    const LevelSums sums = kernels.chunked.sum_levels(values, ChunkLevels(range, bits));
    range = FitLevels(sums, static_cast<uint32_t>(values.size()), bits);
  }
  return {RoundCoarse(range.low), RoundCoarse(range.high)};
}

class ChunkedEncoder final : public Encoder {
 public:
  ChunkedEncoder(const ChunkedTwin& options, const CodecKernels& kernels)
      : options_(options), kernels_(kernels), selector_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size(), start = out->size();
    size_t range_at = start + kChunkedHeaderBytes;
    Grow(kChunkedHeaderBytes + ChunksOf(elements, options_.chunk) * kChunkRangeBytes, out);
    indices_.clear();
    codes_.clear();
    for (size_t begin = 0; begin < elements; begin += options_.chunk) {
      const size_t count = std::min<size_t>(options_.chunk, elements - begin);
      const std::span<float> residual =
          input.residual.empty() ? input.residual : input.residual.subspan(begin, count);
      const ChunkRange range = EncodeChunk(input.gradient.subspan(begin, count), residual, begin);
      StoreField(RangeBits(range), out->data() + range_at);
      range_at += kChunkRangeBytes;
    }
    const RiceShape shape = ChooseRice(indices_);
    std::byte* header = out->data() + start;
    StoreField(static_cast<uint32_t>(indices_.size()), header);
    StoreField(static_cast<uint8_t>(shape.low_bits), header + 4);
    StoreField(static_cast<uint8_t>(options_.bits), header + 5);
    StoreField(static_cast<uint16_t>(options_.chunk - 1), header + 6);
    const size_t code_bytes = LevelCodeBytes(codes_.size(), options_.bits);
    const size_t groups = (codes_.size() + kCodeGroup - 1) / kCodeGroup;
    std::byte* codes = Grow(code_bytes + (shape.total_bits + 7) / 8, out);
    codes_.resize(groups * kCodeGroup);
    kernels_.quantize.pack(codes_.data(), groups, options_.bits, codes);
    WriteRice(indices_, shape, codes + code_bytes);
  }

 private:
  // Appends indices and codes. `begin` is the index of the chunk's first element.
  ChunkRange EncodeChunk(std::span<const float> gradient, std::span<float> residual, size_t begin) {
    CorrectedSource source(gradient, residual, kernels_);
    selector_.SelectNear(
        &source, KeptOfChunk(options_.keep, options_.chunk, static_cast<uint32_t>(gradient.size())),
        guess_);
    const auto indices = selector_.indices();
    const auto values = selector_.values();
    const ChunkRange range = RangeOf(values, options_.bits, kernels_);
    const ChunkLevels levels(range, options_.bits);
    const size_t sent = indices_.size();
    indices_.resize(sent + indices.size());
    codes_.resize(sent + indices.size());
    uint32_t least = std::numeric_limits<uint32_t>::max();
    for (size_t i = 0; i < indices.size(); ++i) {
      const uint32_t code = LevelCode(levels, options_.bits, values[i]);
      indices_[sent + i] = static_cast<uint32_t>(begin + indices[i]);
      codes_[sent + i] = static_cast<uint8_t>(code);
      least = std::min(least, MagnitudeBits(values[i]));
      if (residual.empty()) continue;
      residual[indices[i]] = values[i] - LevelValue(levels, options_.bits, code);
    }
    // A sixteenth of an octave lower, nearly every chunk of a tensor has enough values.
    constexpr uint32_t kSlack = 1u << 19;
    guess_ = indices.empty() || least <= kSlack ? kLeastNotZero : least - kSlack;
    return range;
  }

  const ChunkedTwin options_;
  const CodecKernels& kernels_;
  LargestSelector selector_;
  // Bits of a magnitude that the chosen values of the next chunk probably reach. Only the time
  // depends on it.
  uint32_t guess_ = kLeastNotZero;
  // Buffers, kept from step to step only to spare allocations.
  std::vector<uint32_t> indices_;
  std::vector<uint8_t> codes_;
};

// Bytes of the longest payload: Rice codes take less than 2 bits for each element of the slice.
size_t MostChunkedBytes(uint32_t elements) {
  return kChunkedHeaderBytes + ChunksOf(elements, kLeastChunk) * kChunkRangeBytes +
         LevelCodeBytes(elements, kMostQuantizedBits) + (size_t{elements} + 3) / 4;
}

struct ChunkedParts {
  uint32_t count = 0;
  uint32_t chunk = 0;
  uint32_t bits = 0;
  const std::byte* ranges = nullptr;
  const std::byte* codes = nullptr;
  RiceReader indices;
};

class ChunkedEntries {
 public:
  ChunkedEntries(const ChunkedParts& parts, uint32_t elements, const CodecKernels& kernels)
      : parts_(parts), elements_(elements), kernels_(kernels) {}

  uint64_t NextIndex() {
    if (read_ == parts_.count) return kNoEntry;
    if (read_ % kCodeGroup == 0) {
      kernels_.quantize.unpack(parts_.codes + LevelCodeBytes(read_, parts_.bits), 1, parts_.bits,
                               group_.data());
    }
    ++read_;
    const uint64_t index = parts_.indices.Next();
    if (index >= chunk_end_) {
      const uint64_t chunk = index / parts_.chunk;
      levels_ = ChunkLevels(LoadRange(parts_.ranges, chunk), parts_.bits);
      chunk_end_ = (chunk + 1) * parts_.chunk;
    }
    return index;
  }
  float NextValue() const {
    return LevelValue(levels_, parts_.bits, group_[(read_ - 1) % kCodeGroup]);
  }
  float Largest() const {
    float largest = 0;
    for (size_t c = 0; c < ChunksOf(elements_, parts_.chunk); ++c) {
      largest = std::max(largest, LoadRange(parts_.ranges, c).high);
    }
    return largest;
  }

 private:
  ChunkedParts parts_;
  uint32_t elements_;
  const CodecKernels& kernels_;
  uint32_t read_ = 0;       // entries
  uint64_t chunk_end_ = 0;  // of the chunk that levels_ are of
  ChunkLevels levels_ = {{}, kLeastQuantizedBits};
  std::array<uint8_t, kCodeGroup> group_;  // codes of the last entry and its neighbors
};

// Finds the parts of the payload. Ranges, codes and indices are not checked yet.
absl::StatusOr<ChunkedParts> SplitChunked(ByteSpan payload, uint32_t elements) {
  if (payload.size() < kChunkedHeaderBytes) {
    return absl::InvalidArgumentError("chunked payload ends within its header");
  }
  ChunkedParts parts;
  parts.count = LoadField<uint32_t>(payload.data());
  const uint32_t low_bits = LoadField<uint8_t>(payload.data() + 4);
  parts.bits = LoadField<uint8_t>(payload.data() + 5);
  parts.chunk = LoadField<uint16_t>(payload.data() + 6) + 1u;
  if (parts.chunk < kLeastChunk || parts.bits < kLeastQuantizedBits ||
      parts.bits > kMostQuantizedBits) {
    return InvalidArgumentError("chunked payload of ", parts.bits, " bits in chunks of ",
                                parts.chunk);
  }
  if (parts.count > elements) {
    return InvalidArgumentError("chunked payload of ", parts.count, " values for ", elements,
                                " elements");
  }
  if (low_bits > (parts.count == 0 ? 0 : kMostRiceLowBits)) {
    return InvalidArgumentError("chunked payload with low_bits ", low_bits);
  }
  const size_t range_bytes = ChunksOf(elements, parts.chunk) * kChunkRangeBytes;
  const size_t code_bytes = LevelCodeBytes(parts.count, parts.bits);
  const ByteSpan rest = payload.subspan(kChunkedHeaderBytes);
  if (rest.size() < range_bytes + code_bytes || payload.size() > MostChunkedBytes(elements)) {
    return InvalidArgumentError("chunked payload of ", payload.size(), " bytes with ", parts.count,
                                " values for ", elements, " elements");
  }
  parts.ranges = rest.data();
  parts.codes = rest.data() + range_bytes;
  parts.indices = RiceReader(rest.subspan(range_bytes + code_bytes), low_bits);
  return parts;
}

absl::Status CheckRanges(const std::byte* ranges, size_t count) {
  for (size_t c = 0; c < count; ++c) {
    const ChunkRange range = LoadRange(ranges, c);
    if (!std::isfinite(range.low) || !std::isfinite(range.high)) {
      return OutOfRangeError("chunked payload: chunk ", c, " has values that are not finite");
    }
    if (std::signbit(range.low) || range.low > range.high) {
      return InvalidArgumentError("chunked payload: chunk ", c, " has levels from ", range.low,
                                  " to ", range.high);
    }
  }
  return absl::OkStatus();
}

// Checks that bits beyond the last code are 0.
absl::Status CheckCodes(const ChunkedParts& parts) {
  if (parts.count % kCodeGroup == 0) return absl::OkStatus();
  unsigned any = 0;
  for (size_t at = LevelCodeBytes(parts.count - parts.count % kCodeGroup, parts.bits);
       at < LevelCodeBytes(parts.count, parts.bits); at += sizeof(uint16_t)) {
    any |= LoadField<uint16_t>(parts.codes + at);
  }
  if (any >> (parts.count % kCodeGroup) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError("chunked payload has bits beyond its last value");
}

class Chunked final : public TwinnedCodec<ChunkedTwin, ChunkedEncoder> {
 public:
  using TwinnedCodec::TwinnedCodec;

  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    PSGD_ASSIGN_OR_RETURN(const ChunkedParts parts, SplitChunked(payload, shape.elements));
    PSGD_RETURN_IF_ERROR(CheckRanges(parts.ranges, ChunksOf(shape.elements, parts.chunk)));
    PSGD_RETURN_IF_ERROR(CheckCodes(parts));
    PSGD_RETURN_IF_ERROR(CheckIndices(parts.indices, parts.count, shape.elements, "chunked"));
    return std::make_unique<EntryReader<ChunkedEntries>>(
        shape.elements, ChunkedEntries(parts, shape.elements, kernels()));
  }
  size_t MaxPayload(uint32_t elements) const override { return MostChunkedBytes(elements); }
};

}  // namespace

StatusOrCodec MakeChunked(const ChunkedCodec& config, const CodecKernels& kernels) {
  const int64_t chunk = config.chunk(), keep = config.keep(), bits = config.bits();
  if (chunk < kLeastChunk || chunk > kMostChunk) {
    return InvalidArgumentError("chunked.chunk is ", chunk,
                                "; it is 64 to 65536 elements, such as 4096");
  }
  if (keep < 1 || keep > chunk) {
    return InvalidArgumentError("chunked.keep is ", keep, "; it is 1 to the ", chunk,
                                " elements of a chunk (chunked.chunk), such as ",
                                std::max<int64_t>(1, chunk / 64));
  }
  if (bits < kLeastQuantizedBits || bits > kMostQuantizedBits) {
    return InvalidArgumentError("chunked.bits is ", bits, "; it is 2 to 8, such as 2, 3 or 4");
  }
  const ChunkedTwin options = {static_cast<uint32_t>(chunk), static_cast<uint32_t>(keep),
                               static_cast<uint32_t>(bits)};
  return std::make_unique<Chunked>(CODEC_CHUNKED, "chunked", options, kernels);
}

}  // namespace psgd
