// Simulated storage: what a server wrote down outlives it, as far as the machine lets it. A process
// that is killed leaves all that it wrote; a machine that loses power leaves what was synced, and
// of the rest the beginning, perhaps up to the middle of a write. It can be full for a while, and
// lie.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/shard/journal.h"
#include "simulate/chance.h"

namespace psgd::sim {

// What a disk, or the journal on it, does wrong, for checkers to find.
enum class DiskFault {
  kNone,
  kForgetsLast,               // the last entry that was acknowledged is not there after a crash
  kRepeatsLast,               // it is there twice
  kChangesOne,                // a bit of an entry differs, unnoticed by its checksum
  kWritesLate,                // what was acknowledged is written with what comes next
  kNeverSyncs,                // although it should
  kForgetsToSyncWhatItFinds,  // what the life before wrote and did not sync
  kKeepsTorn,                 // an image of which a part is missing is taken for a whole one
};

// One write to a log: it counts as a whole, or not.
struct DiskWrite {
  std::vector<std::pair<uint64_t, std::string>> entries;  // by number, as they are stored
  uint64_t image = 0;  // or the record of the image with that last entry
  uint64_t checksum = 0;
  bool synced = false;
};

struct DiskImage {
  ShardImage image;
  uint64_t checksum = 0;
};

// A shard's part of the disk.
struct ShardDisk {
  std::vector<std::vector<DiskWrite>> logs;  // one each time that the journal was opened
  std::map<uint64_t, DiskImage> images;      // the arrays; a log says which of them count
  bool full = false;
  bool dies_writing = false;    // the process does, after its next write and before it is synced
  std::vector<DiskWrite> late;  // kWritesLate
};

struct SimJournalOptions {
  bool sync = false;  // entries wait for the disk, and not only for the operating system
  DiskFault fault = DiskFault::kNone;
};

// The journal of one life of a shard on its disk, as server/rocks_journal keeps it.
class SimJournal final : public Journal {
 public:
  SimJournal(ShardDisk* disk, SimJournalOptions options);

  absl::Status Append(uint64_t first, std::span<const JournalEntry> entries) override;
  absl::Status BeginLog(uint64_t) override { return absl::OkStatus(); }
  absl::Status SaveImage(const ShardImage& image) override;
  absl::StatusOr<ShardImage> LoadImage(std::vector<std::string>* notes) override;
  absl::Status Replay(uint64_t entry,
                      const std::function<absl::Status(const JournalEntry&)>& take) override;

 private:
  void Write(DiskWrite write, bool sync);
  void Trim();
  // Reads all logs in order. A write that was cut off ends its log. DATA_LOSS: another follows it.
  absl::Status ReadLogs(const std::function<void(const DiskWrite&)>& take) const;

  ShardDisk* const disk_;
  const SimJournalOptions options_;
  std::set<uint64_t> damaged_;  // images that were passed over
};

// What the fault makes of a disk in a crash.
void Damage(DiskFault fault, ShardDisk* disk);
// The machine loses power. True: something that was written is lost.
bool LosePower(Chance* chance, ShardDisk* disk);
// The newest of several images is cut off, though it was synced.
void TearImage(ShardDisk* disk);

}  // namespace psgd::sim
