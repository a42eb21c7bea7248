// The latest updates of a slice that were made from factors. A worker that holds an older version
// makes the same updates. The log is bounded. A worker with a forgotten version gets the weights.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compression/low_rank/factor_updates.h"
#include "server/shard/version_log.h"

namespace psgd {

// Not thread-safe.
class UpdateLog {
 public:
  // Begins at `version`, and remembers at most `most` bytes.
  UpdateLog(size_t most, uint64_t version) : updates_(most, version) {}

  void Add(FactorUpdate update);
  // `version` was made in another way.
  void Forget(uint64_t version) { updates_.Forget(version); }

  // The updates from `version` to the latest version, oldest first; nullopt: unknown.
  std::optional<std::vector<FactorUpdate>> Since(uint64_t version) const;

 private:
  VersionLog<FactorUpdate> updates_;
};

// Whether two slices have the same updates, from the same shared payloads.
bool AreSame(std::span<const FactorUpdate> updates, std::span<const FactorUpdate> others);

}  // namespace psgd
