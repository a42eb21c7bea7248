#include "server/cluster/copies.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "server/cluster/spread.h"

namespace psgd {
namespace {

using Servers = google::protobuf::RepeatedField<uint32_t>;

bool Contains(const Servers& servers, uint32_t server) {
  return std::ranges::find(servers, server) != servers.end();
}

bool Remove(uint32_t server, Servers* servers) {
  const auto at = std::find(servers->begin(), servers->end(), server);
  if (at == servers->end()) return false;
  servers->erase(at);
  return true;
}

size_t CountPresent(const Servers& servers, const std::set<uint32_t>& present) {
  return static_cast<size_t>(
      std::ranges::count_if(servers, [&](uint32_t server) { return present.contains(server); }));
}

// The server with the fewest copies that holds none of this shard; 0: there is none.
uint32_t BestForAnother(const RunRecord& record, const ShardCopies& shard,
                        const std::set<uint32_t>& present) {
  uint32_t best = 0;
  for (const uint32_t server : present) {
    if (HoldsCopy(shard, server)) continue;
    if (best == 0 || CopiesOn(record, server) < CopiesOn(record, best)) best = server;
  }
  return best;
}

// The surplus copy to drop first; 0: there is none. Absent servers go first, then copies that are
// not in sync, then copies on the server that holds most.
uint32_t OneTooMany(const RunRecord& record, const ShardCopies& shard, const CopyTargets& targets) {
  const auto worth = [&](uint32_t server) {
    return std::tuple(targets.present.contains(server), IsInSync(shard, server),
                      -static_cast<int64_t>(CopiesOn(record, server)));
  };
  uint32_t worst = 0;
  for (const uint32_t server : shard.copies()) {
    if (server == shard.leader()) continue;
    if (worst == 0 || worth(server) < worth(worst)) worst = server;
  }
  return worst;
}

// An earlier version wrote no ids.
void PadIds(ShardCopies* shard) {
  while (shard->ids_size() < shard->copies_size()) shard->add_ids(0);
}

constexpr char kEndIsGone[] =
    ": its end is gone. Was a file of it deleted or cut off, or did the machine lose power? Go on "
    "from the last checkpoint with ps-run --resume";

}  // namespace

bool IsInSync(const ShardCopies& shard, uint32_t server) {
  return Contains(shard.in_sync(), server);
}

bool HoldsCopy(const ShardCopies& shard, uint32_t server) {
  return Contains(shard.copies(), server);
}

bool HoldsAnyCopy(const RunRecord& record, uint32_t server) {
  return std::ranges::any_of(record.shards(),
                             [&](const ShardCopies& shard) { return HoldsCopy(shard, server); });
}

std::vector<uint32_t> LeadersOf(const RunRecord& record) {
  std::vector<uint32_t> leaders;
  for (const ShardCopies& shard : record.shards()) leaders.push_back(shard.leader());
  return leaders;
}

std::vector<uint32_t> SpreadLeaders(const RunRecord& record, const std::set<uint32_t>& present,
                                    std::span<const uint64_t> bytes, uint64_t workers) {
  std::vector<uint32_t> leaders = LeadersOf(record);
  if (present.empty()) return leaders;
  std::map<uint32_t, ServerPlace> places;
  for (const RunServer& server : record.servers()) {
    if (!present.contains(server.server())) continue;
    places[server.server()] = {server.beside_worker(), server.link()};
  }
  return SpreadShards(std::move(leaders), bytes, WeighServers(places, workers));
}

std::optional<CopyChange> NextChange(const RunRecord& record, uint32_t shard,
                                     const CopyTargets& targets) {
  const ShardCopies& copies = record.shards(static_cast<int>(shard));
  const uint32_t wanted = targets.leaders[shard];
  const bool moves = wanted != copies.leader() && targets.present.contains(wanted);
  if (moves && !HoldsCopy(copies, wanted)) return CopyChange{CopyChange::kAdd, shard, wanted};
  if (moves && IsInSync(copies, wanted)) return CopyChange{CopyChange::kPromote, shard, wanted};
  if (moves) return std::nullopt;  // the new copy still catches up
  const size_t most = std::min(targets.copies, targets.present.size());
  if (CountPresent(copies.copies(), targets.present) < most) {
    const uint32_t server = BestForAnother(record, copies, targets.present);
    if (server != 0) return CopyChange{CopyChange::kAdd, shard, server};
  }
  if (static_cast<size_t>(copies.copies_size()) <= std::max<size_t>(targets.copies, 1)) {
    return std::nullopt;
  }
  const uint32_t worst = OneTooMany(record, copies, targets);
  const size_t in_sync = CountPresent(copies.in_sync(), targets.present);
  // If the worst copy is in sync, the other copies in sync must be enough.
  if (IsInSync(copies, worst) && in_sync - targets.present.count(worst) < most) {
    return std::nullopt;
  }
  return CopyChange{CopyChange::kDrop, shard, worst};
}

uint64_t IdOf(const ShardCopies& shard, uint32_t server) {
  for (int i = 0; i < std::min(shard.copies_size(), shard.ids_size()); ++i) {
    if (shard.copies(i) == server) return shard.ids(i);
  }
  return 0;
}

void Apply(const CopyChange& change, RunRecord* record) {
  ShardCopies* const shard = record->mutable_shards(static_cast<int>(change.shard));
  switch (change.what) {
    case CopyChange::kAdd:
      PadIds(shard);
      shard->add_copies(change.server);
      record->set_next_copy(std::max<uint64_t>(record->next_copy(), 1) + 1);
      shard->add_ids(record->next_copy() - 1);
      break;
    case CopyChange::kPromote:
      shard->set_epoch(shard->epoch() + 1);
      shard->set_leader(change.server);
      shard->clear_endpoint();
      shard->set_entries(0);  // the old leader may have written entries that no other copy got
      break;
    case CopyChange::kDrop:
      Remove(change.server, shard->mutable_in_sync());
      PadIds(shard);
      for (int i = shard->copies_size() - 1; i >= 0; --i) {
        if (shard->copies(i) == change.server)
          shard->mutable_ids()->erase(shard->ids().begin() + i);
      }
      Remove(change.server, shard->mutable_copies());
      break;
  }
}

bool AddInSync(uint32_t server, ShardCopies* shard) {
  if (!HoldsCopy(*shard, server) || IsInSync(*shard, server)) return false;
  shard->add_in_sync(server);
  return true;
}

bool RemoveInSync(uint32_t server, ShardCopies* shard) {
  return server != shard->leader() && Remove(server, shard->mutable_in_sync());
}

size_t CopiesOn(const RunRecord& record, uint32_t server) {
  return static_cast<size_t>(std::ranges::count_if(
      record.shards(), [&](const ShardCopies& shard) { return HoldsCopy(shard, server); }));
}

absl::Status CheckJournalEnd(const ShardCopies& shard, uint32_t number, uint64_t entries) {
  if (entries >= shard.entries()) return absl::OkStatus();
  return DataLossError("the journal of shard ", number, " ends at entry ", entries,
                       ", and the run's record says that it had entry ", shard.entries(),
                       kEndIsGone);
}

// A worker computes a step once every shard has answered its pull. The answer tells that the shard
// has the worker's pushes up to the step before; with consistency.pull_ahead, up to the one before
// that. With local.fragments a shard is pulled from only once in so many steps. At the end of its
// segment, or before it leaves, a worker pushes one more clock without weights. Between two
// segments it waits until every shard has everything.
uint64_t MostClocksAhead(const Config& config) {
  constexpr uint64_t kStep = 1, kAhead = 1, kWithoutWeights = 1;
  const auto fragments = static_cast<uint64_t>(std::max(config.local().fragments(), 1));
  return kStep + kAhead + kWithoutWeights + fragments - 1;
}

absl::Status CompareJournal(const std::vector<ReadJournal>& journals, uint32_t shard,
                            uint64_t most_ahead) {
  // By worker: its newest incarnation that pushed, that one's most clocks, and a shard that has
  // them.
  struct Furthest {
    uint32_t incarnation = 0;
    uint64_t clock = 0;
    uint32_t shard = 0;
  };
  std::map<uint32_t, Furthest> furthest;
  for (const ReadJournal& journal : journals) {
    for (const MemberClock& member : *journal.clocks) {
      if (!member.pushed()) continue;
      Furthest& most = furthest[member.key().worker()];
      const uint32_t incarnation = member.key().incarnation();
      if (std::tuple(incarnation, member.clock()) > std::tuple(most.incarnation, most.clock))
        most = {incarnation, member.clock(), journal.shard};
    }
  }
  for (const ReadJournal& journal : journals) {
    if (journal.shard != shard || journal.clocks->empty()) continue;
    for (const auto& [worker, most] : furthest) {
      MemberClock here;
      for (const MemberClock& member : *journal.clocks) {
        if (member.key().worker() == worker) here = member;
      }
      // Every shard knows an incarnation before that one pushes.
      if (here.key().incarnation() > most.incarnation) continue;
      if (here.key().incarnation() < most.incarnation) here.clear_clock();
      if (here.key().incarnation() == most.incarnation && here.clock() + most_ahead >= most.clock)
        continue;
      return DataLossError("the journal of shard ", shard, " has the pushes of worker ", worker,
                           " up to clock ", here.clock(), ", and that of shard ", most.shard,
                           " up to clock ", most.clock, kEndIsGone);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCopies(const RunRecord& record) {
  for (int s = 0; s < record.shards_size(); ++s) {
    const ShardCopies& shard = record.shards(s);
    const auto wrong = [&](const char* what) {
      return DataLossError("the run's record is damaged: shard ", s, " ", what);
    };
    if (shard.epoch() == 0) return wrong("has no epoch");
    if (!IsInSync(shard, shard.leader())) return wrong("is led by a copy that is not in sync");
    for (const uint32_t server : shard.in_sync()) {
      if (!HoldsCopy(shard, server)) return wrong("has a server in sync that holds no copy");
      if (server == 0 || server >= record.next_server())
        return wrong("is on a server without number");
    }
  }
  return absl::OkStatus();
}

}  // namespace psgd
