// The clocks of staleness 0: the pushes of a clock wait for each other and are applied as one
// update, summed in the order of worker numbers, so the result does not depend on which worker was
// first. A slice that every worker has pushed does not wait for the clock's other slices. With
// consistency.quorum, a clock that has its quorum waits for the others only for the grace period.
// What comes later counts in the next clock. With local.fragments it counts in the next clock that
// exchanges its slices, because an update of its own would be one more step of the optimizer. The
// last clock of a segment always waits, and takes all that came late, so segments, cuts and ends of
// runs lack nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "net/message.h"
#include "proto/config.pb.h"
#include "proto/journal.pb.h"
#include "server/shard/checkpoint_cut.h"
#include "server/shard/clock_schedule.h"
#include "server/shard/gathered_pushes.h"
#include "server/shard/grace.h"
#include "server/shard/member_clocks.h"
#include "server/shard/open_push.h"
#include "server/shard/slice_set.h"

namespace psgd {

// Not thread-safe. Above staleness 0 it does nothing.
class SynchronousClocks {
 public:
  // The arguments must outlive it. `cut`: the checkpoint under way.
  SynchronousClocks(const Config& config, const ClockSchedule& schedule,
                    const std::optional<CheckpointCut>& cut, SliceSet* slices, Members* members)
      : quorum_(config.consistency().staleness() == 0 ? config.consistency().quorum() : 0),
        fragments_(static_cast<uint64_t>(std::max(1, config.local().fragments()))),
        schedule_(schedule),
        cut_(cut),
        slices_(*slices),
        members_(*members),
        grace_(Milliseconds(config.consistency().grace())) {}

  // The slices are new.
  void MeetSlices() { ahead_.assign(slices_.size(), 0); }
  // Other workers take part from now on, or other clocks may go on.
  void LookAgain();
  // Keeps a push, which is open, until its clock is applied; a late push waits for the next clock.
  // Slices that every worker has pushed are applied now.
  void Add(Message message, std::vector<SharedPayload> payloads);
  // Applies the clocks that are complete.
  void Advance();

  // Whether the next clock has its quorum, and may go on without the others.
  bool MayClose() const;
  // Whether it goes on without them now.
  bool IsDue(Time now) { return grace_.MustLook(next(), now) && grace_.IsOver(MayClose(), now); }
  // From now on Advance does not wait for late workers of the next clock.
  void Close() { closed_ = next(); }

  uint64_t completed() const { return completed_; }  // clocks applied
  uint64_t next() const { return completed_ + 1; }
  size_t bytes() const { return gathered_.bytes(); }  // of pushes that wait
  Grace& grace() { return grace_; }
  const Grace& grace() const { return grace_; }
  // Whether a slice (local index) was applied ahead of the rest of the next clock.
  bool IsAhead(uint32_t local) const { return ahead_[local] == next(); }
  // The slices that were applied ahead since the last call.
  std::vector<uint32_t> TakeNewAhead() { return std::exchange(new_ahead_, {}); }

  void Save(ShardRecord* record) const;
  // REQUIRES: the slices are there.
  absl::Status Restore(const ShardRecord& record);

 private:
  // Whether the worker takes part in the clock.
  static bool TakesPart(const MemberRecord& member, uint64_t clock) {
    return member.running() && member.first_clock() < clock;
  }
  static bool Lacks(const MemberRecord& member, uint64_t clock) {
    return TakesPart(member, clock) && member.arrived_clock() < clock;
  }
  // The steps that all workers took for the clock that a worker made this payload for, in `steps`.
  uint64_t StepsOfAll(const GatheredPayload& payload, uint32_t steps) const;
  // Whether it is the last clock of its segment, as far as is known.
  bool EndsSegment(uint64_t clock) const;
  // The payloads that count in the next clock. Late ones of slices that it does not exchange wait
  // for the clock after it.
  std::vector<GatheredPayload> TakeDue();
  // Applies payloads of the next clock as one update.
  void Apply(std::vector<GatheredPayload> gathered);
  // Whether every worker of the next clock has pushed the slice in a payload of its own.
  bool AllPushed(uint32_t local);

  const int32_t quorum_;      // 0: every clock waits for all
  const uint64_t fragments_;  // a slice is exchanged in each such clock
  const ClockSchedule& schedule_;
  const std::optional<CheckpointCut>& cut_;
  SliceSet& slices_;
  Members& members_;

  uint64_t completed_ = 0;
  uint32_t awaited_ = 0;     // a worker that the next clock lacked at the last look
  GatheredPushes gathered_;  // absorbed and not applied
  uint64_t closed_ = 0;      // the latest clock that went on without late workers
  Grace grace_;
  // How many workers take part in the next clock; nullopt: to be counted.
  std::optional<size_t> expected_;
  std::vector<uint64_t> ahead_;  // by local index: the last clock that was applied ahead
  std::vector<uint32_t> new_ahead_;
};

}  // namespace psgd
