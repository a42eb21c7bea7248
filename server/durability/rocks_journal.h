// A shard's journal on disk:
//
//   FOLDER/log/              a RocksDB database: the images' records, and the entries in column
//                            families log-<first entry>. Each image begins a new family, so that
//                            old entries are dropped as a whole (layout: journal_format.h).
//   FOLDER/image-<entry>/    the arrays of an image, as a database (checkpoint_database.h)
//   FOLDER/machine-start     the start of the machine in which the journal was last opened
//
// The two newest images stay, and the entries since the older image. If the newest image is
// damaged, the older image leads to the same state.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "server/durability/failpoint.h"
#include "server/durability/reopening.h"
#include "server/shard/journal.h"
#include "server/shard/member_clocks.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
}  // namespace rocksdb

namespace psgd {

struct RocksJournalOptions {
  std::string folder;
  uint32_t shard = 0;
  bool sync = false;  // Append waits for the disk, not only for the operating system
  std::shared_ptr<FailpointPlan> failpoint = nullptr;  // null: there is none
  std::string machine_start{};  // identifies this start of the machine; empty: the system is asked
};

// What a check of a journal finds without changing the journal.
struct JournalReport {
  std::vector<uint64_t> images;     // entries of sound images, newest first
  uint64_t first = 0, last = 0;     // present entries; 0: none
  MemberClocks clocks;              // at its end, as ShardCore::Clocks; if a server can go on
  std::vector<std::string> damage;  // each names a file, image or entry
  bool recovers = false;            // a server can go on from it
  uint64_t earlier_rules = 0;  // the first entry with JournalEntry::earlier_rules that a server
                               // would carry out again; 0: none
  bool empty = false;          // the server died while it created the journal
  bool unfinished = false;     // the server died before the first image was whole
  bool misplaced = false;      // folders are mixed up or renamed; there may be no damage
};

// Thread-safe only as Journal says.
class RocksJournal final : public Journal {
 public:
  // Makes a new journal, and deletes what is in the folder.
  static absl::StatusOr<std::unique_ptr<RocksJournal>> Create(RocksJournalOptions options);
  // Opens an existing journal. DATA_LOSS: among others, the journal is of another shard.
  static absl::StatusOr<std::unique_ptr<RocksJournal>> Open(RocksJournalOptions options);
  // Reads the whole journal and writes nothing. REQUIRES: no server has it open.
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
  // Stores which start of the machine this is, and notes whether the journal was last open in
  // another start.
  void NoteMachineStart();
  enum class Opening { kCreate, kGoOn, kReadOnly };
  absl::Status OpenDatabase(Opening opening);
  // Folders may be mixed up when they are restored from a copy.
  absl::Status CheckShard() const;
  std::string LogFolder() const;
  std::string ImageFolder(uint64_t entry) const;
  // The entries of the images, newest first.
  absl::StatusOr<std::vector<uint64_t>> Images() const;
  // An image's record is written after all entries up to the image. If they are gone, so are the
  // later entries.
  absl::Status CheckLogReaches(const std::vector<uint64_t>& images) const;
  // The last of the entries up to `most`; 0: there is none.
  absl::StatusOr<uint64_t> LastEntryUpTo(uint64_t most) const;
  absl::StatusOr<ShardRecord> ReadRecord(uint64_t entry) const;
  absl::StatusOr<ShardImage> ReadImage(uint64_t entry) const;
  // Opens the database again after a failed write. Its log has what was acknowledged.
  absl::Status Reopen();
  // Removes tables of images that were never finished.
  absl::Status RemoveUnfinishedTables() const;
  // An error: the database is closed, because Reopen failed.
  absl::Status CheckOpen() const;
  // Deletes what only images before `entry`'s image need. REQUIRES: mutex_ held.
  absl::Status Trim(uint64_t entry);
  // Parts of Check: each image, and each entry.
  void CheckImages(JournalReport* report) const;
  void CheckEntries(JournalReport* report) const;

  const RocksJournalOptions options_;
  std::unique_ptr<rocksdb::DB> db_;
  bool failed_ = false;  // the last write failed
  Reopening reopening_;
  bool machine_started_anew_ = false;  // the machine restarted since the journal was last open
  mutable std::mutex mutex_;           // guards db_ while it is reopened, logs_ and damaged_
  Logs logs_;
  std::set<uint64_t> damaged_;  // skipped images, which do not count as one of the two kept images
  std::string value_;           // scratch of Append
};

}  // namespace psgd
