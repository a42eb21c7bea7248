// Where a copy's shard lies on the disk, and which of two shards there counts. While an image of
// another copy takes the place, the shard that was there lies aside. It counts until the image is
// whole. So a copy in sync never lacks what was acknowledged, whatever fails, and wherever the
// process dies.
#pragma once

#include <memory>
#include <utility>

#include "common/status.h"
#include "server/durability/durable_shard.h"

namespace psgd {

enum class CopySpot { kPlace, kAside };

// `finished`: an image was finished in the place, though it may be damaged. A process that dies
// leaves no damage, so that may be long ago. Then steps were acknowledged that what lies aside
// lacks.
inline CopySpot SpotThatCounts(bool finished, bool aside) {
  return aside && !finished ? CopySpot::kAside : CopySpot::kPlace;
}

// What a CopyPlace does to the disk. The process may die between any two calls. A call that fails
// changes nothing, except that Create may leave the place empty or unfinished.
class CopyDisk {
 public:
  virtual ~CopyDisk() = default;
  virtual bool Exists(CopySpot spot) const = 0;
  // REQUIRES: something lies at `from`, and nothing at `to`.
  virtual absl::Status Rename(CopySpot from, CopySpot to) = 0;
  // OK if nothing lies there.
  virtual absl::Status Discard(CopySpot spot) = 0;
  // Makes an empty journal in the place, and discards what lies there.
  virtual absl::StatusOr<DurableShardOptions> Create() = 0;
  // Makes the shard again that lies in the place. NOT_FOUND: no image was finished there.
  // DATA_LOSS: something is missing or damaged.
  virtual absl::StatusOr<std::unique_ptr<DurableShard>> Read() = 0;
};

// Not thread-safe: belongs to the shard's thread. REQUIRES for all calls: no shard in the place is
// open.
class CopyPlace {
 public:
  explicit CopyPlace(std::unique_ptr<CopyDisk> disk) : disk_(std::move(disk)) {}

  // Call this when the process starts. Returns the shard that counts. Null: nothing acknowledged is
  // here. An error: something acknowledged may be here, and the process must not go on without it.
  absl::StatusOr<std::unique_ptr<DurableShard>> Recover();
  // Puts the shard aside. Returns an empty place for another one; Settle or Restore must follow.
  absl::StatusOr<DurableShardOptions> Empty();
  // Discards the old shard: the new one is whole, or the old one counts no more.
  void Settle();
  // The new shard cannot be made: returns the shard from before Empty. NOT_FOUND: there was none.
  absl::StatusOr<std::unique_ptr<DurableShard>> Restore();
  // The copy is needed no more.
  void Drop();

 private:
  absl::StatusOr<std::unique_ptr<DurableShard>> Read();

  const std::unique_ptr<CopyDisk> disk_;
  bool settled_ = false;  // the place holds what counts; what may lie aside does not count
};

}  // namespace psgd
