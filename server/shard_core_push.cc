// The part of ShardCore that absorbs pushes.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/schedule.h"
#include "server/shard_core.h"

namespace psgd {

absl::Status ShardCore::CheckPush(const Member& member, const Push& push, size_t payloads) const {
  if (PayloadsOf(push) != payloads) {
    return absl::InvalidArgumentError(
        absl::StrCat("parts of ", PayloadsOf(push), " payloads, but ", payloads, " came"));
  }
  if (!member.running) {
    return absl::InvalidArgumentError("the worker is in no segment yet");
  }
  if (push.clock() != member.arrived_clock + 1) {
    return absl::InvalidArgumentError(absl::StrCat("a push for clock ", push.clock(), " where ",
                                                   member.arrived_clock + 1, " is due"));
  }
  std::vector<bool> seen(slices_.size());
  for (const PushPart& part : push.parts()) {
    const auto local = Local(part.slice());
    if (!local) {
      return absl::InvalidArgumentError(
          absl::StrCat("slice ", part.slice(), " is not on shard ", options_.shard));
    }
    if (seen[*local] || member.slice_clock[*local] == push.clock()) {
      return absl::InvalidArgumentError(
          absl::StrCat("slice ", part.slice(), " twice in clock ", push.clock()));
    }
    seen[*local] = true;
    if (part.base_version() > slices_[*local].version) {
      return absl::InvalidArgumentError(
          absl::StrCat("slice ", part.slice(), " has no version ", part.base_version(), " yet"));
    }
  }
  return absl::OkStatus();
}

void ShardCore::CountSound(const Push& push, Member& member) const {
  // One sound message among a clock's does not make up for the others, nor does an empty one.
  if (!push.end_of_clock() || member.bad_clock == push.clock()) return;
  const bool pushed = std::ranges::find(member.slice_clock, push.clock()) != member.slice_clock.end();
  if (pushed) member.bad_in_row = 0;
}

void ShardCore::CountBad(const DataHeader& header, uint64_t clock, const absl::Status& bad, Member& member) {
  ++member.bad_in_row;
  member.bad_clock = clock;
  const int32_t most = options_.config.cluster().quarantine();
  if (most == 0 || member.bad_in_row < most) return;
  member.quarantined = absl::StrCat(
      member.bad_in_row, " of its pushes to shard ", options_.shard,
      " were refused (cluster.quarantine) and no clock's were all sound between them, the last one: ",
      std::string(bad.message()),
      "; look at its machine and at the learning rate");
  QuarantinedWorker& worker = quarantined_.emplace_back();
  worker.key.set_worker(header.worker());
  worker.key.set_incarnation(header.incarnation());
  worker.why = member.quarantined;
}

void ShardCore::OnPush(PeerId from, Member& member, Message message, Outbox* out) {
  const DataHeader& header = message.header;
  const Push& push = header.push();
  if (push.seq() < member.next_seq) {
    ++stats_.duplicates;
    Acknowledge(from, header, member.next_seq, out);
    return;
  }
  if (push.seq() > member.next_seq) {
    Refuse(from, header, Refusal::OUT_OF_ORDER,
           absl::StrCat("push ", push.seq(), " came before ", member.next_seq), member.next_seq,
           out);
    return;
  }
  // Only what would have to wait can be sent away: refusing what the clock or the cut that all wait
  // for still needs would make everybody wait for ever.
  const size_t waiting = held_bytes_ + gathered_bytes_;
  const bool waits =
      HoldsBack(push.clock()) || (synchronous_ && push.clock() > completed_ + 1);
  if (waits && waiting > 0 && waiting + message.PayloadBytes() > options_.held_bytes) {
    Refuse(from, header, Refusal::OVERLOADED,
           absl::StrCat("the shard holds ", waiting,
                        " bytes of pushes that wait for slower workers"),
           member.next_seq, out);
    return;
  }
  if (keeps_journal_) WriteDown(message);
  ++member.next_seq;
  if (!member.pushed) {
    // Its first push carries what it loaded of them; another incarnation must not send it again.
    member.pushed = true;
    for (SliceState& slice : slices_) slice.resumed_residuals.erase(header.worker());
  }
  absl::Status bad = CheckPush(member, push, message.payloads.size());
  std::vector<OpenedPart> parts;
  if (bad.ok()) {
    auto opened = OpenPush(codecs_, slices_, local_, &message);
    if (opened.ok()) {
      parts = *std::move(opened);
    } else {
      bad = opened.status();
    }
  }
  const uint64_t clock = member.arrived_clock + 1;
  const bool due = member.running && push.clock() == clock;
  if (due && push.end_of_clock()) member.arrived_clock = push.clock();
  if (!bad.ok()) {
    const bool non_finite = bad.code() == absl::StatusCode::kOutOfRange;
    Refuse(from, header, non_finite ? Refusal::NON_FINITE : Refusal::MALFORMED,
           std::string(bad.message()), member.next_seq, out);
    CountBad(header, clock, bad, member);
    if (!due) return;
    message.payloads.clear();
    message.header.mutable_push()->clear_parts();
    parts.clear();
  } else {
    ++stats_.pushes;
    for (const PushPart& part : push.parts()) {
      member.slice_clock[*Local(part.slice())] = push.clock();
      stats_.push_staleness.Add(slices_[*Local(part.slice())].version - part.base_version());
    }
    CountSound(push, member);
    Acknowledge(from, header, member.next_seq, out);
  }

  if (synchronous_) {
    gathered_bytes_ += message.PayloadBytes();
    gathered_[push.clock()][header.worker()].push_back(std::move(message));
  } else if (HoldsBack(push.clock())) {
    held_bytes_ += message.PayloadBytes();
    held_.push_back({header.worker(), header.incarnation(), clock, std::move(message)});
  } else {
    ApplyNow(member, message.header.push(), parts);
  }
}

float ShardCore::ContributionScale(size_t contributors) const {
  if (options_.config.consistency().reduction() == ConsistencyConfig::SUM) return 1.0f;
  return 1.0f / static_cast<float>(std::max<size_t>(contributors, 1));
}

UpdateRates ShardCore::RatesAt(uint64_t clock) const {
  const uint64_t step = clock - 1;
  double epoch = 0, epochs_per_clock = 0;
  auto it = segments_.upper_bound(step);
  if (it != segments_.begin()) {
    const Segment& segment = std::prev(it)->second;
    epochs_per_clock = segment.epochs_per_clock();
    epoch = segment.epoch_at_start() +
            static_cast<double>(step - segment.first_clock()) * epochs_per_clock;
  }
  const double factor =
      ScheduleFactor(options_.config.schedule(),
                     {.epoch = epoch,
                      .step = step,
                      .epochs_per_step = epochs_per_clock,
                      .total_epochs = static_cast<double>(options_.config.train().epochs())});
  return {hyper_.learning_rate() * factor, hyper_.weight_decay()};
}

void ShardCore::ApplyNow(Member& member, const Push& push,
                         const std::vector<OpenedPart>& parts) {
  const UpdateRates rates = parts.empty() ? UpdateRates{} : RatesAt(push.clock());
  const auto running = static_cast<size_t>(
      std::count_if(members_.begin(), members_.end(), [](const auto& m) { return m.second.running; }));
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint32_t local = *Local(push.parts(static_cast<int>(i)).slice());
    SliceState& slice = slices_[local];
    Contribution contribution;
    contribution.reader = parts[i].reader.get();
    contribution.factors = parts[i].factors;
    contribution.scale = ContributionScale(running);
    contribution.staleness = slice.version - push.parts(static_cast<int>(i)).base_version();
    // A pull that was answered twice leaves the later weights here; they are not what it used.
    if (local < member.pulled.size() &&
        member.pulled[local].version == push.parts(static_cast<int>(i)).base_version()) {
      contribution.pulled = member.pulled[local].weights;
    }
    updater_->Apply(slice, {&contribution, 1}, rates);
  }
  if (push.end_of_clock() && push.clock() == member.clock + 1) member.clock = push.clock();
}

void ShardCore::ApplyClocks() {
  while (true) {
    const uint64_t clock = completed_ + 1;
    if (HoldsBack(clock)) return;
    // Most pushes are of others, of whom there may be thousands.
    const auto lacks = [clock](const Member& member) {
      return member.running && member.first_clock < clock && member.arrived_clock < clock;
    };
    const auto awaited = members_.find(awaited_);
    if (awaited != members_.end() && lacks(awaited->second)) return;
    bool expected = false;
    uint64_t next_start = UINT64_MAX;
    for (const auto& [worker, member] : members_) {
      if (!member.running) continue;
      next_start = std::min(next_start, member.first_clock);
      if (member.first_clock >= clock) continue;
      expected = true;
      if (lacks(member)) {
        awaited_ = worker;
        return;
      }
    }
    auto gathered = gathered_.find(clock);
    if (gathered == gathered_.end()) {
      // Nobody will fill this clock: go on where the workers that are here began. When there are
      // none, the cut that is asked for must not wait either.
      if (next_start == UINT64_MAX && cut_) next_start = cut_->clock;
      if (!expected && next_start != UINT64_MAX && next_start > completed_) {
        const auto later = gathered_.upper_bound(clock);
        completed_ = later == gathered_.end() ? next_start : std::min(next_start, later->first - 1);
        continue;
      }
      if (!expected) return;
    } else {
      ApplyGathered(clock, gathered->second);
      gathered_.erase(gathered);
    }
    completed_ = clock;
    for (auto& [worker, member] : members_) {
      if (member.running && member.first_clock < clock) member.clock = clock;
    }
  }
}

void ShardCore::ApplyGathered(uint64_t clock,
                              const std::map<uint32_t, std::vector<Message>>& by_worker) {
  // Opened once already when they came in, so opening them again cannot fail.
  std::map<uint32_t, std::vector<WaitingPayload>> by_tensor;
  for (const auto& [worker, messages] : by_worker) {
    for (const Message& message : messages) {
      gathered_bytes_ -= message.PayloadBytes();
      auto payloads = SharedPayloads(slices_, local_, message.header.push());
      if (!payloads.ok()) continue;
      for (SharedPayload& shared : *payloads) {
        const uint32_t tensor = slices_[shared.slices.front()].spec.parameter();
        by_tensor[tensor].push_back({&message, std::move(shared)});
      }
    }
  }
  const UpdateRates rates = RatesAt(clock);
  for (const auto& [tensor, payloads] : by_tensor) ApplyTensor(payloads, rates);
}

// A few bytes may be factors of many megabytes, so only so many are open together. What they add up to
// is kept where there are more: the same sum, in the same order.
void ShardCore::ApplyTensor(std::span<const WaitingPayload> payloads, const UpdateRates& rates) {
  struct Gathered {
    size_t contributors = 0;
    std::vector<Contribution> contributions;
    std::vector<float> sum;
  };
  std::map<size_t, Gathered> by_slice;
  for (const WaitingPayload& payload : payloads) {
    for (const size_t local : payload.shared.slices) ++by_slice[local].contributors;
  }
  std::vector<std::unique_ptr<PayloadReader>> readers;
  while (!payloads.empty()) {
    const auto open = payloads.first(HowManyFit(payloads, options_.open_bytes));
    payloads = payloads.subspan(open.size());
    for (const auto& [message, shared] : open) {
      auto opened = OpenPayload(codecs_, slices_, *message, shared);
      if (!opened.ok()) continue;
      for (size_t i = 0; i < shared.slices.size(); ++i) {
        OpenedPart& part = (*opened)[i];
        Gathered& gathered = by_slice[shared.slices[i]];
        Contribution& contribution = gathered.contributions.emplace_back();
        contribution.reader = part.reader.get();
        contribution.scale = ContributionScale(gathered.contributors);
        contribution.factors = std::move(part.factors);
        readers.push_back(std::move(part.reader));
      }
    }
    if (payloads.empty()) break;
    for (auto& [local, gathered] : by_slice) {
      updater_->AddUp(gathered.contributions, slices_[local].weights.size(), &gathered.sum);
    }
    readers.clear();
  }
  for (const auto& [local, gathered] : by_slice) {
    if (gathered.contributions.empty()) continue;
    updater_->Apply(slices_[local], gathered.contributions, rates, gathered.sum);
  }
}

void ShardCore::ReleaseHeld() {
  std::deque<HeldPush> held;
  held.swap(held_);
  for (HeldPush& entry : held) {
    if (HoldsBack(entry.clock)) {
      held_.push_back(std::move(entry));
      continue;
    }
    held_bytes_ -= entry.message.PayloadBytes();
    auto opened = OpenPush(codecs_, slices_, local_, &entry.message);
    auto member = members_.find(entry.worker);
    if (!opened.ok() || member == members_.end()) continue;
    if (member->second.incarnation == entry.incarnation) {
      ApplyNow(member->second, entry.message.header.push(), *opened);
    } else {
      // Acknowledged before its worker was replaced: it counts, but moves nobody's clock.
      Member gone;
      ApplyNow(gone, entry.message.header.push(), *opened);
    }
  }
}

void ShardCore::Settle(Outbox* out) {
  if (synchronous_) ApplyClocks();
  while (ProgressCut()) {
    ReleaseHeld();
    if (synchronous_) ApplyClocks();
  }
  // Once for all of them: each may have to wait for any of thousands of workers.
  const uint64_t slowest = waiting_.empty() ? 0 : SlowestClock();
  for (size_t i = 0; i < waiting_.size();) {
    if (!Allowed(waiting_[i], slowest)) {
      ++i;
      continue;
    }
    Reply(waiting_[i], out);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace psgd
