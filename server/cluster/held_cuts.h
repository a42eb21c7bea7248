// The shards' parts of checkpoints (cuts) that a server has in its memory: what effect::SendPart
// sends and effect::WritePart writes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "server/shard/checkpoint_cut.h"

namespace psgd {

// Not thread-safe.
class HeldCuts {
 public:
  // A copy here has made the cut. It stays until the checkpoint is done.
  void Made(uint32_t shard, std::shared_ptr<const ShardCut> cut);
  // This server leads the run and writes the cut, which has come from another server. It stays
  // until it is written, because it may have to wait for room on the disk.
  void Came(uint32_t shard, std::shared_ptr<const ShardCut> cut);
  // The same for a cut that was made here: it stays even if its copy moves to another server.
  // Returns the cut, which has come or was made; null: it is not here.
  std::shared_ptr<const ShardCut> Write(uint64_t checkpoint, uint32_t shard);
  void Written(uint64_t checkpoint, uint32_t shard);
  // Returns null if the cut is not here.
  std::shared_ptr<const ShardCut> Find(uint64_t checkpoint, uint32_t shard) const;
  void Done(uint64_t checkpoint);
  // The copy here is gone.
  void Dropped(uint32_t shard) { made_.erase(shard); }
  // This server does not lead the run, so it writes nothing.
  void WritesNothing() { to_write_.clear(); }

 private:
  // By shard.
  using Cuts = std::map<uint32_t, std::shared_ptr<const ShardCut>>;

  Cuts made_, to_write_;
};

}  // namespace psgd
