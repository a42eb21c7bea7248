// The layout of an int8 or qsgd payload, and its check. See int8.h, qsgd.h.
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
  // Bytes of the codes before `element`. A group that is not full takes its whole room.
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

// Returns the layout of a payload, after a check of every byte.
absl::StatusOr<QuantizedLayout> OpenQuantized(ByteSpan payload, uint32_t elements, bool packed,
                                              absl::string_view name);

}  // namespace psgd
