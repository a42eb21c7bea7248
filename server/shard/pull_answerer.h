// Answers workers' pulls: keeps those that must wait for slower workers, and remembers what each
// worker was sent.
//
// A pull waits while its worker is too far ahead of the slowest worker (consistency.staleness), or
// while the weights lack its own updates. A worker has at most one pull waiting: its newest. An
// answer that is too large for one message comes in several, front layers first. At staleness 0 the
// slices that have the awaited clock leave before the others have it.
//
// A pull aside (data.proto) is answered whole and exact, whatever compression.pull is, with the
// moving average of the weights where the run keeps one. Its parts repeat the worker's marks: the
// worker keeps the weights that it has, and trains on from them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "net/message.h"
#include "net/transport.h"
#include "proto/config.pb.h"
#include "proto/journal.pb.h"
#include "server/shard/outbox.h"
#include "server/shard/slice_set.h"
#include "server/shard/snapshot.h"
#include "server/shard/weights_encoder.h"

namespace psgd {

// The clocks of the workers. Functions, because thousands of workers have to be looked at.
struct PullClocks {
  std::function<uint64_t()> slowest;
  std::function<uint64_t(uint32_t worker)> of;
  // Whether a slice (local index) has the clock after `slowest` already; only at staleness 0.
  std::function<bool(uint32_t local)> ahead;
};

struct PullOptions {
  uint32_t shard = 0;
  // Slices of a reply share a message up to this. A larger limit delays a small network's front
  // layers. A large slice gets its own message, because UCX copies several pieces into one. If
  // 1/1024 of the shard's weights is more, that is the limit: a queue holds a limited number of
  // messages.
  size_t reply_bytes = 256u << 10;
  uint32_t starts = 1;  // see WeightsEncoder
};

struct AnsweredPull {
  uint64_t staleness = 0;  // clocks that the worker led the slowest by
  // What Show must be told when the answer's step is replayed; nullopt: nothing is remembered.
  std::optional<WeightsShown> shown;
};

// Not thread-safe: belongs to the shard's thread.
class PullAnswerer {
 public:
  // `slices` must outlive it.
  PullAnswerer(const Config& config, const PullOptions& options, SliceSet* slices,
               PullClocks clocks);

  // A life of the shard: from when a copy begins to answer until that copy ends.
  void BeginLife(uint32_t starts);
  void EndLife() { life_versions_.clear(); }
  uint32_t life() const { return encoder_.life(); }
  // Whether the worker knows a later life of the shard: another copy leads it by now.
  bool KnowsALaterLife(const Push& push) const;
  // Says which part of the push is computed from weights that an earlier life of the shard had and
  // the journal of this life lacks. Empty: there is no such part.
  std::string LostBase(const Push& push) const;

  // A worker that has no weights yet may pull from now on. A new model makes workers new, too.
  void Meet(uint32_t worker);
  // Drops the worker's waiting pull, and what it was sent.
  void Forget(uint32_t worker);

  // Answers a pull now, or keeps it. An error: the message is malformed. REQUIRES: the worker was
  // met.
  absl::StatusOr<std::optional<AnsweredPull>> Take(PeerId from, const DataHeader& header,
                                                   Outbox* out);
  // Called after clocks moved: answers the waiting pulls that need not wait any more.
  std::vector<AnsweredPull> AnswerWaiting(Outbox* out);
  // Called when these slices (local indices) have the clock after the slowest: sends them to the
  // workers that wait for it.
  void SendAhead(std::vector<uint32_t> slices, Outbox* out);
  size_t waiting() const { return waiting_.size(); }

  // Remembers that a worker was sent these slices (local indices) as they are now. False: it
  // cannot be true, as the worker or a slice is unknown.
  bool Show(const WeightsShown& shown);
  // By local index; empty: the worker is unknown.
  std::span<const ShownWeights> ShownTo(uint32_t worker) const;
  void SaveShown(uint32_t worker, MemberRecord* record, ShardSnapshot* arrays) const;
  // REQUIRES: the worker was met, and the record has as many versions as there are slices, or none.
  void RestoreShown(const MemberRecord& record, const ShardSnapshot& arrays);

 private:
  struct Worker {
    std::vector<ShownWeights> shown;  // by local index, for delay compensation
    std::vector<SentWeights> sent;    // by local index, for lossy differences
  };
  struct WaitingPull {
    PeerId from;
    WorkerKey key;
    uint64_t request;
    uint64_t clock;
    uint64_t own_clock;
    bool aside;  // for an evaluation: whole and exact; the moving average if the run has one
    // Local indices of the slices that were not sent yet, ascending, and the worker's marks.
    std::vector<std::pair<uint32_t, uint64_t>> slices;
  };

  absl::StatusOr<WaitingPull> Read(PeerId from, const DataHeader& header) const;
  bool Allowed(const WaitingPull& pull, uint64_t slowest) const;
  AnsweredPull Answer(const WaitingPull& pull, uint64_t slowest, Outbox* out);
  // Sends the slices of the pull; `later`: how many others will follow.
  void Send(const WaitingPull& pull, size_t later, uint64_t slowest, Outbox* out);
  // Sends the slices for which `ready` is true, and takes them off the pull.
  void SendReady(const std::function<bool(uint32_t local)>& ready, WaitingPull* pull, Outbox* out);
  // Fills in the part of a slice, and returns its payload.
  Bytes EncodeSlice(const WaitingPull& pull, size_t i, PullPart* part);
  size_t WholeTensor(const WaitingPull& pull, size_t i) const;

  const PullOptions options_;
  const bool unbounded_;
  const uint64_t bound_;  // clocks that a worker may be ahead, unless unbounded_
  const bool remembers_shown_;
  const PullClocks clocks_;
  SliceSet& slices_;
  WeightsEncoder encoder_;

  std::vector<uint64_t> life_versions_;  // by local index: as this life found them; or empty
  std::map<uint32_t, Worker> workers_;
  std::deque<WaitingPull> waiting_;
};

}  // namespace psgd
