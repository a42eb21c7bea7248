// Which server of which run lies in a run directory: beside its journals, in the folder that is
// closed to others.
#pragma once

#include <string>

#include "common/status.h"
#include "proto/run.pb.h"

namespace psgd {

// NOT_FOUND: there is none. `server_dir`: of the run directory.
absl::StatusOr<ServerRecord> LoadServerRecord(const std::string& server_dir);
// REQUIRES: MakeJournalFolder.
absl::Status SaveServerRecord(const std::string& server_dir, const ServerRecord& record);

}  // namespace psgd
