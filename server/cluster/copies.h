// Which servers hold the copies of each shard, and which change is due next. Pure functions of the
// run's record.
//
// A shard moves in small changes: a copy is added, catches up and becomes in sync, is promoted, and
// the old copy is dropped. The same changes replace a server that dies.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/run.pb.h"
#include "server/shard/member_clocks.h"

namespace psgd {

struct CopyChange {
  enum What { kAdd, kPromote, kDrop };
  What what = kAdd;
  uint32_t shard = 0;
  uint32_t server = 0;

  bool operator==(const CopyChange&) const = default;
};

// The placement that the changes lead to.
struct CopyTargets {
  std::set<uint32_t> present;     // servers that may hold copies: connected, and not about to leave
  std::vector<uint32_t> leaders;  // by shard: the server that must lead it
  size_t copies = 1;              // of each shard; fewer if there are fewer servers
};

bool IsInSync(const ShardCopies& shard, uint32_t server);
bool HoldsCopy(const ShardCopies& shard, uint32_t server);
// ShardCopies.ids of the server's copy; 0: it has none.
uint64_t IdOf(const ShardCopies& shard, uint32_t server);

bool HoldsAnyCopy(const RunRecord& record, uint32_t server);
// By shard: the server that leads it.
std::vector<uint32_t> LeadersOf(const RunRecord& record);
// The leaders spread over `present` by the bytes of the shards and the links of the servers
// (server/cluster/spread.h), with few moves. `workers`: of the run.
std::vector<uint32_t> SpreadLeaders(const RunRecord& record, const std::set<uint32_t>& present,
                                    std::span<const uint64_t> bytes, uint64_t workers);

// The next change of this shard; nullopt: the shard matches the targets. No change reduces the
// number of in-sync copies, except the drop of a surplus copy.
std::optional<CopyChange> NextChange(const RunRecord& record, uint32_t shard,
                                     const CopyTargets& targets);

// REQUIRES: NextChange may return this change. A promotion begins a new epoch. The copies that were
// in sync stay in sync: the new leader waits for them until they have what the leader has.
void Apply(const CopyChange& change, RunRecord* record);

// Marks the server's copy as in sync: it has everything that was acknowledged. Returns false if the
// copy was in sync already, or the server holds none.
bool AddInSync(uint32_t server, ShardCopies* shard);
// Marks the server's copy as not in sync: nobody waits for it any more. Returns false if the copy
// was not in sync, or leads the shard.
bool RemoveInSync(uint32_t server, ShardCopies* shard);

// How many copies the server holds.
size_t CopiesOn(const RunRecord& record, uint32_t server);

// DATA_LOSS: the journal of the shard's leading copy has only `entries` entries, but had more.
absl::Status CheckJournalEnd(const ShardCopies& shard, uint32_t number, uint64_t entries);

// A shard's journal, as it was read from a disk.
struct ReadJournal {
  uint32_t shard = 0;
  const MemberClocks* clocks = nullptr;
};
// How many clocks of a worker a shard may have that another shard lacks.
uint64_t MostClocksAhead(const Config& config);
// DATA_LOSS: the shard's journal lacks more of a worker's clocks than that, compared with another.
absl::Status CompareJournal(const std::vector<ReadJournal>& journals, uint32_t shard,
                            uint64_t most_ahead);

// Checks the record: every leader is in sync, every server in sync holds a copy, epochs are at
// least 1. DATA_LOSS names what does not hold.
absl::Status CheckCopies(const RunRecord& record);

}  // namespace psgd
