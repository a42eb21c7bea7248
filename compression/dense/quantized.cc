#include "compression/dense/quantized.h"

#include <array>
#include <cstring>
#include <vector>

#include "compression/codec_checks.h"
#include "compression/dense/int8.h"
#include "compression/dense/qsgd.h"
#include "compression/kernels.h"
#include "compression/payload_bytes.h"
#include "compression/twinned_codec.h"

namespace psgd {
namespace {

inline constexpr size_t kCodeChunk = 2048;  // elements handled at a time

// The layout of a payload. See int8.h, qsgd.h.
struct QuantizedLayout {
  uint32_t block = 0;
  uint32_t bits = 8;
  bool packed = false;

  int largest_level() const { return LargestLevel(bits); }
  size_t header_bytes() const { return packed ? 8 : 4; }
  size_t UnitBytes(size_t elements) const { return (elements + block - 1) / block * 2; }
  // Bytes of the codes before `element`. A group that is not full takes its whole room.
  size_t CodeOffset(size_t element) const {
    return packed ? (element + kCodeGroup - 1) / kCodeGroup * 2 * bits : element;
  }
  size_t PayloadBytes(size_t elements) const {
    return header_bytes() + UnitBytes(elements) + CodeOffset(elements);
  }
  void StoreHeader(std::byte* payload) const {
    StoreField(block, payload);
    if (packed) StoreField(bits, payload + sizeof(block));
  }
  float LoadUnit(const std::byte* units, size_t index) const {
    return FromCoarseBits(LoadField<uint16_t>(units + index * sizeof(uint16_t)));
  }
};

bool ValidQuantizedBlock(uint32_t block) {
  return block >= kQuantizedBlockUnit && block <= kLargestQuantizedBlock &&
         block % kQuantizedBlockUnit == 0;
}

absl::Status CheckUnits(const QuantizedLayout& layout, const std::byte* units, size_t count,
                        const std::string& name) {
  const auto top = static_cast<float>(layout.largest_level());
  for (size_t i = 0; i < count; ++i) {
    const float unit = layout.LoadUnit(units, i);
    if (!std::isfinite(unit * top)) {
      return OutOfRangeError(name, " block ", i, " has values that are not finite");
    }
    if (std::signbit(unit)) {
      return InvalidArgumentError(name, " block ", i, " has a negative unit");
    }
  }
  return absl::OkStatus();
}

// Checks that no element has the code of all ones, which has no meaning, and that bits beyond the
// last element are 0.
bool SoundCodes(const QuantizedLayout& layout, const std::byte* codes, size_t elements) {
  const size_t groups = (elements + kCodeGroup - 1) / kCodeGroup;
  unsigned beyond = 0;
  for (size_t g = 0; g < groups; ++g) {
    unsigned all = 0xFFFF, any = 0;
    for (uint32_t plane = 0; plane < layout.bits; ++plane, codes += 2) {
      const auto word = LoadField<uint16_t>(codes);
      all &= word;
      any |= word;
    }
    if (all != 0) return false;
    beyond = any;
  }
  return elements % kCodeGroup == 0 || beyond >> (elements % kCodeGroup) == 0;
}

bool HasLeastByte(const std::byte* codes, size_t elements) {
  return elements > 0 && std::memchr(codes, 0x80, elements) != nullptr;
}

// Returns the layout of a payload, after a check of every byte.
absl::StatusOr<QuantizedLayout> OpenQuantized(ByteSpan payload, uint32_t elements, bool packed,
                                              absl::string_view literal) {
  const std::string name(literal);
  QuantizedLayout layout{.packed = packed};
  if (payload.size() < layout.header_bytes()) {
    return absl::InvalidArgumentError(name + " payload ends within its header");
  }
  layout.block = LoadField<uint32_t>(payload.data());
  if (packed) layout.bits = LoadField<uint32_t>(payload.data() + sizeof(uint32_t));
  if (!ValidQuantizedBlock(layout.block) || layout.bits < kLeastQuantizedBits ||
      layout.bits > kMostQuantizedBits) {
    return InvalidArgumentError(name, " payload of ", layout.bits, " bits in blocks of ",
                                layout.block);
  }
  PSGD_RETURN_IF_ERROR(CheckLength(name, payload, elements, layout.PayloadBytes(elements)));
  const std::byte* units = payload.data() + layout.header_bytes();
  const std::byte* codes = units + layout.UnitBytes(elements);
  PSGD_RETURN_IF_ERROR(CheckUnits(layout, units, layout.UnitBytes(elements) / 2, name));
  const bool sound = packed ? SoundCodes(layout, codes, elements) : !HasLeastByte(codes, elements);
  if (!sound) {
    return absl::InvalidArgumentError(
        name + " payload has a code that means nothing, or bits beyond its last element");
  }
  return layout;
}

class QuantizedEncoder final : public Encoder {
 public:
  QuantizedEncoder(const QuantizedTwin& options, const CodecKernels& kernels)
      : options_(options),
        layout_({options.block, options.bits, options.packed}),
        kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    std::byte* payload = Grow(layout_.PayloadBytes(elements), out);
    layout_.StoreHeader(payload);
    std::byte* units = payload + layout_.header_bytes();
    std::byte* codes = units + layout_.UnitBytes(elements);
    for (size_t begin = 0; begin < elements; begin += options_.block) {
      const size_t count = std::min<size_t>(options_.block, elements - begin);
      const std::span<float> residual =
          input.residual.empty() ? input.residual : input.residual.subspan(begin, count);
      const float unit = EncodeBlock(input, begin, count, residual, codes);
      StoreField(CoarseBits(unit), units);
      units += sizeof(uint16_t);
    }
  }

 private:
  float EncodeBlock(const EncodeInput& input, size_t begin, size_t count, std::span<float> residual,
                    std::byte* codes) {
    const std::span<const float> gradient = input.gradient.subspan(begin, count);
    float* keep = residual.empty() ? nullptr : residual.data();
    QuantizeDraw draw;
    draw.largest_level = static_cast<float>(layout_.largest_level());
    draw.unit = Unit(gradient, keep, draw.largest_level);
    draw.inverse = InverseUnit(draw.unit);
    draw.stochastic = options_.stochastic;
    draw.key = input.key;
    draw.step = input.step;
    if (std::isnan(draw.unit)) return draw.unit;
    const std::span<const float> corrected = keep != nullptr ? residual : gradient;
    for (size_t at = 0; at < count; at += kCodeChunk) {
      const size_t part = std::min(kCodeChunk, count - at);
      draw.first = static_cast<uint32_t>(begin + at);
      std::byte* place = codes + layout_.CodeOffset(begin + at);
      int8_t* levels = options_.packed ? levels_.data() : reinterpret_cast<int8_t*>(place);
      kernels_.quantize.quantize(corrected.subspan(at, part), draw, levels,
                                 keep != nullptr ? keep + at : nullptr);
      if (options_.packed) Pack(part, place);
    }
    return draw.unit;
  }

  float Unit(std::span<const float> gradient, float* residual, float top) const {
    double size;
    if (options_.l2) {
      size = std::sqrt(kernels_.ternary.measure(gradient, residual).sum_squares);
    } else {
      size = std::bit_cast<float>(kernels_.quantize.largest(gradient, residual));
    }
    return QuantizedUnit(size, top);
  }

  void Pack(size_t count, std::byte* out) {
    const auto offset = static_cast<int8_t>(layout_.largest_level());
    const size_t groups = (count + kCodeGroup - 1) / kCodeGroup;
    for (size_t i = 0; i < count; ++i) codes_[i] = static_cast<uint8_t>(levels_[i] + offset);
    std::fill(codes_.begin() + count, codes_.begin() + groups * kCodeGroup, uint8_t{0});
    kernels_.quantize.pack(codes_.data(), groups, options_.bits, out);
  }

  const QuantizedTwin options_;
  const QuantizedLayout layout_;
  const CodecKernels& kernels_;
  std::array<int8_t, kCodeChunk> levels_;
  std::array<uint8_t, kCodeChunk> codes_;
};

class QuantizedReader final : public PayloadReader {
 public:
  QuantizedReader(uint32_t elements, const QuantizedLayout& layout, const std::byte* payload,
                  const CodecKernels& kernels)
      : PayloadReader(elements),
        layout_(layout),
        units_(payload + layout.header_bytes()),
        codes_(units_ + layout.UnitBytes(elements)),
        kernels_(kernels) {}

  void AddBlock(float scale, std::span<float> block) override {
    while (!block.empty()) {
      size_t count = std::min<size_t>(block.size(), layout_.block - position_ % layout_.block);
      const int8_t* levels;
      if (layout_.packed) {
        const size_t in_chunk = position_ % kCodeChunk;
        if (in_chunk == 0 || levels_.empty()) Unpack();
        count = std::min(count, kCodeChunk - in_chunk);
        levels = levels_.data() + in_chunk;
      } else {
        levels = reinterpret_cast<const int8_t*>(codes_ + position_);
      }
      const float unit = layout_.LoadUnit(units_, position_ / layout_.block);
      kernels_.ternary.add(levels, scale * unit, block.first(count));
      position_ += count;
      block = block.subspan(count);
    }
  }
  float Largest() const override {
    float largest = 0;
    for (size_t i = 0; i * layout_.block < elements(); ++i) {
      largest = std::max(largest, layout_.LoadUnit(units_, i));
    }
    return largest * static_cast<float>(layout_.largest_level());
  }

 private:
  // Unpacks the chunk at position_. REQUIRES: the chunk begins there.
  void Unpack() {
    const size_t count = std::min<size_t>(kCodeChunk, elements() - position_);
    const size_t groups = (count + kCodeGroup - 1) / kCodeGroup;
    levels_.resize(kCodeChunk);
    uint8_t* codes = reinterpret_cast<uint8_t*>(levels_.data());
    kernels_.quantize.unpack(codes_ + layout_.CodeOffset(position_), groups, layout_.bits, codes);
    const auto offset = static_cast<uint8_t>(layout_.largest_level());
    for (size_t i = 0; i < count; ++i) levels_[i] = static_cast<int8_t>(codes[i] - offset);
  }

  const QuantizedLayout layout_;
  const std::byte* const units_;
  const std::byte* const codes_;
  const CodecKernels& kernels_;
  size_t position_ = 0;
  // Empty until the first chunk is read: thousands of payloads may wait for that.
  std::vector<int8_t> levels_;
};

class Quantized final : public TwinnedCodec<QuantizedTwin, QuantizedEncoder> {
 public:
  using TwinnedCodec::TwinnedCodec;

  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    PSGD_ASSIGN_OR_RETURN(const QuantizedLayout layout,
                          OpenQuantized(payload, shape.elements, options().packed, name()));
    return std::make_unique<QuantizedReader>(shape.elements, layout, payload.data(), kernels());
  }

  size_t MaxPayload(uint32_t elements) const override {
    return QuantizedLayout{kQuantizedBlockUnit, kMostQuantizedBits, options().packed}.PayloadBytes(
        elements);
  }
};

StatusOrCodec MakeQuantized(CodecId id, absl::string_view name, const QuantizedTwin& options,
                            const CodecKernels& kernels) {
  if (!ValidQuantizedBlock(options.block)) {
    return InvalidArgumentError(
        name, ".block is ", options.block,
        "; it must be a multiple of 64 between 64 and 1048576, such as 1024");
  }
  return std::make_unique<Quantized>(id, name, options, kernels);
}

}  // namespace

StatusOrCodec MakeInt8(const Int8Codec& config, const CodecKernels& kernels) {
  const QuantizedTwin options = {.block = static_cast<uint32_t>(config.block()),
                                 .stochastic = config.rounding() == Rounding::STOCHASTIC};
  return MakeQuantized(CODEC_INT8, "int8", options, kernels);
}

StatusOrCodec MakeQsgd(const QsgdCodec& config, const CodecKernels& kernels) {
  const int64_t bits = config.bits();
  if (bits < kLeastQuantizedBits || bits > kMostQuantizedBits) {
    return InvalidArgumentError("qsgd.bits is ", bits, "; an element takes 2 to 8, such as 4");
  }
  const QuantizedTwin options = {.block = static_cast<uint32_t>(config.block()),
                                 .bits = static_cast<uint32_t>(bits),
                                 .packed = true,
                                 .l2 = config.norm() == QsgdCodec::L2,
                                 .stochastic = config.rounding() == Rounding::STOCHASTIC};
  return MakeQuantized(CODEC_QSGD, "qsgd", options, kernels);
}

}  // namespace psgd
