// The record of which server of which run owns a run directory. It lies beside the journals, in the
// folder that is closed to other users.
#pragma once

#include <string>

#include "common/status.h"
#include "proto/run.pb.h"

namespace psgd {

// NOT_FOUND: there is no record. `server_dir`: the server's folder in the run directory.
absl::StatusOr<ServerRecord> LoadServerRecord(const std::string& server_dir);
// The host under which others reach the server.
const std::string& ReachedAs(const ServerRecord& record);
// REQUIRES: MakeJournalFolder was called.
absl::Status SaveServerRecord(const std::string& server_dir, const ServerRecord& record);

}  // namespace psgd
