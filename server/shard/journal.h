// A shard's journal, from which the shard can be made again: the steps that change it, in order,
// and now and then an image of the whole shard. docs/durability.md has the promises.
// server/durability/rocks_journal.h keeps it on disk, tests/sim in simulated storage.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "proto/journal.pb.h"
#include "server/shard/snapshot.h"

namespace psgd {

// One step: an order of the coordinator, or a message that counts.
struct JournalEntry {
  JournalHead head;
  std::vector<Bytes> payloads;  // of the message
  bool earlier_rules = false;   // an earlier version of psgd wrote it: earlier_rules.h

  size_t bytes() const {
    size_t sum = head.ByteSizeLong();
    for (const Bytes& payload : payloads) sum += payload.size();
    return sum;
  }
};

// Consecutive entries of a journal.
struct JournalEntries {
  uint64_t first = 1;
  std::vector<JournalEntry> entries;

  uint64_t last() const { return first + entries.size() - 1; }
};

// A shard as it was after one entry. The arrays are shared, not copied.
struct ShardImage {
  ShardRecord record;
  ShardSnapshot arrays;  // `workers` is not used
};

// Entries are numbered from 1 without gaps. Not thread-safe, except that SaveImage may run on
// another thread.
class Journal {
 public:
  virtual ~Journal() = default;

  // Appends the entries from number `first` on, all or none. Returns once they are as durable as
  // the level promises. After an error the same entries may be appended again. RESOURCE_EXHAUSTED:
  // the disk is full.
  virtual absl::Status Append(uint64_t first, std::span<const JournalEntry> entries) = 0;

  // Keeps the entries from `first` on apart from earlier entries. REQUIRES: `first` is the next
  // entry.
  virtual absl::Status BeginLog(uint64_t first) = 0;
  // Keeps the image, and deletes what only images before the previous image needed. REQUIRES: a log
  // begins with the entry after the image.
  virtual absl::Status SaveImage(const ShardImage& image) = 0;

  // The newest sound image. NOT_FOUND: there is no image, because the shard never had a model.
  // `notes` names damaged images that were skipped.
  virtual absl::StatusOr<ShardImage> LoadImage(std::vector<std::string>* notes) = 0;
  // Hands out the entries after `entry`, in order. DATA_LOSS: one is missing or damaged.
  virtual absl::Status Replay(uint64_t entry,
                              const std::function<absl::Status(const JournalEntry&)>& take) = 0;
};

}  // namespace psgd
