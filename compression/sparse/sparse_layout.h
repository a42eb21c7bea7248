// How single elements are coded as entries; see sparse_payload.h. No Abseil: nvcc reads this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/host_device.h"

namespace psgd {

enum class IndexCoding : uint8_t { kRice = 0, kAll = 1 };
enum class ValueCoding : uint8_t { kFloat = 0, kHalf = 1, kSign = 2, kByte = 3 };

inline constexpr size_t kSparseHeaderBytes = 8;

PS_HD constexpr size_t SparseValueBytes(ValueCoding coding, size_t count) {
  switch (coding) {
    case ValueCoding::kFloat:
      return count * sizeof(float);
    case ValueCoding::kHalf:
      return count * sizeof(uint16_t);
    case ValueCoding::kSign:
      return sizeof(float) + (count + 7) / 8;
    case ValueCoding::kByte:
      return count;
  }
  return 0;
}

// Returns `keep`, or all elements if they take no more room. (Signs always keep `keep`: without
// indices, no sign would mean zero.)
constexpr size_t WorthSending(size_t keep, size_t elements, ValueCoding coding) {
  if (coding == ValueCoding::kSign) return keep;
  const size_t bitmap = (elements + 7) / 8;
  return SparseValueBytes(coding, keep) + bitmap >= SparseValueBytes(coding, elements) ? elements
                                                                                       : keep;
}

}  // namespace psgd
