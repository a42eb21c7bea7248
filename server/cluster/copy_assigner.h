// Decides which servers hold the copies of each shard, and which copy leads. It knows the servers
// by what they report: who is here, who is silent, and which copies they have. It replaces copies
// after a loss, moves shards, and tells each server its part. A state machine without IO, threads
// or clock.
//
// Its decisions change the run's record at once. It announces only the record that its owner gives
// to Assign, because decisions must be stored before a server hears of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/standstill.h"
#include "common/status.h"
#include "server/cluster/copies.h"
#include "server/cluster/server_effects.h"

namespace psgd {

struct CopyAssignerOptions {
  size_t copies = 1;    // of each shard
  Duration patience{};  // how long a server may be silent before others lead its shards
  // Copies that are in memory alone are lost once their server is silent for so long. nullopt:
  // servers keep journals.
  std::optional<Duration> lost_after;
  // The server that this one replaced as the run's leader, after it had been silent for
  // `patience`; 0: nobody, or it may only not have connected yet.
  uint32_t replaced = 0;
  uint64_t most_ahead = 0;  // MostClocksAhead
  uint32_t workers = 1;     // of the run
};

// Not thread-safe.
class CopyAssigner {
 public:
  // What people are told.
  using News = std::vector<std::string>;
  // What a record takes into account.
  struct Mark {
    uint64_t changes = 0;  // changes() at that time
    // By shard: the CopyState.report of the leading copy. A leading copy that hears of a report
    // waits for fewer copies. So it hears of the report only after the resulting record is stored.
    std::vector<uint64_t> heard;
  };

  // Continues from this record. REQUIRES: CheckCopies accepts it.
  CopyAssigner(CopyAssignerOptions options, RunRecord record, Time now);

  // A server reports its state on that link. FAILED_PRECONDITION: it cannot join the run.
  absl::Status OnState(uint64_t link, const ServerState& state, Time now, News* news);
  // The link broke. A server that lives connects again soon.
  void OnLinkGone(uint64_t link, Time now);
  // Finds silent servers. Call this at least ten times per `patience`.
  void Tick(Time now);

  // Shards are spread by their weights' bytes, of which this placement tells.
  void SetPlacement(const Placement& placement);
  // The shards have weights: from now on, their copies are replaced and moved.
  void BeginTraining();
  // No server joins any more, and no copy moves.
  void EndRun();
  // Hears what the shard's leading copy reports, promotes another copy if the leading one is gone,
  // and drops copies on servers that are gone. DATA_LOSS: the weights of the shard are lost.
  absl::Status Settle(uint32_t shard, Time now, News* news);
  // Makes the changes that are due next, so that there are enough copies and the right ones lead.
  void Balance(News* news);
  // Shards move to these servers, or are spread.
  absl::StatusOr<RebalanceReply> Rebalance(const RebalanceRequest& request);

  // The run's record as it is decided, without the coordinator's part.
  const RunRecord& record() const { return record_; }
  uint64_t changes() const { return changes_; }  // number of the last change of the record
  Mark MarkNow() const { return {changes_, heard_}; }

  // Tells the servers what this record asks of them, unless they know. `mark`: what the record
  // takes into account. `common`: the fields that are the same for all servers.
  void Assign(const RunRecord& stored, const Mark& mark, const Assignment& common,
              ServerEffects* effects);

  bool IsHere(uint32_t server) const { return LinkTo(server) != 0; }
  uint64_t LinkTo(uint32_t server) const;  // 0: the server is away
  // Links to the other servers that are here.
  std::vector<uint64_t> links() const;
  // The servers that may hold copies: they are here and do not leave.
  std::set<uint32_t> Present() const;
  // The server's copy; null: the server is away, or has no data of the shard.
  const CopyState* Find(uint32_t server, uint32_t shard) const;
  // As Find, also of a copy that has no data.
  const CopyState* FindReport(uint32_t server, uint32_t shard) const;
  // Whether the copy is live: it leads or follows in this process of its server, or it was read
  // from a disk and chosen to lead. Otherwise its role is not decided yet.
  bool IsLive(uint32_t server, uint32_t shard) const;
  // The server that the shard is to move to; 0: it stays, or that server cannot take it.
  uint32_t MovesTo(uint32_t shard) const;
  // Why the shard's copy that was read from a disk here may not lead: it lacks the end of its
  // journal. Empty: there is no such trouble.
  const std::string& LacksItsEnd(uint32_t shard) const { return lacks_end_[shard]; }
  // The copy that must lead the shard, if it reports that it does; null: it does not.
  const CopyState* FindLeading(const ShardCopies& copies, uint32_t shard) const;
  // Adds the servers and shards of this record, as they were heard of.
  void AddStatus(const RunRecord& stored, Time now, StatusReply* status) const;

 private:
  struct Peer {
    uint64_t link = 0;  // 0: the server is away
    Time heard{};
    // When its last link broke; nullopt: it did not, or in a standstill of this server.
    std::optional<Time> broke;
    uint64_t came = 0;  // number of the change that recorded its arrival
    ServerState state;
    // By shard: the place of its copy in `state`, counted from 1; 0: it has none. This saves a
    // search for each shard.
    std::vector<int> places;
    // By shard: the epoch from which a copy that this server read from its disk may lead.
    std::map<uint32_t, uint64_t> may_lead_from;
    std::string assigned;  // the last Assignment sent on this link
  };

  absl::StatusOr<Peer*> Welcome(uint64_t link, const ServerState& state, News* news);
  void Away(uint32_t server, Peer* peer);
  void LookAtClock(Time now);
  // Marks the servers that are gone and hold no copy, and keeps only the last few of these. So the
  // record does not grow in a run whose machines come and go.
  void NoteGone(Time now);
  bool IsGone(uint32_t server, Time now) const;
  // Whether the server's link broke, and it did not connect again as fast as a server that lives.
  // Then live copies may lead in place of its own. All that cannot be taken back waits until it is
  // gone.
  bool StaysAway(uint32_t server, Time now) const;
  // Whether the server's copies are lost.
  bool IsLost(uint32_t server, Time now) const;
  // Whether the copy leads or follows already. Otherwise it was just read from a disk.
  bool HasBegun(uint32_t server, uint32_t shard) const;
  bool MayLead(uint32_t server, uint32_t shard, uint64_t epoch) const;

  void HearReports(uint32_t shard, News* news);
  // The leading copies on that server never hear that their requests to go on without silent copies
  // were granted. Those copies have all that was acknowledged, so they are in sync again.
  void TakeBackGrants(uint32_t server);
  absl::Status SettleLeader(uint32_t shard, Time now, News* news);
  // Whether the server has copies on its disk that it did not read yet.
  bool ReadsMore(uint32_t server) const;
  // Among the servers in sync, the one that read the most entries of the shard from its disk; 0:
  // none has read its copy.
  uint32_t LongestFromDisk(uint32_t shard) const;
  // Whether the copy on that server, just read from its disk, has all that was acknowledged, as far
  // as the run's record and the other journals that are to lead tell.
  absl::Status CheckEnd(uint32_t shard, uint32_t server) const;
  // A server in sync that can lead the shard although its leader has been in trouble for
  // `patience`, with a full disk for example; 0: there is none, or no such trouble.
  uint32_t InsteadOfTroubled(const ShardCopies& copies, uint32_t shard, Time now);
  void Promote(uint32_t shard, uint32_t server, News* news);
  // The shard has a new epoch, of which no report was heard yet.
  void BeginEpoch(uint32_t shard);
  void SettleFollowers(uint32_t shard, Time now);
  void AddCopies(uint32_t server, const RunRecord& stored, const Mark& mark,
                 Assignment* assignment) const;

  const CopyAssignerOptions options_;
  RunRecord record_;
  uint64_t changes_ = 0;
  std::vector<uint64_t> bytes_;                      // by shard: of its weights
  std::vector<uint64_t> heard_;                      // by shard: see Mark
  std::vector<std::optional<Time>> troubled_since_;  // by shard: its leading copy
  std::vector<std::string> lacks_end_;               // by shard: see LacksItsEnd
  // By shard: the silent copies without which it may go on, by server, with their
  // AssignedCopy.copy. The leading copy was not told yet.
  std::vector<std::map<uint32_t, uint64_t>> untold_grants_;

  std::map<uint32_t, Peer> peers_;  // by server
  Standstill standstill_;
  uint32_t replaced_;  // CopyAssignerOptions.replaced, until that server comes; 0: nobody

  std::vector<uint32_t> targets_;   // by shard: the server that must lead it
  std::set<uint32_t> spread_over_;  // the servers that `targets_` is made for
};

}  // namespace psgd
