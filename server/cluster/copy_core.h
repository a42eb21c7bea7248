// One server's copy of a shard. One copy leads: it serves workers, and acknowledges a step once
// every copy in sync has written it down. The others follow its journal. A state machine without
// IO, threads or clock, but for the journal that its shard writes to; the shard's thread drives it
// in production, the simulator with a seeded scheduler.
//
// A copy that begins to follow says what it has. If that is a beginning of what the leading copy
// has, it gets the steps that it lacks; else it begins anew with an image. It is a beginning if the
// copy followed the leader under this epoch, or if it was at the same leader's journal before and
// has no more steps than the leader had when its epoch began.
//
// A copy becomes in sync in this order, which holds whatever dies in between:
//   1. The leading copy waits for it before it acknowledges.
//   2. It has all steps from before that. The leading copy reports it as caught up.
//   3. The server that leads the run writes down that it is in sync.
// It ceases to be in sync in this order:
//   1. The leading copy reports it as silent, or as caught up no more.
//   2. The server that leads the run writes down that it is not in sync.
//   3. The leading copy hears that, and waits for it no more.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "server/cluster/kept_steps.h"
#include "server/durability/durable_shard.h"

namespace psgd {

// What copies of a shard tell each other. `epoch`: under which the sender leads or follows.
struct CopyMessage {
  // To the leading copy: this one has these steps.
  struct Has {
    uint64_t log_epoch = 0;  // the leadership that its journal is of; 0: nobody knows
    uint64_t entries = 0;
  };
  // The receiver begins anew.
  struct Image {
    std::shared_ptr<const ShardImage> image;
  };
  // The next steps; none: a sign of life.
  struct Steps {
    JournalEntries steps;
    uint64_t checkpoint_done = 0;  // by then
  };
  // To the leading copy: steps up to this one are written down here.
  struct Written {
    uint64_t entries = 0;
  };

  uint32_t shard = 0;
  uint64_t epoch = 0;
  std::variant<Has, Image, Steps, Written> what;
};

struct CopyOptions {
  uint32_t shard = 0;
  Duration silence{};  // after which a copy in sync is reported as silent
  size_t window =
      16u << 20;  // bytes that another copy is sent before it says that it has written them
  size_t kept = 64u << 20;  // bytes of steps that are kept for copies that lack them
  // An empty place for a shard that is made from another's image; what was there goes.
  std::function<absl::StatusOr<DurableShardOptions>()> empty_place;
};

// What the server is told of its copy; `report` grows with each change of who is caught up or
// silent.
struct CopyReport {
  uint64_t epoch = 0;  // 0: it was read from the disk, and neither leads nor follows yet
  bool leads = false;
  bool empty = false;  // nothing has come from the leading copy yet, or not all of it
  uint64_t entries = 0;
  uint64_t written_order = 0;
  std::set<uint32_t> caught_up;
  std::set<uint32_t> silent;
  uint64_t report = 0;
  std::set<uint32_t> waits_for;  // servers that lack what is to be acknowledged next
  std::string trouble;
};

// Not thread-safe: belongs to the shard's thread.
class CopyCore {
 public:
  struct Send {
    uint32_t server = 0;
    CopyMessage message;
  };
  // What became of an order: it is with every copy in sync, or failed.
  struct OrderDone {
    uint64_t number = 0;
    absl::Status status;
  };
  struct Effects {
    Outbox workers;  // may leave now
    std::vector<Send> copies;
    std::vector<OrderDone> orders;
  };

  // `shard`: as its disk has it, or fresh; null: there is nothing yet.
  CopyCore(CopyOptions options, std::unique_ptr<DurableShard> shard);

  // Leads from now on, or goes on to: under this epoch, with these other servers in sync. `heard`:
  // the CopyReport.report that this takes into account. REQUIRES: there is a shard.
  void Lead(uint64_t epoch, const std::set<uint32_t>& in_sync, uint64_t heard, Time now);
  // Follows that server's copy from now on.
  void Follow(uint64_t epoch, uint32_t leader, Time now);

  // From workers; nothing happens where this copy does not lead.
  void OnMessage(PeerId from, Message message);
  // The coordinator's; Effects.orders tells what became of it. UNAVAILABLE: this copy does not
  // lead.
  void Execute(const ShardCommand& command, uint64_t number);
  void OnCopy(uint32_t from, CopyMessage message, Time now);
  // A part of a message from the leading copy has come: more of it is on its way.
  void OnPart(Time now) { heard_ = now; }
  // The leading copy is reached anew: messages of either side may be lost.
  void OnReached(Time now) { heard_ = asked_ = now - options_.silence; }
  // Writes down the steps since the last call, sends them to other copies, and lets go what
  // everybody has who is waited for.
  void Commit(Time now, Effects* effects);
  // To be called at least ten times in `silence`; Commit after it.
  void Tick(Time now);

  // Of copies that follow, too: whose images need to know.
  void CheckpointDone(uint64_t checkpoint);

  CopyReport Report() const;
  bool leads() const { return role_ == Role::kLeads; }
  uint64_t epoch() const { return epoch_; }
  // Null: it has none yet.
  DurableShard* shard() { return shard_.get(); }
  const DurableShard* shard() const { return shard_.get(); }

 private:
  enum class Role { kNone, kLeads, kFollows };
  // Another server's copy, as the leading one sees it.
  struct Other {
    bool streams = false;  // it was told where to begin, and gets every step
    uint64_t sent = 0;     // steps up to this one
    uint64_t written = 0;
    std::optional<CopyMessage::Has> asked;  // it waits to be told where to begin
    std::optional<uint64_t>
        waited_from;  // steps up to this one it may have to fetch before it is caught up
    Time heard{};     // that it wrote something, or had everything
    Time told{};
  };
  // Answers, and how many steps have to be with everybody before they may leave.
  struct Held {
    uint64_t entries = 0;
    Outbox out;
    std::vector<OrderDone> orders;
  };

  void OnHas(uint32_t from, const CopyMessage::Has& has, Time now);
  void OnImage(const ShardImage& image, Time now);
  void OnSteps(CopyMessage::Steps steps, Time now);
  void OnWritten(uint32_t from, uint64_t entries, Time now);
  bool IsBeginning(const CopyMessage::Has& has) const;
  void Begin(uint32_t server, Other* other, Effects* effects);
  void Reply(const CopyMessage::Written& written) {
    replies_.push_back({leader_, {options_.shard, epoch_, written}});
  }
  bool WaitsFor(uint32_t server) const {
    return in_sync_.contains(server) || waited_.contains(server);
  }
  // Steps that are with everybody who is waited for.
  uint64_t Committed() const;
  void CatchUp(uint32_t server, Other* other);
  void FallBack(uint32_t server);
  void ForgetKept();
  void LeaveLaggardsBehind();
  void SendSteps(Time now, Effects* effects);
  void LetGo(Effects* effects);
  void SetTrouble(const absl::Status& status) { trouble_ = std::string(status.message()); }

  const CopyOptions options_;
  std::unique_ptr<DurableShard> shard_;
  Role role_ = Role::kNone;
  uint64_t epoch_ = 0;
  uint64_t log_epoch_ = 0;  // the leadership that the journal is of; 0: of an earlier life
  uint64_t checkpoint_done_ = 0;
  std::string trouble_;
  KeptSteps kept_;

  // Of a copy that follows.
  uint32_t leader_ = 0;
  Time heard_{};  // of the leading copy
  Time asked_{};
  std::vector<Send> replies_;  // until Commit

  // Of one that leads.
  uint64_t earlier_epoch_ = 0;  // the leadership that its journal was of before
  uint64_t began_at_ = 0;       // the steps that it had when its epoch began
  std::set<uint32_t> in_sync_;  // other servers
  std::set<uint32_t> waited_;   // that are not, or not known to be, in sync
  std::set<uint32_t> caught_up_;
  std::set<uint32_t> silent_;
  uint64_t report_ = 0;
  std::map<uint32_t, uint64_t>
      let_go_at_;  // by server: the report by which it was caught up no more
  std::map<uint32_t, Other> others_;
  uint64_t written_order_ = 0;     // orders up to this one are with every copy in sync
  std::vector<OrderDone> orders_;  // until Commit
  std::deque<Held> held_;
};

}  // namespace psgd
