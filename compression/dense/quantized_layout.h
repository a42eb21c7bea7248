// Where the parts of an int8 or qsgd payload lie, and whether a payload is one. See int8.h, qsgd.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/bytes.h"
#include "common/status.h"
#include "compression/dense/quantized_codes.h"

namespace psgd {

inline constexpr size_t kCodeChunk = 2048;  // elements handled at a time

struct QuantizedLayout {
  uint32_t block = 0;
  uint32_t bits = 8;
  bool packed = false;

  int largest_level() const { return LargestLevel(bits); }
  size_t header_bytes() const { return packed ? 8 : 4; }
  size_t UnitBytes(size_t elements) const { return (elements + block - 1) / block * 2; }
  // Of the codes of the elements before `element`. REQUIRES: a whole number of groups.
  size_t CodeOffset(size_t element) const {
    return packed ? (element + kCodeGroup - 1) / kCodeGroup * 2 * bits : element;
  }
  size_t PayloadBytes(size_t elements) const {
    return header_bytes() + UnitBytes(elements) + CodeOffset(elements);
  }
  void StoreHeader(std::byte* payload) const;
  float LoadUnit(const std::byte* units, size_t index) const;
};

bool ValidQuantizedBlock(uint32_t block);

// The layout of a payload, every byte of which is checked.
absl::StatusOr<QuantizedLayout> OpenQuantized(ByteSpan payload, uint32_t elements, bool packed,
                                              absl::string_view name);

}  // namespace psgd
