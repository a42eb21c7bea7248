// Where the coordinator's record is kept: a RocksDB database with one value, replaced as a whole.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/journal.pb.h"

namespace rocksdb {
class DB;
}

namespace psgd {

// Not thread-safe.
class CoordinatorStore {
 public:
  // An empty one; what is in the folder goes.
  static absl::StatusOr<std::unique_ptr<CoordinatorStore>> Create(const std::string& folder);
  static absl::StatusOr<std::unique_ptr<CoordinatorStore>> Open(const std::string& folder);
  // The record, read without changing anything; what is damaged in the files, even if it can be
  // read. REQUIRES: no server writes there.
  static absl::StatusOr<CoordinatorRecord> Check(const std::string& folder,
                                                 std::vector<std::string>* damage);
  ~CoordinatorStore();

  // `sync`: waits for the disk. After an error it may be saved again. RESOURCE_EXHAUSTED: the disk
  // is full.
  absl::Status Save(const CoordinatorRecord& record, bool sync);
  // NOT_FOUND: none was saved. DATA_LOSS: it is damaged.
  absl::StatusOr<CoordinatorRecord> Load() const;

 private:
  explicit CoordinatorStore(std::string folder);
  absl::Status OpenDatabase(bool create);

  const std::string folder_;
  std::unique_ptr<rocksdb::DB> db_;
};

// DATA_LOSS: the journal of that shard ends, after `entries`, before what the record says that it
// had.
absl::Status CheckJournalEnd(const CoordinatorRecord& record, uint32_t shard, uint64_t entries);

}  // namespace psgd
