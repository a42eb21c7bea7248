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

// Whether the journals in the run directory may hold training that the newest checkpoint does not,
// and the run was not over.
bool JournalsGoFurther(const std::string& run_dir);

}  // namespace psgd
