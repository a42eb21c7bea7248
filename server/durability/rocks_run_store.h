// The record of a run in its directory: a RocksDB database of two values. Only one process at a
// time can open it, so no other server leads the run.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/run_store.h"
#include "server/durability/reopening.h"

namespace rocksdb {
class DB;
}

namespace psgd {

class RocksRunStore final : public RunStore {
 public:
  // Makes an empty store, and deletes what is in the folder. `sync`: a change waits for the disk.
  static absl::StatusOr<std::unique_ptr<RocksRunStore>> Create(const std::string& folder,
                                                               bool sync);
  static absl::StatusOr<std::unique_ptr<RocksRunStore>> Open(const std::string& folder, bool sync);
  // Reads the record without changing anything. `damage` names damage in the files, even if the
  // record can be read. REQUIRES: no server has the store open.
  static absl::StatusOr<Held> Check(const std::string& folder, std::vector<std::string>* damage);
  ~RocksRunStore() override;

  absl::StatusOr<Held> Read() override;
  absl::StatusOr<RunPlan> ReadPlan() override;
  absl::StatusOr<int64_t> Write(int64_t revision, const RunRecord& next, const RunPlan* plan,
                                As as) override;
  absl::Status Keep(uint64_t epoch) override;
  absl::Status Remove(int64_t revision) override;
  bool shared() const override { return false; }

 private:
  RocksRunStore(std::string folder, bool sync);
  absl::Status OpenDatabase(bool create);
  // Opens the database again, if a failed write closed it.
  absl::Status Reopen();
  // NOT_FOUND: there is no value under that key.
  absl::StatusOr<std::string> Load(const char* key) const;
  absl::StatusOr<Held> ReadNow() const;

  const std::string folder_;
  const bool sync_;
  mutable std::mutex mutex_;  // guards what follows
  std::unique_ptr<rocksdb::DB> db_;
  Reopening reopening_;
};

}  // namespace psgd
