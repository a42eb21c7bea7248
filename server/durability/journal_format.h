// The layout of a journal in its database. Stored: do not change; a new layout, or a new rule how a
// push counts, takes a new kJournalFormatVersion.
//
// key, 9 bytes:  kind (1 byte), number of an entry (8 bytes, big-endian)
//
//   kind     number              contents
//   kEntry   the entry           length of JournalHead (4 bytes), JournalHead, payloads end to end
//   kImage   its last entry      ShardRecord; the arrays are in the folder image-<number>
//
// value:  as server/durability/stored_value.h; numbers little-endian
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "server/shard/journal.h"

namespace psgd {

inline constexpr uint32_t kJournalFormatVersion = 4;
// Of the same layout. In some runs its entries make other weights now: JournalEntry::earlier_rules.
inline constexpr uint32_t kEarlierJournalFormatVersion = 2;

// Stored: do not change.
enum class JournalKind : uint8_t {
  kEntry = 1,
  kImage = 2,
};

inline constexpr size_t kJournalKeySize = 9;
using JournalKey = std::array<char, kJournalKeySize>;

JournalKey EncodeJournalKey(JournalKind kind, uint64_t number);
// The number in a key of the given kind.
absl::StatusOr<uint64_t> DecodeJournalKey(JournalKind kind, absl::string_view key);

// Replace `value` with the stored form.
void EncodeEntry(const JournalKey& key, const JournalEntry& entry, std::string* value);
void EncodeImage(const JournalKey& key, const ShardRecord& record, std::string* value);

// DATA_LOSS: `value` is not what was written under this key.
absl::StatusOr<JournalEntry> DecodeEntry(const JournalKey& key, absl::string_view value);
absl::StatusOr<ShardRecord> DecodeImage(const JournalKey& key, absl::string_view value);

}  // namespace psgd
