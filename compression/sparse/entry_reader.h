// Reads payloads of entries, an index and a value each, indices ascending.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "compression/codec.h"

namespace psgd {

inline constexpr uint64_t kNoEntry = ~uint64_t{0};

// `Entries` has NextIndex(), which is kNoEntry at the end; NextValue(), the last index's value; and
// Largest(), of all values.
template <typename Entries>
class EntryReader final : public PayloadReader {
 public:
  EntryReader(uint32_t elements, Entries entries)
      : PayloadReader(elements), entries_(std::move(entries)), index_(entries_.NextIndex()) {}

  void AddBlock(float scale, std::span<float> block) override {
    const uint64_t end = position_ + block.size();
    while (index_ < end) {
      block[index_ - position_] += scale * entries_.NextValue();
      index_ = entries_.NextIndex();
    }
    position_ = end;
  }

  bool sparse() const override { return true; }
  float Largest() const override { return entries_.Largest(); }

  size_t NextEntries(std::span<uint32_t> indices, std::span<float> values) override {
    const size_t room = std::min(indices.size(), values.size());
    size_t filled = 0;
    for (; filled < room && index_ != kNoEntry; ++filled) {
      indices[filled] = static_cast<uint32_t>(index_);
      values[filled] = entries_.NextValue();
      index_ = entries_.NextIndex();
    }
    return filled;
  }

 private:
  Entries entries_;
  uint64_t index_;  // of the next entry
  uint64_t position_ = 0;
};

}  // namespace psgd
