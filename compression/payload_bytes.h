// Appending to payloads. Their fields are those of common/bytes.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/bytes.h"

namespace psgd {

// Makes `bytes` longer. Returns the start of the new part, valid until the vector grows again.
// Encoders grow a block at a time, because growing writes zeros: in cache that is almost free.
inline std::byte* Grow(size_t count, std::vector<std::byte>* bytes) {
  bytes->resize(bytes->size() + count);
  return bytes->data() + bytes->size() - count;
}

// Makes room for `count` more bytes. Capacity still doubles, so that many slices appended to one
// vector are not copied each time.
inline void Reserve(size_t count, std::vector<std::byte>* bytes) {
  const size_t needed = bytes->size() + count;
  if (needed > bytes->capacity()) bytes->reserve(std::max(needed, 2 * bytes->capacity()));
}

// Elements that encoders handle at a time: two arrays of them and the payload fit in L1.
inline constexpr size_t kEncodeBlock = 4096;

}  // namespace psgd
