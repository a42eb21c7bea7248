// A worker's side of the data plane: pulls weights, pushes updates, each exactly once. A state
// machine without IO, threads or wall clock: messages and time in, messages out. session.h drives
// it over a transport, tests/sim with a seeded scheduler.
//
// The bytes of a push are kept until the shard acknowledges its sequence number, and are sent again
// if it does not. The shard drops a push that it has seen. The bytes on their way to a shard are
// few more than keep the link busy, and at most cluster.window. The rest waits here, front layers
// first.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/metrics.h"
#include "common/status.h"
#include "net/message.h"
#include "net/transport.h"
#include "proto/config.pb.h"
#include "proto/control.pb.h"
#include "worker/encoded_slice.h"
#include "worker/pulled_slices.h"
#include "worker/send_window.h"
#include "worker/waited.h"

namespace psgd {

struct SessionOptions {
  WorkerKey key;
  Duration resend = Milliseconds(2000);
  Duration deadline = Milliseconds(60000);
  size_t window_bytes = 64u << 20;
  size_t fuse_bytes = 64u << 10;
  uint32_t fragments = 1;        // a pull carries one part of the slices, in turn: fragments.h
  bool evaluates_aside = false;  // evaluations leave the weights of training as they are
  // Called for each push that a shard acknowledged. `sent`: when the push first left. May be null.
  std::function<void(const Message& push, Time sent)> on_acknowledged;
};

// The options that the run's config asks for.
SessionOptions SessionOptionsOf(const Config& config, const WorkerKey& key);

struct SessionStats {
  uint64_t resent = 0;
  uint64_t reordered_replies = 0;           // of a request that is no longer waited for
  std::map<std::string, uint64_t> refused;  // pushes, by reason
  std::string last_refusal;
  CountHistogram pull_staleness;  // clocks this worker led the slowest by
  CountHistogram push_latency;    // common/latency.h: until acknowledged, from when it first left
  CountHistogram pull_latency;    // until a shard's weights were here, likewise
};

// Not thread-safe.
class SessionCore {
 public:
  struct Outgoing {
    PeerId to = 0;           // a shard is the peer of its index
    const Message* message;  // valid until the next call
  };

  SessionCore(const SessionOptions& options, const Placement& placement, Time now);

  // Asks every shard for the weights that a worker needs after `clock` steps. Without `all` only
  // the slices that the exchange of `clock` carries are asked for, except in the first pull.
  // REQUIRES: no pull is under way.
  void Pull(uint64_t clock, Time now, bool all = true) {
    AskShards(clock, now, all, /*aside=*/false);
  }
  // The same for an evaluation: of all slices.
  void PullForEvaluation(uint64_t clock, Time now) {
    AskShards(clock, now, /*all=*/true, options_.evaluates_aside);
  }
  // The weights of the latest pull are only for an evaluation. After it the worker trains on with
  // the weights that it has.
  bool pulls_aside() const { return pulled_.aside(); }
  const Fragments& fragments() const { return pulled_.fragments(); }
  // Whether the latest pull asked for the slice.
  bool Asked(uint32_t slice) const { return pulled_.Asked(slice); }
  bool pulling() const { return AnyOf(&Shard::pull); }
  // The times of the last finished pull.
  const PullAnswer& last_answer() const { return last_answer_; }
  // Takes the slices of the last finished pull, by slice id; those that it did not ask for are
  // empty. Pushes from now on are computed from these weights, and the next Pull asks for what
  // changed since. REQUIRES: no pull is under way; all slices are installed, in the order in which
  // they were taken.
  std::vector<PulledSlice> TakePulled() { return pulled_.TakeAll(); }
  // Takes a slice of the latest pull that has come and was not taken yet; nullopt: there is none.
  // TakePulled returns it once more, without its payload.
  std::optional<std::pair<uint32_t, PulledSlice>> TakeSlice() { return pulled_.TakeNext(); }
  // The slices that TakePulled will return. Until then, pushes count as computed from the slices
  // that TakePulled returned last.
  const std::vector<PulledSlice>& pulled() const { return pulled_.slices(); }

  // Adds one slice's update of the step that leads to `clock`. Small updates wait until there are
  // enough of them for a message, or until the step ends.
  void Push(uint64_t clock, EncodedSlice update, Time now);
  // No more updates of this step follow: tells every shard.
  void EndClock(uint64_t clock, Time now);
  // Sends this worker's residuals and the parts of its program's state, for a checkpoint. 0: for
  // the next checkpoint after this worker has left. Slices that are not named have no residual.
  void SaveState(uint64_t checkpoint, const std::vector<std::pair<uint32_t, Bytes>>& states,
                 Time now);
  // Asks for the residuals and the program's state in the resumed checkpoint.
  void LoadState(Time now);
  bool loading() const { return AnyOf(&Shard::load); }
  // By slice id, and by the part ids of common/program_state.h.
  std::map<uint32_t, Bytes> TakeLoadedState() { return std::move(loaded_); }

  // Sends each shard its share of meaningless bytes, to measure how long they take. They do not
  // count as a push. REQUIRES: no probe is under way.
  void Probe(const Bytes& payload, Time now);
  bool probing() const { return AnyOf(&Shard::probe); }

  // Every push and saved state is acknowledged.
  bool AllAcknowledged() const;
  // When the last of them was acknowledged; Time{} before the first acknowledgement.
  Time acknowledged_at() const { return acknowledged_at_; }
  // The slices whose update of that step has not been acknowledged.
  std::vector<uint32_t> SlicesInDoubt(uint64_t clock) const;
  // The last step up to which all pushes are acknowledged; 0: there is none.
  uint64_t AcknowledgedClock() const;

  // Other processes hold the shards from now on. They have everything that was acknowledged. Pushes
  // that were not acknowledged, and requests that were not answered, are sent to them again.
  void ShardsMoved(const std::vector<std::string>& endpoints, Time now);

  void OnMessage(PeerId from, const Message& message, Time now);
  // Resends what is overdue. DEADLINE_EXCEEDED when a shard that owes something has been silent for
  // too long, FAILED_PRECONDITION when a shard says that this worker is out.
  absl::Status Tick(Time now);
  // When Tick next has something to do.
  Time NextTick() const;

  // The next message to send; Sent, Retry or CannotSend must follow. Empty: nothing to send now.
  std::optional<Outgoing> Next();
  // Something is to be sent, perhaps once there is room.
  bool WaitsForRoom() const;
  void Sent(Time now);
  // The transport could not take the message. Next returns it again after `now + pause`.
  void Retry(Time now, Duration pause);
  // The transport will never take the message. Tick returns this error.
  void CannotSend(const absl::Status& why);

  const SessionStats& stats() const { return stats_; }

 private:
  struct Unacknowledged {
    uint64_t seq = 0;
    Message message;
    size_t bytes = 0;
    bool sent = false;
    SendWindow::Mark mark = {};
    Time first_sent{};  // Time{}: never
  };
  struct Shard {
    uint64_t next_seq = 1;  // of the next message made
    uint64_t acknowledged_clock = 0;
    std::deque<Unacknowledged> pushes;  // oldest first
    size_t flying_bytes = 0;            // sent and not acknowledged
    SendWindow window;
    std::map<uint32_t, EncodedSlice> parts;  // of this step, by first slice: front layers first
    size_t part_bytes = 0;                   // of their payloads, unpacked
    uint64_t parts_clock = 0;                // of this step
    std::deque<Message> requests;            // pulls, loads and probes to send
    std::optional<Message> pull;             // the one under way, for repeating
    Time pull_sent{};                        // first
    PullAnswer answer;                       // to it, as far as the shard has said
    std::optional<Message> load;
    std::optional<Message> probe;
    size_t loaded = 0;       // slices of the load under way that have come
    uint32_t life = 0;       // the latest that an answer named: see PullReply
    uint64_t gap = 0;        // the lost push that the last resend was for
    Time last_gap{};         // when that was
    uint64_t doubt = 0;      // names the question whether it lost what it acknowledged
    uint64_t doubt_seq = 0;  // every push below this was acknowledged when it was asked
    Time doubted_at{};
    Time last_sent{};
    Time last_heard{};
    Time owed_since{};  // since when the shard owes an answer
    Time paused_until{};
  };

  // The message that Next gave out.
  struct Offered {
    uint32_t shard = 0;
    bool is_request = false;  // otherwise a push
  };

  void SetTime(Time now);
  // Whether an answer is from a leader that was replaced, perhaps without knowing it. What it lacks
  // is not lost. `life`: of the answer; 0: it names none.
  static bool IsReplaced(uint32_t life, Shard* shard);
  // The pull under way, for what has not come.
  Message PullAgain(uint32_t shard) const;
  void AddParts(const EncodedSlice& update, psgd::Push* push) const;
  // Makes a push of the front parts that share a message. `ends_clock`: if no part is left after
  // that, the push ends the clock.
  void MakePush(uint32_t shard, bool ends_clock);
  // Whether there are enough parts for a message before the step ends.
  bool HasFullMessage(const Shard& shard) const;
  bool HasRoom(const Shard& shard, size_t bytes) const;
  void Enqueue(uint32_t shard, Message message, uint64_t seq);
  void OnAck(Shard& shard, uint64_t next_seq);
  void OnPullReply(PeerId from, Shard& shard, const Message& message);
  void OnRefusal(PeerId from, Shard& shard, const Refusal& refusal, Time now);
  void ResendAll(Shard& shard);
  // The shard expects a push that it acknowledged. Either it lost the push, or its message is old.
  // Asks the shard which of the two is true.
  void Doubt(PeerId from, Shard& shard, uint64_t next_seq, Time now);
  absl::Status Lost(PeerId from, const std::string& how) const;
  // The shard shows an earlier version of a slice than before, so pushes of this worker or of
  // others are lost.
  void WentBack(PeerId from, const PullPart& part);
  void OnWelcome(PeerId from, Shard& shard, const Welcome& welcome);
  bool Owes(const Shard& shard) const;
  // Whether the request is under way at a shard.
  bool AnyOf(std::optional<Message> Shard::*request) const;
  Message MakeMessage(uint32_t shard) const;
  // Sends the request, whose answer the shard owes from now on.
  void Ask(Shard& shard, Message request);
  void AskShards(uint64_t clock, Time now, bool all, bool aside);

  const SessionOptions options_;
  Placement placement_;
  std::vector<Shard> shards_;
  PulledSlices pulled_;
  PullAnswer last_answer_;
  std::map<uint32_t, Bytes> loaded_;
  uint64_t next_request_ = 1;
  uint64_t ended_clock_ = 0;
  std::optional<Offered> offered_;
  uint32_t turn_ = 0;  // of the shard that Next asks first
  absl::Status fatal_;
  SessionStats stats_;
  Time now_{};
  Time acknowledged_at_{};
  Time last_tick_{};
  Time listening_since_{};  // since then Tick was called without a long break
};

}  // namespace psgd
