// Which run a server joined and which shards it held, for when it comes back: a file in its folder.
#pragma once

#include <string>

#include "common/status.h"
#include "proto/hosting.pb.h"

namespace psgd {

std::string HostRecordFile(const std::string& server_dir);
// DATA_LOSS: it is damaged.
absl::StatusOr<HostRecord> ReadHostRecord(const std::string& server_dir);

}  // namespace psgd
