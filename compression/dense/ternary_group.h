// How base-3 digits lie in bytes. Groups of 320 elements take 64 bytes each. Element e of a group
// of B bytes is digit e / B of byte e % B; the first digit is worth 1, the last 81. So a byte never
// exceeds 242, and whole vectors pack and unpack digits. The last group has ceil(elements / 5)
// bytes; the digits beyond its elements are 1. A digit is 0 for -1, 1 for 0, 2 for +1.
#pragma once

#include <cstddef>

#include "common/host_device.h"

namespace psgd {

inline constexpr size_t kTernaryDigits = 5;
inline constexpr size_t kTernaryBytes = 64;
inline constexpr size_t kTernaryGroup = kTernaryBytes * kTernaryDigits;
inline constexpr unsigned kLargestTernaryByte = 242;

// A draw compares |c| with a random 24-bit whole number times limit * kDrawUnit.
inline constexpr float kDrawUnit = 1.0f / 16777216.0f;

// Bytes of a group of that many elements, at most kTernaryGroup.
PS_HD constexpr size_t TernaryBytes(size_t elements) {
  return (elements + kTernaryDigits - 1) / kTernaryDigits;
}

// Bytes of any number of elements.
PS_HD constexpr size_t TernaryDigitBytes(size_t elements) {
  return elements / kTernaryGroup * kTernaryBytes + TernaryBytes(elements % kTernaryGroup);
}

}  // namespace psgd
