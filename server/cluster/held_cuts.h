// The bytes behind effect::SendPart and effect::WritePart: the shards' parts of checkpoints that a
// server has in its memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "server/shard/checkpoint_cut.h"

namespace psgd {

// Not thread-safe.
class HeldCuts {
 public:
  // A copy here has made the cut; it stays until its checkpoint is done.
  void Made(uint32_t shard, std::shared_ptr<const ShardCut> cut);
  // The cut has come from another server; it stays until its writing begins.
  void Came(uint32_t shard, std::shared_ptr<const ShardCut> cut);
  // The cut that is written now. `stays`: see effect::WritePart. Null: it is not here.
  std::shared_ptr<const ShardCut> Write(uint64_t checkpoint, uint32_t shard, bool stays);
  void Written(uint64_t checkpoint, uint32_t shard);
  // Null: it is not here.
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
