#include "compression/sparse/rice.h"

#include <bit>
#include <cstring>

namespace psgd {
namespace {

constexpr uint32_t kPeekBits = 57;

uint64_t TotalBits(std::span<const uint32_t> indices, uint32_t low_bits) {
  uint64_t total = indices.size() * (1ull + low_bits);
  uint32_t base = 0;
  for (uint32_t index : indices) {
    total += (index - base) >> low_bits;
    base = index + 1;
  }
  return total;
}

}  // namespace

RiceShape ChooseRice(std::span<const uint32_t> indices) {
  if (indices.empty()) return {};
  const RiceCandidates candidates = CandidatesFor(indices.back(), indices.size());
  RiceShape best;
  for (uint32_t low = candidates.first; low <= candidates.last; ++low) {
    const uint64_t total = TotalBits(indices, low);
    if (best.total_bits == 0 || total < best.total_bits) best = {low, total};
  }
  return best;
}

void WriteRice(std::span<const uint32_t> indices, const RiceShape& shape, std::byte* out) {
  uint64_t pending = 0;
  uint32_t filled = 0;                                   // < 32 between puts
  const auto put = [&](uint64_t bits, uint32_t count) {  // count <= 32
    pending |= bits << filled;
    filled += count;
    if (filled >= 32) {
      const uint32_t word = static_cast<uint32_t>(pending);
      std::memcpy(out, &word, sizeof(word));
      out += sizeof(word);
      pending >>= 32;
      filled -= 32;
    }
  };
  const uint32_t mask = (1u << shape.low_bits) - 1;
  uint32_t base = 0;
  for (uint32_t index : indices) {
    const uint32_t gap = index - base;
    uint32_t zeros = gap >> shape.low_bits;
    for (; zeros >= 31; zeros -= 31) put(0, 31);
    put(1ull << zeros, zeros + 1);
    put(gap & mask, shape.low_bits);
    base = index + 1;
  }
  if (filled > 0) std::memcpy(out, &pending, (filled + 7) / 8);
}

uint64_t RiceReader::Peek() const {
  const uint64_t at = position_ / 8;
  uint64_t word = 0;
  if (at + sizeof(word) <= bytes_.size()) {
    std::memcpy(&word, bytes_.data() + at, sizeof(word));
  } else if (at < bytes_.size()) {
    std::memcpy(&word, bytes_.data() + at, bytes_.size() - at);
  }
  return word >> (position_ % 8);
}

uint64_t RiceReader::Next() {
  uint64_t zeros = 0;
  uint64_t word = Peek();
  while (word == 0 && !Overrun()) {
    zeros += kPeekBits;
    position_ += kPeekBits;
    word = Peek();
  }
  const uint32_t run = word == 0 ? 0 : static_cast<uint32_t>(std::countr_zero(word));
  zeros += run;
  position_ += run + 1;
  if (run + 1 + low_bits_ <= kPeekBits) {
    word >>= run + 1;
  } else {
    word = Peek();
  }
  position_ += low_bits_;
  const uint64_t low = word & ((1ull << low_bits_) - 1);
  const uint64_t index = next_base_ + ((zeros << low_bits_) | low);
  next_base_ = index + 1;
  return index;
}

bool RiceReader::AtCleanEnd() const {
  if ((position_ + 7) / 8 != bytes_.size()) return false;
  return position_ % 8 == 0 ||
         std::to_integer<unsigned>(bytes_[position_ / 8]) >> (position_ % 8) == 0;
}

}  // namespace psgd
