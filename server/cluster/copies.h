// Which servers hold the copies of each shard, and which change is due next. Pure functions of the
// run's record.
//
// A shard moves in changes of its copies: a copy is added, catches up and becomes in sync, is
// promoted, and the old one is dropped. A server that dies is left out by the same changes.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "common/status.h"
#include "proto/run.pb.h"

namespace psgd {

struct CopyChange {
  enum What { kAdd, kPromote, kDrop };
  What what = kAdd;
  uint32_t shard = 0;
  uint32_t server = 0;

  bool operator==(const CopyChange&) const = default;
};

// What the changes lead to.
struct CopyTargets {
  std::set<uint32_t> present;     // servers that may hold copies: connected, and not about to leave
  std::vector<uint32_t> leaders;  // by shard: the server that is to lead it
  size_t copies = 1;              // of each shard, as far as there are servers
};

bool IsInSync(const ShardCopies& shard, uint32_t server);
bool HoldsCopy(const ShardCopies& shard, uint32_t server);

// By shard: the server that leads it.
std::vector<uint32_t> LeadersOf(const RunRecord& record);
// The leaders spread evenly over `present`, with as few moves as that takes.
std::vector<uint32_t> SpreadLeaders(const RunRecord& record, const std::set<uint32_t>& present);

// The next change of this shard; nullopt: it is as it is to be. No change leaves a shard with fewer
// in-sync copies than it has, but for a drop of one more than there are to be.
std::optional<CopyChange> NextChange(const RunRecord& record, uint32_t shard,
                                     const CopyTargets& targets);

// REQUIRES: the change is one that NextChange may return. A promotion begins a new epoch; the
// copies that were in sync stay so: whoever leads from now on waits for them until they have what
// it has.
void Apply(const CopyChange& change, RunRecord* record);

// The server's copy of the shard has everything that was acknowledged. False: it was so already, or
// holds no copy.
bool AddInSync(uint32_t server, ShardCopies* shard);
// Nobody waits for the server's copy any more. REQUIRES: it does not lead the shard. False: nobody
// did.
bool RemoveInSync(uint32_t server, ShardCopies* shard);

// How evenly copies lie: by server, how many it holds.
size_t CopiesOn(const RunRecord& record, uint32_t server);

// DATA_LOSS: the journal of the shard's leading copy has only so many entries, and had more.
absl::Status CheckJournalEnd(const ShardCopies& shard, uint32_t number, uint64_t entries);

// What the record says about itself: every leader is in sync, all that are in sync hold copies,
// epochs are at least 1. INTERNAL or DATA_LOSS names what does not hold.
absl::Status CheckCopies(const RunRecord& record);

}  // namespace psgd
