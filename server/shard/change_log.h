// Which elements of a slice its latest versions changed: what a worker that holds an older version
// has to be told. Bounded; of what is forgotten a worker gets the whole slice.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/shard/version_log.h"

namespace psgd {

// Not thread-safe.
class ChangeLog {
 public:
  // Begins at this version.
  ChangeLog(uint32_t elements, uint64_t version);

  // `version` differs from the one before in these elements alone, which ascend.
  void Add(uint64_t version, std::vector<uint32_t> indices);
  // It may differ in all.
  void AddAll(uint64_t version) { changes_.Forget(version); }

  // The elements, ascending, in which the latest version may differ from this one; nothing where
  // that is not known.
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
