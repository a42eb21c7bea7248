// What a shard writes down so that it can be made again: the steps that change it, one after the
// other, and now and then an image of the whole. docs/durability.md has the promises;
// server/durability/rocks_journal.h keeps it on disk, tests/sim in simulated storage.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

  size_t bytes() const {
    size_t sum = head.ByteSizeLong();
    for (const Bytes& payload : payloads) sum += payload.size();
    return sum;
  }
};

// Some of a journal, one after the other.
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

// Entries are numbered from 1 without gaps. Not thread-safe but for SaveImage, which may run on
// another thread.
class Journal {
 public:
  virtual ~Journal() = default;

  // Appends entries `first` and following, all or none, and returns once they survive what the
  // level promises. After an error the same entries may be appended again. RESOURCE_EXHAUSTED: the
  // disk is full.
  virtual absl::Status Append(uint64_t first, std::span<const JournalEntry> entries) = 0;

  // Entries from `first` on are kept apart from those before. REQUIRES: it is the next one.
  virtual absl::Status BeginLog(uint64_t first) = 0;
  // Keeps the image, and forgets what only images before the previous one needed. REQUIRES: a log
  // was begun with the entry after it.
  virtual absl::Status SaveImage(const ShardImage& image) = 0;

  // The newest sound image. NOT_FOUND: there is none, the shard never had a model. What was passed
  // over because it is damaged is told in `notes`.
  virtual absl::StatusOr<ShardImage> LoadImage(std::vector<std::string>* notes) = 0;
  // Hands out the entries after `entry`, in order. DATA_LOSS: one is missing or damaged.
  virtual absl::Status Replay(uint64_t entry,
                              const std::function<absl::Status(const JournalEntry&)>& take) = 0;
};

}  // namespace psgd
