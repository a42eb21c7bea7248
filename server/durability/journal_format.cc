#include "server/durability/journal_format.h"

#include <cstring>

#include "server/durability/stored_value.h"

namespace psgd {
namespace {

absl::string_view KeyText(const JournalKey& key) { return {key.data(), key.size()}; }

struct Opened {
  absl::string_view contents;
  bool earlier = false;  // of kEarlierJournalFormatVersion
};
absl::StatusOr<Opened> Open(const JournalKey& key, absl::string_view value) {
  const bool earlier = FormatVersionOf(value) == kEarlierJournalFormatVersion;
  const uint32_t version = earlier ? kEarlierJournalFormatVersion : kJournalFormatVersion;
  PSGD_ASSIGN_OR_RETURN(const StoredValue stored, OpenStored(version, KeyText(key), value));
  return Opened{stored.contents, earlier};
}

}  // namespace

JournalKey EncodeJournalKey(JournalKind kind, uint64_t number) {
  JournalKey key;
  key[0] = static_cast<char>(kind);
  for (int i = 0; i < 8; ++i) key[1 + i] = static_cast<char>(number >> (56 - 8 * i));
  return key;
}

absl::StatusOr<uint64_t> DecodeJournalKey(JournalKind kind, absl::string_view key) {
  if (key.size() != kJournalKeySize || key[0] != static_cast<char>(kind)) {
    return absl::DataLossError("a key of the journal is none");
  }
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | static_cast<uint8_t>(key[1 + i]);
  return number;
}

void EncodeEntry(const JournalKey& key, const JournalEntry& entry, std::string* value) {
  JournalHead head = entry.head;
  size_t bytes = 0;
  for (const Bytes& payload : entry.payloads) {
    head.add_payload_bytes(static_cast<uint32_t>(payload.size()));
    bytes += payload.size();
  }
  const auto head_bytes = static_cast<uint32_t>(head.ByteSizeLong());
  BeginStored(kJournalFormatVersion, sizeof head_bytes + head_bytes + bytes, value);
  value->append(reinterpret_cast<const char*>(&head_bytes), sizeof head_bytes);
  head.AppendToString(value);
  for (const Bytes& payload : entry.payloads) {
    value->append(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
  EndStored(KeyText(key), value);
}

void EncodeImage(const JournalKey& key, const ShardRecord& record, std::string* value) {
  BeginStored(kJournalFormatVersion, record.ByteSizeLong(), value);
  record.AppendToString(value);
  EndStored(KeyText(key), value);
}

absl::StatusOr<JournalEntry> DecodeEntry(const JournalKey& key, absl::string_view value) {
  PSGD_ASSIGN_OR_RETURN(const Opened opened, Open(key, value));
  absl::string_view contents = opened.contents;
  uint32_t head_bytes = 0;
  JournalEntry entry;
  entry.earlier_rules = opened.earlier;
  if (contents.size() < sizeof head_bytes) return absl::DataLossError("has no head");
  std::memcpy(&head_bytes, contents.data(), sizeof head_bytes);
  contents.remove_prefix(sizeof head_bytes);
  if (contents.size() < head_bytes ||
      !entry.head.ParseFromArray(contents.data(), static_cast<int>(head_bytes))) {
    return absl::DataLossError("has a head that cannot be read");
  }
  contents.remove_prefix(head_bytes);
  for (const uint32_t size : entry.head.payload_bytes()) {
    if (size > contents.size()) return absl::DataLossError("is shorter than its payloads");
    entry.payloads.push_back(Bytes::CopyOf(AsBytes(contents.substr(0, size))));
    contents.remove_prefix(size);
  }
  if (!contents.empty()) return absl::DataLossError("is longer than its payloads");
  entry.head.clear_payload_bytes();
  return entry;
}

absl::StatusOr<ShardRecord> DecodeImage(const JournalKey& key, absl::string_view value) {
  PSGD_ASSIGN_OR_RETURN(const Opened opened, Open(key, value));
  ShardRecord record;
  if (!record.ParseFromArray(opened.contents.data(), static_cast<int>(opened.contents.size()))) {
    return absl::DataLossError("is no image");
  }
  return record;
}

}  // namespace psgd
