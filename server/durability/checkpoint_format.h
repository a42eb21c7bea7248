// The layout of a shard's part of a checkpoint in its database. Stored: do not change; a new layout
// takes a new kCheckpointFormatVersion.
//
// key, 9 bytes:  kind (1 byte), first (4 bytes, big-endian), second (4 bytes, big-endian)
//
//   kind       first      second     contents
//   kSlice     slice id   0          SliceRecord
//   kWeights   slice id   0          fp32, little-endian
//   kState     slice id   index      fp32; the array that SliceRecord names at that index
//   kResidual  worker     slice id   as compression/saved_state.h
//   kResidual  worker     part id    as common/program_state.h
//   kUnused                          written by earlier versions; nobody reads it
//   kShown     worker     slice id   fp32: the weights that it was sent last (images of a journal)
//
// value:  as server/durability/stored_value.h
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/bytes.h"
#include "common/status.h"
#include "server/durability/stored_value.h"

namespace psgd {

inline constexpr uint32_t kCheckpointFormatVersion = 2;

// Stored: do not change. kSlice is the smallest: a reader meets a slice's record before its arrays.
enum class ValueKind : uint8_t {
  kSlice = 1,
  kWeights = 2,
  kState = 3,
  kResidual = 4,
  kUnused = 5,
  kShown = 6,
};

// Keys have the order of their encoded bytes in the database, which are unsigned.
struct ValueKey {
  ValueKind kind;
  uint32_t first = 0;
  uint32_t second = 0;

  auto operator<=>(const ValueKey&) const = default;
};

inline constexpr size_t kValueKeySize = 9;

std::array<char, kValueKeySize> EncodeKey(const ValueKey& key);
absl::StatusOr<ValueKey> DecodeKey(absl::string_view encoded);

// Replaces `value` with the stored form of `contents`; returns their checksum.
uint64_t EncodeValue(absl::string_view encoded_key, ByteSpan contents, std::string* value);

// DATA_LOSS: `value` is not what was written under this key.
absl::StatusOr<StoredValue> DecodeValue(absl::string_view encoded_key, absl::string_view value);

// For error messages: "weights of slice 3".
std::string Describe(const ValueKey& key);

}  // namespace psgd
