#include "compression/dense/quantized_layout.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compression/coarse.h"
#include "compression/dense/quantized.h"
#include "compression/payload_bytes.h"

namespace psgd {
namespace {

absl::Status CheckUnits(const QuantizedLayout& layout, const std::byte* units, size_t count,
                        const std::string& name) {
  const auto top = static_cast<float>(layout.largest_level());
  for (size_t i = 0; i < count; ++i) {
    const float unit = layout.LoadUnit(units, i);
    if (!std::isfinite(unit * top)) {
      return absl::OutOfRangeError(
          absl::StrCat(name, " block ", i, " has values that are not finite"));
    }
    if (std::signbit(unit)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " block ", i, " has a negative unit"));
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

}  // namespace

void QuantizedLayout::StoreHeader(std::byte* payload) const {
  StoreField(block, payload);
  if (packed) StoreField(bits, payload + sizeof(block));
}

float QuantizedLayout::LoadUnit(const std::byte* units, size_t index) const {
  return FromCoarseBits(LoadField<uint16_t>(units + index * sizeof(uint16_t)));
}

bool ValidQuantizedBlock(uint32_t block) {
  return block >= kQuantizedBlockUnit && block <= kLargestQuantizedBlock &&
         block % kQuantizedBlockUnit == 0;
}

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
    return absl::InvalidArgumentError(
        absl::StrCat(name, " payload of ", layout.bits, " bits in blocks of ", layout.block));
  }
  if (payload.size() != layout.PayloadBytes(elements)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " payload of ", payload.size(), " bytes for ", elements,
                     " elements: ", layout.PayloadBytes(elements), " expected"));
  }
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

}  // namespace psgd
