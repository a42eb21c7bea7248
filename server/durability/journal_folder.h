// Where a server's journals lie in its folder.
#pragma once

#include <string>
#include <vector>

#include "common/log.h"
#include "common/status.h"

namespace psgd {

// `part`: "coordinator" or "shard-N".
std::string JournalFolder(const std::string& server_dir, const std::string& part);
// Makes the folder of all of them, closed to everybody else: updates of a run are its owner's
// alone, and so are the passes of a secured one.
absl::Status MakeJournalFolder(const std::string& server_dir, const Log& log);
// Closes one that is there, if need be; warns if others could read it so far.
absl::Status CloseJournalFolder(const std::string& server_dir, const Log& log);

// Folders beside that of a shard, of which no server makes use: it may be one of them, under
// another name.
std::vector<std::string> StrayFolders(const std::string& shard_folder);
// DATA_LOSS: the folder of a shard, or of its log, is not there.
absl::Status CheckShardThere(const std::string& shard_folder);
// The folder of the coordinator, or the database in it, is not there.
bool CoordinatorIsMissing(const std::string& server_dir);
// Why there is no record of the coordinator. NOT_FOUND: training had not begun. DATA_LOSS: it had,
// and the record is gone. `checkpoint_dir`: where the run's checkpoints lie.
absl::Status NoCoordinator(const std::string& server_dir, const std::string& checkpoint_dir);

}  // namespace psgd
