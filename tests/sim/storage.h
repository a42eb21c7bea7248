// Simulated storage: what a server wrote down outlives it. It can be full for a while, and lie.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/journal.h"

namespace psgd::sim {

// What a disk does wrong, for checkers to find.
enum class DiskFault {
  kNone,
  kForgetsLast,   // the last entry that was acknowledged is not there after a crash
  kRepeatsLast,   // it is there twice
  kChangesOne,    // a bit of an entry differs, unnoticed by its checksum
};

// A shard's part of the disk.
struct ShardDisk {
  std::map<uint64_t, std::string> entries;  // as they are stored
  std::map<uint64_t, ShardImage> images;
  bool full = false;
};

// The journal of one life of a shard on its disk.
class SimJournal final : public Journal {
 public:
  explicit SimJournal(ShardDisk* disk) : disk_(disk) {}

  absl::Status Append(uint64_t first, std::span<const JournalEntry> entries) override;
  absl::Status BeginLog(uint64_t) override { return absl::OkStatus(); }
  absl::Status SaveImage(const ShardImage& image) override;
  absl::StatusOr<ShardImage> LoadImage(std::vector<std::string>* notes) override;
  absl::Status Replay(uint64_t entry,
                      const std::function<absl::Status(const JournalEntry&)>& take) override;

 private:
  ShardDisk* const disk_;
};

// What the fault makes of a disk in a crash.
void Damage(DiskFault fault, ShardDisk* disk);

}  // namespace psgd::sim
