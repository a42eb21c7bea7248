// The folders of a copy in a server's folder of journals. Without a journal nothing is on the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/log.h"
#include "proto/config.pb.h"
#include "server/cluster/copy_place.h"
#include "server/durability/failpoint.h"

namespace psgd {

struct CopyFolderOptions {
  Config config;
  uint32_t shard = 0;
  std::string journal_dir;                   // used if there is a journal
  std::shared_ptr<FailpointPlan> failpoint;  // for tests; null: there is none
  Log log = NullLog();
};

// Not thread-safe.
class CopyFolder final : public CopyDisk {
 public:
  explicit CopyFolder(CopyFolderOptions options);
  // Removes what a process that died was discarding.
  absl::Status RemoveGone() const;

  bool Exists(CopySpot spot) const override;
  absl::Status Rename(CopySpot from, CopySpot to) override;
  absl::Status Discard(CopySpot spot) override;
  absl::StatusOr<DurableShardOptions> Create() override;
  absl::StatusOr<std::unique_ptr<DurableShard>> Read() override;

 private:
  const std::string& PathOf(CopySpot spot) const {
    return spot == CopySpot::kPlace ? place_ : aside_;
  }

  const CopyFolderOptions options_;
  const bool has_journal_;
  const std::string place_, aside_;
};

}  // namespace psgd
