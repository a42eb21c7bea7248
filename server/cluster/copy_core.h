// One server's copy of a shard. The leading copy serves workers, and acknowledges a step once every
// awaited copy has it. It awaits the copies in sync, those that will be in sync soon, and those
// that fell back until the run's leader knows it. The other copies follow its journal. This is a
// state machine without threads or clock, and does IO only through Journal and CopyDisk. The
// shard's thread drives it in production, a seeded scheduler in the simulator.
//
// A copy that begins to follow says which steps it has. It gets the missing steps if its own are a
// prefix of the leading copy's steps, and the leading copy keeps the missing ones. Otherwise it
// starts anew from an image. Its steps are a prefix if the copy followed the leader under this
// epoch, or if both had the same leader before and the copy has no more steps than the leader had
// when its epoch began.
//
// A copy becomes in sync in this order, which stays correct whatever dies in between:
//   1. The leading copy waits for the copy before it acknowledges.
//   2. The copy has all earlier steps. The leading copy reports it as caught up.
//   3. The server that leads the run stores that the copy is in sync.
// A copy ceases to be in sync in this order:
//   1. The leading copy reports the copy as silent, or as no longer caught up.
//   2. The server that leads the run stores that the copy is not in sync.
//   3. The leading copy hears that, and no longer waits for the copy.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/standstill.h"
#include "common/status.h"
#include "proto/run.pb.h"
#include "server/cluster/copy_message.h"
#include "server/cluster/copy_place.h"
#include "server/cluster/followed_copy.h"
#include "server/cluster/held_answers.h"
#include "server/cluster/other_copies.h"
#include "server/durability/durable_shard.h"

namespace psgd {

// Not thread-safe: belongs to the shard's thread.
class CopyCore {
 public:
  using OrderDone = HeldAnswers::OrderDone;
  struct Effects {
    Outbox workers;  // messages that may leave now
    std::vector<CopySend> copies;
    std::vector<OrderDone> orders;
  };

  // `shard`: read from disk, or fresh; null: this server has no data of the shard yet.
  CopyCore(CopyOptions options, std::unique_ptr<DurableShard> shard);

  // Makes the copy lead or follow, as `assigned` says. `server`: this server's number. A fresh
  // shard replaces the shard that is here; Tick tries again if there is no place for it.
  // FAILED_PRECONDITION: the copy is to lead, and this server has no data of the shard. REQUIRES:
  // assigned.epoch() > 0.
  absl::Status Have(const AssignedCopy& assigned, uint32_t server, Time now);

  // A worker's message. A copy that does not lead ignores it.
  void OnMessage(PeerId from, Message message);
  // Executes an order of the coordinator. Effects.orders tells the outcome. UNAVAILABLE: this copy
  // does not lead under that epoch.
  void Execute(const ShardCommand& command, uint64_t number, uint64_t epoch);
  void OnCopy(uint32_t from, CopyMessage message, Time now);
  // A part of a message from the leading copy has come. The rest is on its way.
  void OnPart(Time now);
  // A following copy has a new link to this one. Steps over it must not continue those of the old
  // one: the copy may lack these, and may have other steps with the same numbers. It gets nothing
  // until it asks again.
  void OnFollowerReached(uint32_t server);
  // A following copy's link to this one broke. A copy that lives connects again soon.
  void OnFollowerGone(uint32_t server, Time now);
  // The leading copy is reached over a new link: messages of both sides may be lost.
  void OnReached() { followed_.OnReached(); }
  // Writes the steps since the last call, sends them to other copies, and releases the answers
  // whose steps every awaited copy has.
  void Commit(Time now, Effects* effects);
  // Call this at least ten times per `silence` if MindsTime(), and call Commit after it.
  void Tick(Time now);
  // Whether time alone may change something. Otherwise only a message, an order or a call does.
  bool MindsTime() const;

  // A checkpoint is finished. Following copies need to know it too, for their images.
  void CheckpointDone(uint64_t checkpoint);

  // An image of the shard that is due for its journal; null: none is. Any thread may save it to
  // JournalFor; ImageSaved must follow. While it is being saved, no call may put another shard in
  // the place of this one.
  std::shared_ptr<const ShardImage> TakeDueImage();
  // Null: the image need not be saved, because it was saved, or its shard is gone from here.
  Journal* JournalFor(const std::shared_ptr<const ShardImage>& image) const;
  void ImageSaved(const std::shared_ptr<const ShardImage>& image, const absl::Status& status);

  CopyState State() const;
  // Whether State still returns `said`, except for its entries. Cheap.
  bool StillSays(const CopyState& said) const;
  bool leads() const { return role_ == Role::kLeads; }
  uint64_t epoch() const { return epoch_; }
  // Null: this server has no data of the shard yet.
  DurableShard* shard() { return shard_.get(); }
  const DurableShard* shard() const { return shard_.get(); }

 private:
  enum class Role { kNone, kLeads, kFollows };
  // Begins or continues to lead under this epoch, with these other servers in sync. `heard`: the
  // CopyState.report that `in_sync` takes into account. REQUIRES: shard() is not null.
  void Lead(uint64_t epoch, const std::set<uint32_t>& in_sync, uint64_t heard, Time now);
  void LeadFresh(uint64_t epoch, Time now);
  // `copy`: AssignedCopy.copy.
  void Follow(uint64_t epoch, uint32_t leader, uint64_t copy, Time now);
  void MakeFresh(Time now);
  // Closes the shard's journal: the place is emptied next.
  void LeaveShard();
  void TakeShard(std::unique_ptr<DurableShard> shard);
  void OnImage(const ShardImage& image, Time now);
  void OnSteps(CopyMessage::Steps steps, Time now);
  void SetTrouble(const absl::Status& status) { trouble_ = std::string(status.message()); }

  const CopyOptions options_;
  std::unique_ptr<DurableShard> shard_;
  std::shared_ptr<const ShardImage> due_;  // TakeDueImage gave this image of the shard
  Role role_ = Role::kNone;
  uint64_t epoch_ = 0;
  // Epoch of the journal; 0: unknown, so the copy begins anew from an image if it follows.
  uint64_t log_epoch_ = 0;
  uint64_t checkpoint_done_ = 0;
  std::string trouble_;
  // The epoch under which it is to lead a shard without weights, for which there is no place yet;
  // 0: none.
  uint64_t fresh_ = 0;
  Time tried_{};  // when a place was last looked for
  Standstill standstill_;
  std::map<uint32_t, CopyMessage> early_;  // by server: a Has under a later epoch

  FollowedCopy followed_;
  OtherCopies others_;
  HeldAnswers answers_;
};

}  // namespace psgd
