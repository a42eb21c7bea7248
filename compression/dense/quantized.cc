#include "compression/dense/quantized.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compression/coarse.h"
#include "compression/dense/quantized_layout.h"
#include "compression/dense/quantized_unit.h"
#include "compression/payload_bytes.h"

namespace psgd {
namespace {

class QuantizedEncoder final : public Encoder {
 public:
  QuantizedEncoder(const QuantizedOptions& options, const CodecKernels& kernels)
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

  const QuantizedOptions options_;
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
        if (in_chunk == 0 || !unpacked_) Unpack();
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
    uint8_t* codes = reinterpret_cast<uint8_t*>(levels_.data());
    kernels_.quantize.unpack(codes_ + layout_.CodeOffset(position_), groups, layout_.bits, codes);
    const auto offset = static_cast<uint8_t>(layout_.largest_level());
    for (size_t i = 0; i < count; ++i) levels_[i] = static_cast<int8_t>(codes[i] - offset);
    unpacked_ = true;
  }

  const QuantizedLayout layout_;
  const std::byte* const units_;
  const std::byte* const codes_;
  const CodecKernels& kernels_;
  size_t position_ = 0;
  bool unpacked_ = false;
  std::array<int8_t, kCodeChunk> levels_;
};

class Quantized final : public Codec {
 public:
  Quantized(const QuantizedOptions& options, const CodecKernels& kernels)
      : options_(options), kernels_(kernels) {}

  CodecId id() const override { return options_.id; }
  absl::string_view name() const override { return options_.name; }
  bool lossless() const override { return false; }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape&) const override {
    return std::make_unique<QuantizedEncoder>(options_, kernels_);
  }

  absl::StatusOr<std::unique_ptr<PayloadReader>> Open(ByteSpan payload,
                                                      const SliceShape& shape) const override {
    PSGD_ASSIGN_OR_RETURN(const QuantizedLayout layout,
                          OpenQuantized(payload, shape.elements, options_.packed, options_.name));
    return std::make_unique<QuantizedReader>(shape.elements, layout, payload.data(), kernels_);
  }

  size_t MaxPayload(uint32_t elements) const override {
    return QuantizedLayout{kQuantizedBlockUnit, kMostQuantizedBits, options_.packed}.PayloadBytes(
        elements);
  }

 private:
  const QuantizedOptions options_;
  const CodecKernels& kernels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Codec>> MakeQuantized(const QuantizedOptions& options,
                                                     const CodecKernels& kernels) {
  if (!ValidQuantizedBlock(options.block)) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(options.name), ".block is ", options.block,
                     "; it must be a multiple of 64 between 64 and 1048576, such as 1024"));
  }
  return std::make_unique<Quantized>(options, kernels);
}

}  // namespace psgd
