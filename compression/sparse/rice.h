// Rice codes of ascending indices: gap = index - previous - 1 (the first: index), written as
// gap >> low_bits zero bits, a one bit, then the low bits of the gap, all from the least
// significant bit of each byte up. For gaps of random indices this is within 3 % of the entropy.
// Golomb: "Run-length encodings", IEEE Trans. Inf. Theory 1966; Rice: JPL Publication 79-22, 1979.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/bytes.h"
#include "compression/sparse/rice_choice.h"

namespace psgd {

struct RiceShape {
  uint32_t low_bits = 0;
  uint64_t total_bits = 0;
};

// Returns the low_bits that take the least room.
RiceShape ChooseRice(std::span<const uint32_t> indices);

// REQUIRES: indices ascend strictly; `out` has (shape.total_bits + 7) / 8 bytes.
void WriteRice(std::span<const uint32_t> indices, const RiceShape& shape, std::byte* out);

// Reads indices one by one, never beyond the end of its bytes. Not thread-safe.
class RiceReader {
 public:
  RiceReader() = default;
  // REQUIRES: low_bits <= kMostRiceLowBits.
  RiceReader(ByteSpan bytes, uint32_t low_bits) : bytes_(bytes), low_bits_(low_bits) {}

  // Returns the next index. At and beyond the end it has no meaning: check Overrun() or its range.
  uint64_t Next();
  bool Overrun() const { return position_ > bytes_.size() * 8; }
  // Whether reading so far ended in the last byte, with only zero bits after it.
  bool AtCleanEnd() const;

 private:
  // Returns at least 57 bits from the position on, with zeros beyond the end.
  uint64_t Peek() const;

  ByteSpan bytes_;
  uint32_t low_bits_ = 0;
  uint64_t position_ = 0;   // in bits
  uint64_t next_base_ = 0;  // the index that a gap of 0 stands for
};

}  // namespace psgd
