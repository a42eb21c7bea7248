// Payloads byte by byte, for tests that compare codecs with the documentation in their headers.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "tests/unit/compression/tensors.h"

namespace psgd {

// Encodes a gradient with a fresh encoder. The residual may be null.
inline std::vector<uint8_t> Encode(const CodecConfig& config, const std::vector<float>& gradient,
                                   std::vector<float>* residual = nullptr) {
  std::vector<std::byte> payload;
  const auto codec = MakeCodec(config).value();
  codec->NewEncoder(ShapeOf(gradient.size()))
      ->Encode({gradient, residual == nullptr ? std::span<float>() : *residual, {}, 0}, &payload);
  std::vector<uint8_t> bytes;
  for (std::byte b : payload) bytes.push_back(std::to_integer<uint8_t>(b));
  return bytes;
}

class Expected {
 public:
  Expected& Word(uint32_t word) {
    for (int i = 0; i < 4; ++i) bytes_.push_back(static_cast<uint8_t>(word >> (8 * i)));
    return *this;
  }
  Expected& Pair(float high, float low) { return Coarse(high).Coarse(low); }
  // The upper half of a float.
  Expected& Coarse(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    return Byte(static_cast<uint8_t>(bits >> 16)).Byte(static_cast<uint8_t>(bits >> 24));
  }
  Expected& Float(float value) { return Word(std::bit_cast<uint32_t>(value)); }
  Expected& Half(uint16_t half) {
    return Byte(static_cast<uint8_t>(half)).Byte(static_cast<uint8_t>(half >> 8));
  }
  Expected& Byte(uint8_t byte) {
    bytes_.push_back(byte);
    return *this;
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

struct BadPayload {
  const char* what;
  CodecId id;
  size_t elements;
  std::vector<uint8_t> bytes;
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

inline void ExpectRefused(const std::vector<BadPayload>& cases) {
  const CodecTable table;
  for (const BadPayload& bad : cases) {
    const auto bytes = std::as_bytes(std::span(bad.bytes));
    const auto reader = table.Find(bad.id)->Open(bytes, ShapeOf(bad.elements));
    EXPECT_EQ(reader.status().code(), bad.code) << bad.what << ": " << reader.status();
  }
}

}  // namespace psgd
