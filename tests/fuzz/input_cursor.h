// Reads numbers and bytes from the front of an input. At its end numbers are 0 and bytes are empty.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

namespace psgd::fuzz {

class InputCursor {
 public:
  explicit InputCursor(std::span<const uint8_t> rest) : rest_(rest) {}

  bool AtEnd() const { return rest_.empty(); }
  // Little-endian.
  template <typename Number>
  Number Take() {
    Number number = 0;
    const auto bytes = TakeBytes(sizeof number);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(&number));
    return number;
  }
  // Returns fewer bytes if fewer are left.
  std::span<const uint8_t> TakeBytes(size_t count) {
    const auto taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::string TakeText(size_t count) {
    const auto bytes = TakeBytes(count);
    return std::string(bytes.begin(), bytes.end());
  }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace psgd::fuzz
