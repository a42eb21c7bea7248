// Finds damage that RocksDB ignores. RocksDB takes any error in the last 32 KiB of a log or a
// manifest for a write that a crash cut off, and goes on without it. But a crash leaves nothing
// after the cut. So a bad record is damage if a sound record follows it, or if only its length is
// wrong.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

enum class LogExtent {
  kEnds,  // only the ends, where RocksDB notices nothing
  kWhole,
};

// The damage in the logs and the manifest of the database in `folder`, with file and offset. Writes
// nothing. Skips files that cannot be read: RocksDB reports them.
std::vector<std::string> FindLogDamage(const std::string& folder, LogExtent extent);

// DATA_LOSS: the end of a log or of the manifest is damaged.
absl::Status CheckLogEnds(const std::string& folder);

}  // namespace psgd
