// The latest updates of a slice that were made from factors: what a worker that holds an older
// version has to make. Bounded; of what is forgotten a worker gets the weights.
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
  // Begins at this version, and remembers no more bytes than `most`.
  UpdateLog(size_t most, uint64_t version) : updates_(most, version) {}

  void Add(FactorUpdate update);
  // This version came about in another way.
  void Forget(uint64_t version) { updates_.Forget(version); }

  // Those that lead from this version to the latest, the oldest first; nothing where they are not
  // known.
  std::optional<std::vector<FactorUpdate>> Since(uint64_t version) const;

 private:
  VersionLog<FactorUpdate> updates_;
};

// The same updates, of the same payloads: those of two slices that share them.
bool AreSame(std::span<const FactorUpdate> updates, std::span<const FactorUpdate> others);

}  // namespace psgd
