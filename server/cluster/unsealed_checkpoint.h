// The checkpoint that a server writes as the run's leader: which of its parts are on the disk. It
// says what its shell does with the disk. A state machine without IO.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "proto/checkpoint.pb.h"
#include "server/cluster/server_effects.h"

namespace psgd {

// A server that leads the run again begins the checkpoint again: another server may have written to
// the same folder meanwhile. Not thread-safe.
class UnsealedCheckpoint {
 public:
  enum class Next {
    kPassOver,  // nothing: the checkpoint was given up, or belongs to an earlier leadership
    kBegin,     // begin the checkpoint and call Begun; then kWrite
    kWrite,     // write the part and call Written
    kTell,      // tell the receipt: the part is written already
  };
  Next ForPart(const effect::WritePart& part) const;
  void Begun(const effect::WritePart& part);
  void Written(uint32_t shard, const ShardReceipt& receipt) { written_[shard] = receipt; }
  // REQUIRES: the shard's part is written.
  const ShardReceipt& receipt(uint32_t shard) const { return written_.at(shard); }
  // Whether the parts must be removed. From then on, parts of that checkpoint are passed over.
  bool Discard(const effect::DiscardParts& parts);

 private:
  // An epoch of the run, and a checkpoint.
  using Place = std::pair<uint64_t, uint64_t>;

  Place place_;  // of the checkpoint that was begun last
  bool discarded_ = false;
  std::map<uint32_t, ShardReceipt> written_;  // by shard
};

}  // namespace psgd
