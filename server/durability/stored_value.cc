#include "server/durability/stored_value.h"

#include <cstring>

#include "common/bytes.h"

namespace psgd {
namespace {

constexpr size_t kChecksumAt = 8;

uint64_t ChecksumOfStored(absl::string_view key, absl::string_view contents) {
  Checksum checksum;
  checksum.Add(AsBytes(key));
  checksum.Add(AsBytes(contents));
  return checksum.Value();
}

}  // namespace

void BeginStored(uint32_t version, size_t contents, std::string* value) {
  const uint32_t head[2] = {version, 0};
  value->clear();
  value->reserve(kStoredPrefixSize + contents);
  value->append(reinterpret_cast<const char*>(head), sizeof head);
  value->append(kStoredPrefixSize - kChecksumAt, '\0');
}

uint64_t EndStored(absl::string_view key, std::string* value) {
  const uint64_t checksum =
      ChecksumOfStored(key, absl::string_view(*value).substr(kStoredPrefixSize));
  std::memcpy(value->data() + kChecksumAt, &checksum, sizeof checksum);
  return checksum;
}

uint32_t FormatVersionOf(absl::string_view value) {
  uint32_t version = 0;
  if (value.size() >= kStoredPrefixSize) std::memcpy(&version, value.data(), sizeof version);
  return version;
}

absl::StatusOr<StoredValue> OpenStored(uint32_t version, absl::string_view key,
                                       absl::string_view value) {
  if (value.size() < kStoredPrefixSize) {
    return DataLossError("is cut off after ", value.size(), " bytes");
  }
  uint32_t head[2];
  StoredValue stored;
  std::memcpy(head, value.data(), sizeof head);
  std::memcpy(&stored.checksum, value.data() + kChecksumAt, sizeof stored.checksum);
  if (head[0] != version || head[1] != 0) {
    return DataLossError("has format version ", head[0], "; this program reads ", version);
  }
  stored.contents = value.substr(kStoredPrefixSize);
  if (ChecksumOfStored(key, stored.contents) != stored.checksum) {
    return absl::DataLossError("does not match its checksum");
  }
  return stored;
}

}  // namespace psgd
