#include "server/durability/server_record.h"

#include "common/files.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/checkpoint_format.h"
#include "server/durability/journal_folder.h"

namespace psgd {
namespace {

constexpr size_t kLongestRecord = 4096;
constexpr char kKey[] = "server";

std::string RecordFile(const std::string& server_dir) {
  return JournalFolder(server_dir, "server");
}

}  // namespace

absl::StatusOr<ServerRecord> LoadServerRecord(const std::string& server_dir) {
  const std::string file = RecordFile(server_dir);
  if (!FileExists(file)) return NotFoundError(file, " is not there");
  PSGD_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(file, kLongestRecord));
  ServerRecord record;
  const auto value = DecodeValue(kKey, text);
  const absl::string_view contents = value.ok() ? value->contents : absl::string_view();
  if (!value.ok() || !record.ParseFromArray(contents.data(), static_cast<int>(contents.size())) ||
      record.identity() == 0) {
    return DataLossError(
        file,
        " is damaged: it does not say which server of which run this is. Copy it from where the "
        "rest is from, or go on from the last checkpoint with ps-run --resume");
  }
  return record;
}

const std::string& ReachedAs(const ServerRecord& record) {
  return record.advertise().empty() ? record.host() : record.advertise();
}

absl::Status SaveServerRecord(const std::string& server_dir, const ServerRecord& record) {
  const std::string contents = record.SerializeAsString();
  std::string value;
  EncodeValue(kKey, AsBytes(contents), &value);
  return WriteFileAtomically(RecordFile(server_dir), value);
}

}  // namespace psgd
