// What RocksDB would pass over in silence: it takes whatever is wrong in the last 32 KiB of a log
// or a manifest for a write that a crash cut off, and goes on without it. A crash leaves nothing
// behind the cut; so what is followed by a sound record, or is sound but for its length, is damage.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

enum class LogExtent {
  kEnds,  // what RocksDB would not notice
  kWhole,
};

// What is damaged in the logs and the manifest of the database in `folder`, each with file and
// offset; nothing is written. Files that cannot be read are left for RocksDB to complain of.
std::vector<std::string> FindLogDamage(const std::string& folder, LogExtent extent);

// DATA_LOSS: their ends are damaged.
absl::Status CheckLogEnds(const std::string& folder);

}  // namespace psgd
