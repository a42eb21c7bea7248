// The prefix of stored values, in checkpoints and journals. Stored: do not change.
//
//   format version (4 bytes, little-endian), 0 (4 bytes), XXH3-64 of key and contents (8 bytes,
//   little-endian)
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

inline constexpr size_t kStoredPrefixSize = 16;

// The caller appends the contents between BeginStored and EndStored.
void BeginStored(uint32_t version, size_t contents, std::string* value);
// Returns the checksum of key and contents.
uint64_t EndStored(absl::string_view key, std::string* value);

struct StoredValue {
  absl::string_view contents;  // part of the value
  uint64_t checksum = 0;
};
// 0: the value is too short to have one.
uint32_t FormatVersionOf(absl::string_view value);
// DATA_LOSS: the value is short, of another format, or not what was written under this key.
absl::StatusOr<StoredValue> OpenStored(uint32_t version, absl::string_view key,
                                       absl::string_view value);

}  // namespace psgd
