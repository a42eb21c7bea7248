// Where a server's journals lie in its folder.
#pragma once

#include <string>

#include "common/log.h"
#include "common/status.h"

namespace psgd {

// `part`: "coordinator" or "shard-N".
std::string JournalFolder(const std::string& server_dir, const std::string& part);
// Makes the folder of all of them, closed to everybody else: updates of a run are its owner's alone, and
// so are the passes of a secured one.
absl::Status MakeJournalFolder(const std::string& server_dir, const Log& log);
// Closes one that is there, if need be; warns if others could read it so far.
absl::Status CloseJournalFolder(const std::string& server_dir, const Log& log);

}  // namespace psgd
