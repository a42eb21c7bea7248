#include "server/cluster/copy_core.h"

#include <algorithm>
#include <utility>

namespace psgd {
namespace {

constexpr int kTicksPerSilence = 4;  // a longer time between two ticks is a standstill

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

CopyCore::CopyCore(CopyOptions options, std::unique_ptr<DurableShard> shard)
    : options_(std::move(options)),
      standstill_(options_.silence / kTicksPerSilence),
      followed_(options_.shard, options_.silence),
      others_(options_) {
  if (shard != nullptr) TakeShard(std::move(shard));
}

void CopyCore::TakeShard(std::unique_ptr<DurableShard> shard) {
  shard_ = std::move(shard);
  shard_->CheckpointDone(checkpoint_done_);
  others_.KeepNone(*shard_);
}

absl::Status CopyCore::Have(const AssignedCopy& assigned, uint32_t server, Time now) {
  if (assigned.leader() != server) {
    Follow(assigned.epoch(), assigned.leader(), assigned.copy(), now);
  } else if (assigned.fresh()) {
    LeadFresh(assigned.epoch(), now);
  } else if (shard_ == nullptr) {
    return absl::FailedPreconditionError("it is to lead, and has nothing to lead with");
  } else {
    std::set<uint32_t> in_sync(assigned.in_sync().begin(), assigned.in_sync().end());
    in_sync.erase(server);
    Lead(assigned.epoch(), in_sync, assigned.heard(), now);
  }
  return absl::OkStatus();
}

void CopyCore::Lead(uint64_t epoch, const std::set<uint32_t>& in_sync, uint64_t heard, Time now) {
  if (epoch < epoch_ || (epoch == epoch_ && role_ == Role::kFollows)) return;
  if (epoch > epoch_) {
    const uint64_t earlier_epoch = std::exchange(log_epoch_, epoch);
    epoch_ = epoch;
    role_ = Role::kLeads;
    others_.BeginEpoch(epoch, earlier_epoch, shard_->entries());
    answers_ = HeldAnswers();
    followed_.DropReplies();
    trouble_.clear();
    shard_->BeginLeading(epoch);
    // Another copy may continue this journal from its own last step. It can be told what it lacks
    // only if steps are kept, also without a journal.
    if (earlier_epoch != 0) shard_->KeepSteps();
    answers_.Add({shard_->core().last_order(), epoch, absl::OkStatus()});
    answers_.Hold(shard_->steps(), {});
    for (const auto& [from, message] : std::exchange(early_, {})) {
      if (message.epoch == epoch)
        others_.OnHas(from, std::get<CopyMessage::Has>(message.what), now);
    }
  }
  others_.SetInSync(in_sync, heard, now);
}

void CopyCore::LeadFresh(uint64_t epoch, Time now) {
  if (epoch <= std::max(epoch_, fresh_)) return;
  fresh_ = epoch;
  role_ = Role::kNone;
  MakeFresh(now);
}

void CopyCore::MakeFresh(Time now) {
  tried_ = now;
  LeaveShard();
  absl::StatusOr<DurableShardOptions> place = options_.place->Empty();
  options_.place->Settle();  // training has not begun
  SetTrouble(place.status());
  if (!place.ok()) return;
  TakeShard(std::make_unique<DurableShard>(*std::move(place)));
  Lead(std::exchange(fresh_, 0), {}, 0, now);
}

void CopyCore::LeaveShard() {
  shard_.reset();
  due_.reset();
}

void CopyCore::Follow(uint64_t epoch, uint32_t leader, uint64_t copy, Time now) {
  if (epoch < epoch_ || (epoch == epoch_ && role_ == Role::kLeads)) return;
  followed_.SetNumber(copy);
  if (epoch == epoch_ && leader == followed_.server()) return;
  // The unwritten steps, which no other copy has, must not stay: this copy starts anew from an
  // image.
  if (role_ == Role::kLeads && shard_->has_unwritten()) log_epoch_ = 0;
  epoch_ = epoch;
  fresh_ = 0;
  role_ = Role::kFollows;
  followed_.Begin(epoch, leader, now);
  others_.End();
  answers_ = HeldAnswers();
}

void CopyCore::OnMessage(PeerId from, Message message) {
  if (role_ == Role::kLeads) shard_->OnMessage(from, std::move(message));
}

void CopyCore::Execute(const ShardCommand& command, uint64_t number, uint64_t epoch) {
  const bool leads_so = role_ == Role::kLeads && epoch == epoch_;
  answers_.Add({number, epoch,
                leads_so ? shard_->Execute(command, number)
                         : UnavailableError("this copy of shard ", options_.shard,
                                            " does not lead under epoch ", epoch)});
}

void CopyCore::OnCopy(uint32_t from, CopyMessage message, Time now) {
  // The other server may hear of an epoch before this one does, and would ask again only after a
  // pause in which workers wait.
  if (message.epoch > epoch_ && std::holds_alternative<CopyMessage::Has>(message.what))
    early_.insert_or_assign(from, message);
  if (message.epoch != epoch_) return;
  const bool follows_it = role_ == Role::kFollows && from == followed_.server();
  std::visit(Overloaded{
                 [&](const CopyMessage::Has& has) {
                   if (leads()) others_.OnHas(from, has, now);
                 },
                 [&](const CopyMessage::Written& written) {
                   if (leads()) others_.OnWritten(from, written.entries, now);
                 },
                 [&](const CopyMessage::TakesImage&) {
                   if (leads()) others_.OnTakesImage(from, now);
                 },
                 [&](const CopyMessage::Image& image) {
                   if (follows_it) OnImage(*image.image, now);
                 },
                 [&](CopyMessage::Steps& steps) {
                   if (follows_it) OnSteps(std::move(steps), now);
                 },
             },
             message.what);
}

void CopyCore::OnFollowerReached(uint32_t server) {
  early_.erase(server);
  if (leads()) others_.OnLinkChanged(server);
}

void CopyCore::OnFollowerGone(uint32_t server, Time now) {
  OnFollowerReached(server);
  // Others give up their links while this server stands still.
  if (!standstill_.WasRecently(options_.silence, now)) others_.OnLinkBroke(server, now);
}

void CopyCore::OnPart(Time now) {
  if (role_ == Role::kFollows) followed_.OnPart(now);
}

void CopyCore::OnImage(const ShardImage& image, Time now) {
  followed_.Heard(now);
  LeaveShard();
  log_epoch_ = 0;
  absl::StatusOr<DurableShardOptions> place = options_.place->Empty();
  absl::StatusOr<std::unique_ptr<DurableShard>> made =
      place.ok() ? DurableShard::FromImage(*std::move(place), image) : place.status();
  SetTrouble(made.status());
  if (!made.ok()) {
    // What it had before still holds all that was acknowledged.
    made = options_.place->Restore();
    if (made.ok()) TakeShard(*std::move(made));
    followed_.CountAsSilent(now);  // asks again
    return;
  }
  TakeShard(*std::move(made));
  options_.place->Settle();
  log_epoch_ = epoch_;
  followed_.Reply(CopyMessage::Written{shard_->entries()});
}

void CopyCore::OnSteps(CopyMessage::Steps steps, Time now) {
  followed_.Heard(now);
  // A gap: this copy's data is gone, or its disk was full. The copy asks again, and says what it
  // has. So it does if nobody knows whether its journal is a prefix of the leader's.
  if (shard_ == nullptr || log_epoch_ == 0 || steps.steps.first > shard_->entries() + 1) {
    followed_.CountAsSilent(now);
    return;
  }
  const uint64_t before = shard_->entries();
  std::vector<JournalEntry> kept = steps.steps.entries;
  const absl::Status followed = shard_->Follow(steps.steps.first, std::move(steps.steps.entries));
  SetTrouble(followed);
  if (!followed.ok()) {
    // Some of these steps may be on the disk although the write failed. Another leader's steps
    // might not replace all of them. So the copy begins anew from an image.
    log_epoch_ = 0;
    followed_.CountAsSilent(now);
    return;
  }
  const uint64_t added = shard_->entries() - before;
  kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(added));
  others_.Keep(std::move(kept), *shard_);
  log_epoch_ = epoch_;
  CheckpointDone(steps.checkpoint_done);
  followed_.Reply(CopyMessage::Written{shard_->entries()});
}

void CopyCore::Commit(Time now, Effects* effects) {
  followed_.TakeReplies(&effects->copies);
  if (role_ != Role::kLeads) return answers_.TakeOrders(&effects->orders);
  Outbox out;
  std::vector<JournalEntry> written;
  shard_->Commit(&out, &effects->workers, &written);
  others_.Keep(std::move(written), *shard_);
  if (!shard_->has_unwritten()) answers_.Hold(shard_->entries(), std::move(out));
  others_.SendSteps(shard_.get(), checkpoint_done_, now, &effects->copies);
  answers_.LetGo(others_.Committed(), &effects->workers, &effects->orders);
  others_.LeaveLaggardsBehind();
  const bool behind = others_.KeepsTooMuch() && (!answers_.empty() || others_.AnyBeganAnew());
  shard_->TurnAwayWhile(
      behind ? absl::UnavailableError("another server's copy of the shard does not keep up")
             : absl::OkStatus());
}

void CopyCore::Tick(Time now) {
  // The time in which this thread wrote an image counts as a standstill, too.
  const Duration lost = standstill_.Lost(now);
  if (fresh_ != 0 && now >= tried_ + options_.silence) MakeFresh(now);
  if (role_ == Role::kFollows) {
    CopyMessage::Has has;
    if (shard_ != nullptr) has = {log_epoch_, shard_->entries()};
    followed_.Tick(has, now, lost);
  } else if (role_ == Role::kLeads) {
    shard_->Tick(now, lost);
    others_.Tick(now, lost);
  }
}

bool CopyCore::MindsTime() const {
  return !leads() || !others_.empty() || !shard_->stalled().ok() || shard_->core().grace().Ends();
}

void CopyCore::CheckpointDone(uint64_t checkpoint) {
  checkpoint_done_ = std::max(checkpoint_done_, checkpoint);
  if (shard_ != nullptr) shard_->CheckpointDone(checkpoint_done_);
}

std::shared_ptr<const ShardImage> CopyCore::TakeDueImage() {
  std::optional<ShardImage> image = shard_ == nullptr ? std::nullopt : shard_->TakeDueImage();
  if (!image) return nullptr;
  due_ = std::make_shared<const ShardImage>(*std::move(image));
  return due_;
}

Journal* CopyCore::JournalFor(const std::shared_ptr<const ShardImage>& image) const {
  return image == due_ && shard_ != nullptr ? shard_->journal() : nullptr;
}

void CopyCore::ImageSaved(const std::shared_ptr<const ShardImage>& image,
                          const absl::Status& status) {
  if (image != due_ || shard_ == nullptr) return;
  due_.reset();
  shard_->ImageSaved(status);
}

CopyState CopyCore::State() const {
  CopyState state;
  state.set_shard(options_.shard);
  state.set_epoch(epoch_);
  state.set_leads(role_ == Role::kLeads);
  state.set_empty(shard_ == nullptr);
  state.set_entries(shard_ == nullptr ? 0 : shard_->entries());
  state.set_trouble(trouble_);
  state.set_report(others_.report());
  if (epoch_ == 0 && shard_ != nullptr) *state.mutable_clocks() = shard_->core().Clocks();
  if (!state.leads()) return state;
  for (const auto& [server, copy] : others_.caught_up()) {
    CopyState::CaughtUp* const caught_up = state.add_caught_up();
    caught_up->set_server(server);
    caught_up->set_copy(copy);
  }
  state.mutable_silent()->Assign(others_.silent().begin(), others_.silent().end());
  state.set_written_order(answers_.written_order());
  return state;
}

bool CopyCore::StillSays(const CopyState& said) const {
  const bool same = said.epoch() == epoch_ && said.leads() == leads() &&
                    said.empty() == (shard_ == nullptr) && said.trouble() == trouble_ &&
                    said.report() == others_.report();
  if (!same || !leads()) return same;
  return said.written_order() == answers_.written_order() &&
         std::ranges::equal(said.silent(), others_.silent()) &&
         std::ranges::equal(said.caught_up(), others_.caught_up(),
                            [](const auto& one, const auto& other) {
                              return one.server() == other.first && one.copy() == other.second;
                            });
}

}  // namespace psgd
