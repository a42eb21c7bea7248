#include "server/control/host_record.h"

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace psgd {

std::string HostRecordFile(const std::string& server_dir) { return server_dir + "/host"; }

absl::StatusOr<HostRecord> ReadHostRecord(const std::string& server_dir) {
  const std::string file = HostRecordFile(server_dir);
  PSGD_ASSIGN_OR_RETURN(const std::string contents, ReadSmallFile(file, 1u << 20));
  HostRecord record;
  if (record.ParseFromString(contents)) return record;
  return absl::DataLossError(absl::StrCat(
      file,
      " is damaged: it says which shards this server held. Give another --run-dir, and go on "
      "from the run's last checkpoint (--resume)"));
}

}  // namespace psgd
