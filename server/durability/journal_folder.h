// The places of a server's journals in its folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/status.h"

namespace psgd {

// Ends the name of a shard's folder while an image of another copy takes its place.
inline constexpr char kAsideSuffix[] = ".before";

// In a shard's folder: the boot id of the machine that last had the journal open. The file is
// written once the journal has been created.
inline constexpr char kMachineStartFile[] = "/machine-start";

// `part`: "coordinator" or "shard-N".
std::string JournalFolder(const std::string& server_dir, const std::string& part);
// Makes the folder for all journals, closed to other users: the updates of a run, and the passes of
// a secured run, are for its owner only.
absl::Status MakeJournalFolder(const std::string& server_dir, const Log& log);
// Closes an existing folder to other users. Warns if they could read it before.
absl::Status CloseJournalFolder(const std::string& server_dir, const Log& log);

// Unknown folders beside a shard's folder. A missing shard may be one of them, under another name.
std::vector<std::string> StrayFolders(const std::string& shard_folder);
// NOT_FOUND: the server died while it created the journal, before there was anything to lose.
// DATA_LOSS: the folder of the shard, or of its log, is missing.
absl::Status CheckShardThere(const std::string& shard_folder);
// Whether the coordinator's folder, or the database in it, is missing.
bool CoordinatorIsMissing(const std::string& server_dir);
// The data of the etcd that ps-run ran for this run. `server_dir`: that of the run directory.
std::string EtcdFolder(const std::string& server_dir);
// Its log, which goes when the run is over. `folder`: EtcdFolder.
std::string EtcdLog(const std::string& folder);
bool HasEtcdData(const std::string& server_dir);
// Says where the run's record is if this server does not keep it, and with which commands the run
// goes on.
std::string WhereRecordIs(const std::string& server_dir);
// Why there is no record of the coordinator. NOT_FOUND: training had not begun. DATA_LOSS: training
// had begun, and the record is gone. FAILED_PRECONDITION: it is in an etcd. `revision`: of the
// run's record, which has no plan; 0: there is no record.
absl::Status NoCoordinator(int64_t revision, const std::string& server_dir);

}  // namespace psgd
