#include "server/shard/synchronous_clocks.h"

#include <algorithm>
#include <span>
#include <utility>

namespace psgd {

void SynchronousClocks::LookAgain() {
  expected_.reset();
  grace_.LookAgain();
}

void SynchronousClocks::Add(Message message, std::vector<SharedPayload> payloads) {
  for (SharedPayload& shared : payloads) {
    const PushPart& part = message.header.push().parts(shared.first);
    // A few bytes of these unpack to many megabytes, so they do not wait open.
    if (part.codec() == CODEC_FACTORS) shared.opened.clear();
  }
  const uint64_t counts_in = std::max(message.header.push().clock(), next());
  const auto kept = gathered_.Add(counts_in, std::move(message), std::move(payloads));
  const Push& push = kept->header.push();
  if (push.clock() != next() || HoldsBack(cut_, next())) return;
  for (const PushPart& part : push.parts()) {
    const uint32_t local = *slices_.Local(part.slice());
    if (!AllPushed(local)) continue;
    Apply(gathered_.Take(next(), local));
    ahead_[local] = next();
    new_ahead_.push_back(local);
  }
}

bool SynchronousClocks::AllPushed(uint32_t local) {
  const uint64_t clock = next();
  if (gathered_.IsShared(clock, local)) return false;
  const std::span<const GatheredPayload> pushed = gathered_.Of(clock, local);
  if (!expected_) {
    expected_ = std::ranges::count_if(
        members_, [clock](const auto& member) { return TakesPart(member.second, clock); });
  }
  if (pushed.size() < *expected_) return false;
  // A worker that is gone may have pushed, too.
  size_t expected = 0;
  for (size_t i = 0; i < pushed.size(); ++i) {
    const auto member = members_.find(pushed[i].worker);
    const bool again = i > 0 && pushed[i - 1].worker == pushed[i].worker;
    if (pushed[i].made_for() != clock) return false;  // with late pushes the clock is one update
    if (!again && member != members_.end() && TakesPart(member->second, clock)) ++expected;
  }
  return expected == *expected_;
}

uint64_t SynchronousClocks::StepsOfAll(const GatheredPayload& payload, uint32_t steps) const {
  const uint64_t clock = payload.made_for();
  uint64_t all = 0;
  // Not the members: when a run drains, all may be gone before a late push counts.
  if (const Segment* segment = schedule_.SegmentOf(clock)) {
    for (const uint32_t worker : segment->workers()) all += schedule_.StepsOf(worker, clock);
  }
  return std::max<uint64_t>(all, steps);
}

void SynchronousClocks::Apply(std::vector<GatheredPayload> gathered) {
  const uint64_t clock = next();
  std::vector<WaitingPayload> payloads;
  for (GatheredPayload& payload : gathered) {
    const uint32_t steps = schedule_.StepsOf(payload.worker, payload.made_for());
    // In exchanges of its slices.
    const uint64_t late = (clock - payload.made_for() + fragments_ - 1) / fragments_;
    const uint64_t of_all = late > 0 ? StepsOfAll(payload, steps) : 0;
    payloads.push_back({payload.message.get(), std::move(payload.shared), steps, late, of_all});
  }
  std::map<uint32_t, uint32_t> absent;
  if (closed_ == clock) {
    for (const auto& [worker, member] : members_) {
      if (Lacks(member, clock)) absent[worker] = schedule_.StepsOf(worker, clock);
    }
  }
  slices_.ApplyTogether(std::move(payloads), absent, schedule_.RatesAt(clock));
}

bool SynchronousClocks::EndsSegment(uint64_t clock) const {
  const Segment* segment = schedule_.SegmentOf(clock);
  return segment == nullptr || clock >= segment->first_clock() + segment->clocks();
}

std::vector<GatheredPayload> SynchronousClocks::TakeDue() {
  const uint64_t clock = next();
  std::vector<GatheredPayload> due = gathered_.TakeAll(clock);
  if (fragments_ == 1 || EndsSegment(clock)) return due;
  const auto waiting = std::ranges::stable_partition(due, [&](const GatheredPayload& payload) {
    return (clock - payload.made_for()) % fragments_ == 0;
  });
  for (GatheredPayload& payload : waiting) gathered_.PutBack(clock + 1, std::move(payload));
  due.erase(waiting.begin(), waiting.end());
  return due;
}

void SynchronousClocks::Advance() {
  while (true) {
    const uint64_t clock = next();
    if (HoldsBack(cut_, clock)) return;
    // A quick exit: of thousands of workers, most pushes are not from the awaited worker.
    const auto awaited = members_.find(awaited_);
    if (closed_ != clock && awaited != members_.end() && Lacks(awaited->second, clock)) return;
    bool expected = false;
    uint64_t next_start = UINT64_MAX;
    for (const auto& [worker, member] : members_) {
      if (!member.running()) continue;
      next_start = std::min(next_start, member.first_clock());
      if (member.first_clock() >= clock) continue;
      expected = true;
      if (closed_ != clock && Lacks(member, clock)) {
        awaited_ = worker;
        return;
      }
    }
    expected_.reset();
    if (gathered_.Has(clock)) {
      Apply(expected ? TakeDue() : gathered_.TakeAll(clock));
    } else if (!expected) {
      // No worker will fill this clock: go on where the present workers began. Without workers, go
      // on to the cut, so that it does not wait.
      if (next_start == UINT64_MAX && cut_) next_start = cut_->clock();
      if (next_start == UINT64_MAX || next_start <= completed_) return;
      const auto later = gathered_.Next(clock);
      completed_ = later ? std::min(next_start, *later - 1) : next_start;
      continue;
    }
    completed_ = clock;
    grace_.LookAgain();
    new_ahead_.clear();
    for (auto& [worker, member] : members_) {
      if (TakesPart(member, clock)) member.set_clock(std::min(member.arrived_clock(), clock));
    }
  }
}

bool SynchronousClocks::MayClose() const {
  const uint64_t clock = next();
  if (quorum_ == 0 || HoldsBack(cut_, clock)) return false;
  if (EndsSegment(clock)) return false;
  const auto arrived = std::ranges::count_if(members_, [clock](const auto& entry) {
    return TakesPart(entry.second, clock) && entry.second.arrived_clock() >= clock;
  });
  return arrived >= quorum_;
}

void SynchronousClocks::Save(ShardRecord* record) const {
  record->set_completed(completed_);
  gathered_.Save(record);
}

absl::Status SynchronousClocks::Restore(const ShardRecord& record) {
  MeetSlices();
  completed_ = record.completed();
  grace_.LookAgain();
  for (const WaitingPush& waiting : record.waiting()) {
    PSGD_ASSIGN_OR_RETURN(Message message, MessageOf(waiting));
    auto payloads = slices_.Payloads(message.header.push());
    gathered_.Add(waiting.clock(), std::move(message), std::move(payloads));
  }
  return absl::OkStatus();
}

}  // namespace psgd
