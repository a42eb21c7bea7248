// Makes data-plane messages with valid lengths and checksum around any contents. So mutations of an
// input reach the code that reads the header and the payloads.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "net/wire_format.h"

namespace psgd::fuzz {

inline constexpr size_t kMostMessageBytes = 1u << 20;

inline Bytes SealedMessage(std::span<const uint8_t> header, std::span<const uint8_t> body) {
  std::vector<std::byte> bytes(kPreludeBytes + header.size() + body.size());
  const auto store = [&](size_t at, auto value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
  };
  store(kMagicAt, kWireMagic);
  store(kVersionAt, kProtocolVersion);
  store(kHeaderBytesAt, static_cast<uint32_t>(header.size()));
  store(kBodyBytesAt, static_cast<uint64_t>(body.size()));
  std::copy_n(reinterpret_cast<const std::byte*>(header.data()), header.size(),
              bytes.begin() + kPreludeBytes);
  std::copy_n(reinterpret_cast<const std::byte*>(body.data()), body.size(),
              bytes.begin() + static_cast<std::ptrdiff_t>(kPreludeBytes + header.size()));
  Checksum checksum;
  checksum.Add(ByteSpan(bytes).first(kChecksumAt));
  checksum.Add(ByteSpan(bytes).subspan(kPreludeBytes));
  store(kChecksumAt, checksum.Value());
  return Bytes::Adopt(std::move(bytes));
}

}  // namespace psgd::fuzz
