// The elements that the latest versions of a slice changed: a worker that holds an older version
// needs only these. The log is bounded. A worker with a forgotten version gets the whole slice.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/shard/version_log.h"

namespace psgd {

// Not thread-safe.
class ChangeLog {
 public:
  // Begins at `version`.
  ChangeLog(uint32_t elements, uint64_t version);

  // `version` differs from the version before in these elements only. REQUIRES: `indices` ascend.
  void Add(uint64_t version, std::vector<uint32_t> indices);
  // `version` may differ in all elements.
  void AddAll(uint64_t version) { changes_.Forget(version); }

  // The elements, ascending, in which the latest version may differ from `version`; nullopt:
  // unknown.
  std::optional<std::vector<uint32_t>> Since(uint64_t version) const;

 private:
  struct Change {
    uint64_t version;
    std::vector<uint32_t> indices;
  };

  const uint32_t elements_;
  VersionLog<Change> changes_;
};

}  // namespace psgd
