// The part of ShardCore that is written down and made again.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "net/wire_format.h"
#include "server/shard_core.h"
#include "server/shard_order.h"

namespace psgd {
namespace {
// Of our own making, so only the format's own limits count.
constexpr size_t kAnySize = size_t{1} << 40;
}  // namespace

void ShardCore::WriteDown(const Message& message) {
  JournalEntry entry;
  *entry.head.mutable_message() = message.header;
  entry.payloads = message.payloads;
  journal_.push_back(std::move(entry));
}

absl::Status ShardCore::Replay(const JournalEntry& entry) {
  Outbox nobody;
  journal_.clear();
  switch (entry.head.step_case()) {
    case JournalHead::kOrder: {
      PSGD_ASSIGN_OR_RETURN(const ShardCommand command, FromOrder(entry.head.order()));
      PSGD_RETURN_IF_ERROR(Execute(command, &nobody, entry.head.order().number()));
      break;
    }
    case JournalHead::kMessage:
      OnMessage(0, {entry.head.message(), entry.payloads}, &nobody);
      break;
    case JournalHead::kShown: {
      const WeightsShown& shown = entry.head.shown();
      const bool known = members_.count(shown.worker()) > 0 &&
                         std::all_of(shown.slices().begin(), shown.slices().end(),
                                     [&](uint32_t local) { return local < slices_.size(); });
      if (known) Show(shown.worker(), {shown.slices().begin(), shown.slices().end()});
      break;
    }
    case JournalHead::STEP_NOT_SET:
      break;
  }
  // The same step must count again, or this is not the state that it was made in.
  if (journal_.empty()) {
    return absl::DataLossError(
        absl::StrCat("an entry does not fit those before it: ", entry.head.ShortDebugString()));
  }
  journal_.clear();
  return absl::OkStatus();
}

ShardImage ShardCore::MakeImage() const {
  ShardImage image;
  ShardRecord& record = image.record;
  record.set_last_order(last_order_);
  *record.mutable_model() = *model_;
  *record.mutable_placement() = *placement_;
  *record.mutable_hyper() = hyper_;
  record.set_completed(completed_);
  SaveMembers(&image);
  for (const auto& [clock, segment] : segments_) *record.add_segments() = segment;
  for (const auto& [clock, by_worker] : gathered_) {
    for (const auto& [worker, messages] : by_worker) {
      for (const Message& message : messages) {
        WaitingPush* waiting = record.add_waiting();
        waiting->set_clock(clock);
        waiting->set_worker(worker);
        const auto encoded = EncodeMessage(message, kAnySize);
        if (!encoded.ok()) continue;  // it came in this format
        for (const Bytes& frame : encoded->frames) {
          waiting->mutable_message()->append(reinterpret_cast<const char*>(frame.data()),
                                             frame.size());
        }
      }
    }
  }
  record.set_pushes(stats_.pushes);
  record.set_pulls(stats_.pulls);
  for (const auto& [reason, count] : stats_.refused) (*record.mutable_refused())[reason] = count;
  for (const SliceState& slice : slices_) {
    image.arrays.slices.push_back(updater_->Snapshot(slice));
    for (const auto& [worker, residual] : slice.resumed_residuals) {
      image.arrays.residuals[worker].emplace_back(slice.id, residual);
    }
  }
  return image;
}

void ShardCore::SaveMembers(ShardImage* image) const {
  for (const auto& [worker, member] : members_) {
    MemberRecord* record = image->record.add_members();
    record->set_worker(worker);
    record->set_incarnation(member.incarnation);
    record->set_live(member.live);
    record->set_running(member.running);
    record->set_pushed(member.pushed);
    record->set_next_seq(member.next_seq);
    record->set_clock(member.clock);
    record->set_arrived_clock(member.arrived_clock);
    record->set_first_clock(member.first_clock);
    record->set_bad_in_row(member.bad_in_row);
    record->set_bad_clock(member.bad_clock);
    record->set_quarantined(member.quarantined);
    record->mutable_slice_clocks()->Add(member.slice_clock.begin(), member.slice_clock.end());
    for (size_t local = 0; local < member.pulled.size(); ++local) {
      const PulledWeights& pulled = member.pulled[local];
      record->add_shown_versions(pulled.version);
      if (pulled.weights.empty()) continue;
      image->arrays.shown[worker].emplace_back(slices_[local].id, pulled.weights);
    }
  }
}

absl::Status ShardCore::Restore(const ShardImage& image) {
  const ShardRecord& record = image.record;
  model_ = std::make_shared<ModelSpec>(record.model());
  placement_ = std::make_shared<Placement>(record.placement());
  updater_ = std::make_unique<SliceUpdater>(options_.config);
  local_.assign(placement_->slices_size(), -1);
  std::map<uint32_t, decltype(SliceContents::residuals)> by_slice;
  for (const auto& [worker, residuals] : image.arrays.residuals) {
    for (const auto& [slice, residual] : residuals) by_slice[slice][worker] = residual;
  }
  for (const SliceSnapshot& saved : image.arrays.slices) {
    if (saved.id >= local_.size() ||
        saved.spec.parameter() >= static_cast<uint32_t>(model_->parameters_size())) {
      return absl::DataLossError(absl::StrCat("slice ", saved.id, " is not in the placement"));
    }
    SliceContents contents{saved.version, saved.steps, saved.weights, saved.states,
                           std::move(by_slice[saved.id])};
    PSGD_ASSIGN_OR_RETURN(
        SliceState slice, updater_->Restore(saved.id, saved.spec, *model_, std::move(contents)));
    local_[saved.id] = static_cast<int64_t>(slices_.size());
    slices_.push_back(std::move(slice));
  }
  hyper_ = record.hyper();
  last_order_ = record.last_order();
  completed_ = record.completed();
  for (const MemberRecord& member : record.members()) {
    PSGD_RETURN_IF_ERROR(RestoreMember(member, image));
  }
  for (const Segment& segment : record.segments()) segments_[segment.first_clock()] = segment;
  for (const WaitingPush& waiting : record.waiting()) {
    PSGD_RETURN_IF_ERROR(RestoreWaiting(waiting));
  }
  stats_.pushes = record.pushes();
  stats_.pulls = record.pulls();
  stats_.refused.insert(record.refused().begin(), record.refused().end());
  return absl::OkStatus();
}

absl::Status ShardCore::RestoreMember(const MemberRecord& record, const ShardImage& image) {
  const auto slices = static_cast<int>(slices_.size());
  if (record.slice_clocks_size() != slices ||
      (record.shown_versions_size() != slices && record.shown_versions_size() != 0)) {
    return absl::DataLossError(absl::StrCat("worker ", record.worker(), " is remembered with ",
                                            record.slice_clocks_size(), " of ", slices, " slices"));
  }
  Member& member = members_[record.worker()];
  member.incarnation = record.incarnation();
  member.live = record.live();
  member.running = record.running();
  member.pushed = record.pushed();
  member.next_seq = record.next_seq();
  member.clock = record.clock();
  member.arrived_clock = record.arrived_clock();
  member.first_clock = record.first_clock();
  member.bad_in_row = record.bad_in_row();
  member.bad_clock = record.bad_clock();
  member.quarantined = record.quarantined();
  member.slice_clock.assign(record.slice_clocks().begin(), record.slice_clocks().end());
  if (!member.live) return absl::OkStatus();
  member.pulled.resize(slices_.size());
  member.sent = std::vector<SentWeights>(slices_.size());
  for (int i = 0; i < record.shown_versions_size(); ++i) {
    member.pulled[i].version = record.shown_versions(i);
  }
  const auto shown = image.arrays.shown.find(record.worker());
  if (shown == image.arrays.shown.end()) return absl::OkStatus();
  for (const auto& [slice, weights] : shown->second) {
    if (const auto local = Local(slice)) member.pulled[*local].weights = weights;
  }
  return absl::OkStatus();
}

absl::Status ShardCore::RestoreWaiting(const WaitingPush& waiting) {
  const std::string& text = waiting.message();
  const Bytes frame = Bytes::CopyOf(std::as_bytes(std::span<const char>(text.data(), text.size())));
  PSGD_ASSIGN_OR_RETURN(Message message, DecodeMessage({&frame, 1}, kAnySize));
  gathered_bytes_ += message.PayloadBytes();
  gathered_[waiting.clock()][waiting.worker()].push_back(std::move(message));
  return absl::OkStatus();
}

}  // namespace psgd
