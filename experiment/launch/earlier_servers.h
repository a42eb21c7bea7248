// The servers that an earlier ps-run left in a run directory.
#pragma once

#include <string>
#include <vector>

#include "proto/run.pb.h"

namespace psgd {

// The number of the last RUN_DIR/server-N; 1: there is none.
int LastServerDir(const std::string& run_dir);

// The run directories of the servers that still belong to the run of `record`. The first is of the
// server to start first: the one that led the run, unless its data are gone. If there are none,
// `why` says why the folders do not count.
std::vector<std::string> EarlierServers(const std::string& run_dir, const RunRecord& record,
                                        std::string* why);

// Where the servers' journals are that the run goes on from, as far as the run directory itself
// tells. EarlierServers knows better, but needs the run's record, which may be in an etcd.
struct ServersThere {
  // "server-N", which took over from the server of the run directory, so that nothing goes on from
  // that one's journal. Empty: none did.
  std::string leader;
  std::vector<std::string> others;  // "server-N" with a journal, by number; includes `leader`
};
ServersThere ServersIn(const std::string& run_dir);

// Whether the journals in the run directory may hold training that the newest checkpoint does not,
// and the run was not over.
bool JournalsGoFurther(const std::string& run_dir);

}  // namespace psgd
