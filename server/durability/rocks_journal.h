// A shard's journal on disk:
//
//   FOLDER/log/              a RocksDB database: the images' records, and the entries in column
//                            families log-<first entry>, a new one with each image, so that what is
//                            no longer needed goes as a whole (layout:
//                            server/durability/journal_format.h)
//   FOLDER/image-<entry>/    the arrays of an image, as a checkpoint's
//   (server/durability/checkpoint_database.h) FOLDER/machine-start     which start of which machine
//   the journal was last opened in
//
// The two newest images stay, and the entries since the older one: should the newest be damaged,
// the one before it leads to the same state.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "server/durability/failpoint.h"
#include "server/shard/journal.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
}  // namespace rocksdb

namespace psgd {

struct RocksJournalOptions {
  std::string folder;
  uint32_t shard = 0;
  bool sync = false;  // Append waits for the disk, and not only for the operating system
  std::shared_ptr<FailpointPlan> failpoint = nullptr;  // null: there is none
  std::string machine_start{};  // tells this start of the machine from all others; empty: the
                                // system is asked
};

// What can be said of a journal without changing it.
struct JournalReport {
  std::vector<uint64_t> images;     // entries, newest first; the sound ones
  uint64_t first = 0, last = 0;     // entries that are there; 0: none
  std::vector<std::string> damage;  // each with file, image or entry
  bool recovers = false;            // a server can go on from it
  bool misplaced = false;  // folders are mixed up or renamed: nothing is known to be damaged
};

// Thread-safe as Journal says.
class RocksJournal final : public Journal {
 public:
  // A new one; what is in the folder goes.
  static absl::StatusOr<std::unique_ptr<RocksJournal>> Create(RocksJournalOptions options);
  // The one that is there. DATA_LOSS: it is of another shard.
  static absl::StatusOr<std::unique_ptr<RocksJournal>> Open(RocksJournalOptions options);
  // Reads all that is there and writes nothing. REQUIRES: no server writes it.
  static JournalReport Check(RocksJournalOptions options);
  ~RocksJournal() override;

  absl::Status Append(uint64_t first, std::span<const JournalEntry> entries) override;
  absl::Status BeginLog(uint64_t first) override;
  absl::Status SaveImage(const ShardImage& image) override;
  absl::StatusOr<ShardImage> LoadImage(std::vector<std::string>* notes) override;
  absl::Status Replay(uint64_t entry,
                      const std::function<absl::Status(const JournalEntry&)>& take) override;

 private:
  using Logs = std::map<uint64_t, std::unique_ptr<rocksdb::ColumnFamilyHandle>>;  // by first entry

  explicit RocksJournal(RocksJournalOptions options);
  // Notes which start of the machine this is, and whether the journal was last open in another.
  void NoteMachineStart();
  enum class Opening { kCreate, kGoOn, kReadOnly };
  absl::Status OpenDatabase(Opening opening);
  // Folders may be mixed up where they are restored from a copy.
  absl::Status CheckShard() const;
  std::string LogFolder() const;
  std::string ImageFolder(uint64_t entry) const;
  // The entries of the images, newest first.
  absl::StatusOr<std::vector<uint64_t>> Images() const;
  absl::StatusOr<ShardRecord> ReadRecord(uint64_t entry) const;
  absl::StatusOr<ShardImage> ReadImage(uint64_t entry) const;
  // After a failed write RocksDB takes no more for as long as it sees fit. What was acknowledged is
  // in its log; opened anew, it goes on behind that.
  absl::Status Reopen();
  // Of images that were never finished.
  absl::Status RemoveUnfinishedTables() const;
  // It is not while opening it again after a failed write fails, too.
  absl::Status CheckOpen() const;
  // Forgets what only images before `entry`'s need. REQUIRES: mutex_ held.
  absl::Status Trim(uint64_t entry);
  // Of Check: each image, and each entry.
  void CheckImages(JournalReport* report) const;
  void CheckEntries(JournalReport* report) const;

  const RocksJournalOptions options_;
  std::unique_ptr<rocksdb::DB> db_;
  bool failed_ = false;                // the last write
  bool machine_started_anew_ = false;  // since the journal was last open
  mutable std::mutex mutex_;           // guards db_ against being opened anew, logs_ and damaged_
  Logs logs_;
  std::set<uint64_t>
      damaged_;        // images that were passed over: they count for none of the two that are kept
  std::string value_;  // scratch of Append
};

}  // namespace psgd
