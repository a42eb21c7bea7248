// Where a server's journals lie in its folder.
#pragma once

#include <string>

#include "common/status.h"

namespace psgd {

// `part`: "coordinator" or "shard-N".
std::string JournalFolder(const std::string& server_dir, const std::string& part);
// What a server that holds shards for another knows of itself: HostRecord.
std::string HostRecordFile(const std::string& server_dir);
// Makes the folder of all of them, closed to everybody else: updates of a run are its owner's alone, and
// so are the passes of a secured one.
absl::Status MakeJournalFolder(const std::string& server_dir);

}  // namespace psgd
