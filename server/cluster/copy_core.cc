#include "server/cluster/copy_core.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace psgd {
namespace {

// The leading copy begins to wait for a copy that lacks no more than this.
constexpr size_t kFewBytes = 1u << 20;
// On a slow link two parts of an image may be this far apart.
constexpr Duration kImagePatience = std::chrono::seconds(30);
// A copy that could write no image waits for the next one at most so long: its disk may be full,
// and an image is large.
constexpr int kMostSilencesToNextImage = 8;
constexpr Duration kLongestImagePause = std::chrono::seconds(10);
// Steps travel in messages of about this size: a copy on a slow link hears one in time.
constexpr size_t kStepBytes = 256u << 10;
constexpr int kTicksPerSilence = 4;  // a longer time between two ticks is a standstill
// The links of a process that dies break at once. A copy that lives connects again within this part
// of the time, and within this time.
constexpr int kSilenceToReturn = 4;
constexpr Duration kTimeToReturn = std::chrono::milliseconds(150);

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

CopyCore::CopyCore(CopyOptions options, std::unique_ptr<DurableShard> shard)
    : options_(std::move(options)), standstill_(options_.silence / kTicksPerSilence) {
  if (shard != nullptr) TakeShard(std::move(shard));
}

void CopyCore::TakeShard(std::unique_ptr<DurableShard> shard) {
  shard_ = std::move(shard);
  shard_->CheckpointDone(checkpoint_done_);
  kept_ = KeptSteps(shard_->entries() + 1);
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
    earlier_epoch_ = log_epoch_;
    began_at_ = shard_->entries();
    epoch_ = log_epoch_ = epoch;
    role_ = Role::kLeads;
    in_sync_.clear();
    waited_.clear();
    caught_up_.clear();
    silent_.clear();
    unwaited_after_.clear();
    others_.clear();
    held_.clear();
    replies_.clear();
    orders_.clear();
    trouble_.clear();
    shard_->BeginLeading(epoch);
    // Another copy may continue this journal from its own last step. It can be told what it lacks
    // only if steps are kept, also without a journal.
    if (earlier_epoch_ != 0) shard_->KeepSteps();
    written_order_ = 0;
    held_.push_back(
        {shard_->steps(), {}, {{shard_->core().last_order(), epoch, absl::OkStatus()}}});
    for (const auto& [from, message] : std::exchange(early_, {})) {
      if (message.epoch == epoch) OnHas(from, std::get<CopyMessage::Has>(message.what), now);
    }
  }
  for (const uint32_t server : in_sync) {
    if (in_sync_.contains(server)) continue;
    others_.try_emplace(server).first->second.heard = now;  // patience begins now
  }
  for (const uint32_t server : in_sync_) {
    if (!in_sync.contains(server))
      others_[server].waited_from.reset();  // the copy must catch up again
  }
  in_sync_ = in_sync;
  // A server in sync is caught up by definition. A server that fell back is waited for until the
  // run's leader has heard the report about it.
  for (const uint32_t server : in_sync_) {
    caught_up_.erase(server);
    waited_.erase(server);
  }
  std::erase_if(silent_, [&](uint32_t server) { return !in_sync_.contains(server); });
  std::erase_if(unwaited_after_, [&](const auto& entry) {
    const auto& [server, report] = entry;
    if (in_sync_.contains(server)) return true;
    if (heard < report) return false;
    waited_.erase(server);
    return true;
  });
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
  if (std::exchange(copy_, copy) != copy) OnReached();  // tells the leading copy
  if (epoch == epoch_ && leader == leader_) return;
  // The unwritten steps, which no other copy has, must not stay: this copy starts anew from an
  // image.
  if (role_ == Role::kLeads && shard_->has_unwritten()) log_epoch_ = 0;
  epoch_ = epoch;
  fresh_ = 0;
  role_ = Role::kFollows;
  leader_ = leader;
  heard_ = now;
  OnReached();
  orders_.clear();
  held_.clear();
  others_.clear();
  replies_.clear();
  caught_up_.clear();
  silent_.clear();
}

void CopyCore::OnMessage(PeerId from, Message message) {
  if (role_ == Role::kLeads) shard_->OnMessage(from, std::move(message));
}

void CopyCore::Execute(const ShardCommand& command, uint64_t number, uint64_t epoch) {
  const bool leads_so = role_ == Role::kLeads && epoch == epoch_;
  orders_.push_back({number, epoch,
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
  std::visit(
      Overloaded{
          [&](const CopyMessage::Has& has) { OnHas(from, has, now); },
          [&](const CopyMessage::Written& written) { OnWritten(from, written.entries, now); },
          [&](const CopyMessage::TakesImage&) {
            // A copy in sync is reported as silent meanwhile. Workers wait only until the run's
            // record says so.
            const auto other = others_.find(from);
            if (other == others_.end() || in_sync_.contains(from)) return;
            if (other->second.takes_image) other->second.heard = now;
          },
          [&](const CopyMessage::Image& image) {
            if (role_ == Role::kFollows && from == leader_) OnImage(*image.image, now);
          },
          [&](CopyMessage::Steps& steps) {
            if (role_ == Role::kFollows && from == leader_) OnSteps(std::move(steps), now);
          },
      },
      message.what);
}

bool CopyCore::IsBeginning(const CopyMessage::Has& has) const {
  if (has.log_epoch == 0 || has.entries + 1 < kept_.first()) return false;
  if (has.log_epoch == epoch_) return has.entries <= shard_->entries();
  return has.log_epoch == earlier_epoch_ && has.entries <= began_at_;
}

void CopyCore::OnHas(uint32_t from, const CopyMessage::Has& has, Time now) {
  if (role_ != Role::kLeads) return;
  Other& other = others_[from];
  if (other.streams && other.takes_image && other.copy != has.copy) {
    // It got another number, over the same link. The image that is on its way serves it as well.
    other.copy = has.copy;
    if (caught_up_.erase(from) > 0) ++report_;
    return;
  }
  if (other.takes_image) {  // of the same link: the copy wrote nothing of it
    const Duration most =
        std::min<Duration>(kMostSilencesToNextImage * options_.silence, kLongestImagePause);
    other.image_pause = std::min(std::max(2 * other.image_pause, options_.silence), most);
    other.next_image = now + other.image_pause;
  }
  FallBack(from);
  other.asked = has;
  other.copy = has.copy;
  other.heard = now;
}

void CopyCore::OnFollowerReached(uint32_t server) {
  early_.erase(server);
  if (role_ != Role::kLeads || !others_.contains(server)) return;
  FallBack(server);
  others_[server].broke.reset();
  others_[server].image_pause = {};
  others_[server].next_image = {};
}

void CopyCore::OnFollowerGone(uint32_t server, Time now) {
  OnFollowerReached(server);
  const auto other = others_.find(server);
  // Others give up their links while this server stands still.
  if (other != others_.end() && !standstill_.WasRecently(options_.silence, now)) {
    other->second.broke = now;
  }
}

bool CopyCore::IsSilent(const Other& other, Time now) const {
  const Duration to_return = std::max<Duration>(options_.silence / kSilenceToReturn, kTimeToReturn);
  return now >= other.heard + options_.silence || (other.broke && now >= *other.broke + to_return);
}

// A copy in sync is reported as silent meanwhile. Workers wait only until the run's record says so.
void CopyCore::BeginsLater(uint32_t server) {
  if (in_sync_.contains(server) && silent_.insert(server).second) ++report_;
}

void CopyCore::Begin(uint32_t server, Other* other, Time now, Effects* effects) {
  // An image has every step so far, but unwritten steps may still be lost.
  if (!shard_->core().has_model() || shard_->has_unwritten()) return;
  shard_->KeepSteps();
  const CopyMessage::Has has = *other->asked;
  if (IsBeginning(has)) {
    other->sent = other->written = has.entries;
  } else if (now < other->next_image) {
    // The image answers a later question. One that crosses a question would count as not written.
    other->asked.reset();
    return BeginsLater(server);
  } else {
    std::optional<ShardImage> image = shard_->ImageForCopy();
    // It begins after the checkpoint, which may need pushes that would wait for this copy.
    if (!image) return BeginsLater(server);
    other->written = 0;
    other->sent = image->record.entry();
    effects->copies.push_back(
        {server,
         {options_.shard, epoch_,
          CopyMessage::Image{std::make_shared<ShardImage>(*std::move(image))}}});
    other->takes_image = other->began_anew = true;
  }
  other->asked.reset();
  other->streams = true;
}

void CopyCore::OnPart(Time now) {
  heard_ = now;
  image_comes_ = true;  // or a large step: its end comes soon
  if (role_ != Role::kFollows || now < told_of_image_ + options_.silence / kSignsPerSilence) return;
  told_of_image_ = now;
  Reply(CopyMessage::TakesImage{});
}

void CopyCore::OnImage(const ShardImage& image, Time now) {
  heard_ = now;
  image_comes_ = false;
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
    heard_ = now - options_.silence;  // asks again
    return;
  }
  TakeShard(*std::move(made));
  options_.place->Settle();
  log_epoch_ = epoch_;
  Reply(CopyMessage::Written{shard_->entries()});
}

void CopyCore::OnSteps(CopyMessage::Steps steps, Time now) {
  heard_ = now;
  image_comes_ = false;
  // A gap: this copy's data is gone, or its disk was full. The copy asks again, and says what it
  // has. So it does if nobody knows whether its journal is a prefix of the leader's.
  if (shard_ == nullptr || log_epoch_ == 0 || steps.steps.first > shard_->entries() + 1) {
    heard_ = now - options_.silence;
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
    heard_ = now - options_.silence;
    return;
  }
  const uint64_t added = shard_->entries() - before;
  kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(added));
  kept_.Add(std::move(kept));
  ForgetKept();
  log_epoch_ = epoch_;
  CheckpointDone(steps.checkpoint_done);
  Reply(CopyMessage::Written{shard_->entries()});
}

void CopyCore::OnWritten(uint32_t from, uint64_t entries, Time now) {
  const auto at = others_.find(from);
  if (role_ != Role::kLeads || at == others_.end() || !at->second.streams) return;
  Other& other = at->second;
  entries = std::min(entries, other.sent);
  // A copy with a full disk answers but writes nothing. It counts as silent.
  if (entries <= other.written && entries < other.sent) return;
  other.written = std::max(other.written, entries);
  other.takes_image = false;
  other.image_pause = {};
  other.heard = now;
  if (silent_.erase(from) > 0) ++report_;
  CatchUp(from, &other);
}

void CopyCore::CatchUp(uint32_t server, Other* other) {
  if (in_sync_.contains(server) || caught_up_.contains(server)) return;
  if (!other->waited_from) {
    if (other->written + 1 < kept_.first()) return;
    if (kept_.BytesAfter(other->written, kept_.last()) > kFewBytes) return;
    other->waited_from = shard_->entries();
    other->began_anew = false;
    waited_.insert(server);
    unwaited_after_.erase(server);
  }
  if (other->written < *other->waited_from) return;
  caught_up_[server] = other->copy;
  ++report_;
}

// The copy must catch up again. It is waited for until the run's leader knows.
void CopyCore::FallBack(uint32_t server) {
  Other& other = others_[server];
  other.streams = false;
  other.takes_image = other.began_anew = false;
  other.asked.reset();
  other.waited_from.reset();
  caught_up_.erase(server);
  if (waited_.contains(server) && unwaited_after_.try_emplace(server, report_ + 1).second)
    ++report_;
}

size_t CopyCore::kept_bytes() const {
  return std::max<size_t>(options_.kept, 2 * shard_->core().weight_bytes());
}

bool CopyCore::AnyBeganAnew() const {
  return std::ranges::any_of(others_, [](const auto& other) { return other.second.began_anew; });
}

uint64_t CopyCore::Committed() const {
  uint64_t committed = shard_->entries();
  for (const auto* servers : {&in_sync_, &waited_}) {
    for (const uint32_t server : *servers) {
      const auto other = others_.find(server);
      const bool streams = other != others_.end() && other->second.streams;
      committed = std::min(committed, streams ? other->second.written : 0);
    }
  }
  return committed;
}

void CopyCore::ForgetKept() {
  uint64_t needed = kept_.last() + 1;
  for (const auto& [server, other] : others_) {
    if (other.streams) needed = std::min(needed, other.written + 1);
  }
  // The latest steps stay, for copies that were away for a moment.
  while (kept_.bytes() > kept_bytes() && kept_.first() < needed) kept_.DropFirst();
}

// A copy that nobody waits for starts anew if it lags too far. Otherwise this server would run out
// of memory.
void CopyCore::LeaveLaggardsBehind() {
  if (kept_.bytes() <= 2 * kept_bytes()) return;
  for (auto& [server, other] : others_) {
    // One that began with an image would need another one at once: workers wait for it instead.
    if (other.streams && !other.began_anew && !WaitsFor(server)) FallBack(server);
  }
  ForgetKept();
}

void CopyCore::SendSteps(Time now, Effects* effects) {
  for (auto& [server, other] : others_) {
    if (!other.streams) continue;
    const auto may_send = [&, &other = other] {
      return other.sent < kept_.last() &&
             kept_.BytesAfter(other.written, other.sent) <= options_.window;
    };
    bool tells = now >= other.told + options_.silence / kSignsPerSilence;
    while (tells || may_send()) {
      tells = false;
      CopyMessage::Steps next{{other.sent + 1, {}}, checkpoint_done_};
      for (size_t bytes = 0; bytes < kStepBytes && may_send();) {
        next.steps.entries.push_back(kept_.at(++other.sent));
        bytes += next.steps.entries.back().bytes();
      }
      other.told = now;
      effects->copies.push_back({server, {options_.shard, epoch_, std::move(next)}});
    }
  }
}

void CopyCore::LetGo(Effects* effects) {
  const uint64_t committed = Committed();
  while (!held_.empty() && held_.front().entries <= committed) {
    Outbox& out = held_.front().out;
    std::move(out.begin(), out.end(), std::back_inserter(effects->workers));
    std::vector<OrderDone>& orders = held_.front().orders;
    for (OrderDone& done : orders) {
      if (done.status.ok()) written_order_ = std::max(written_order_, done.number);
      effects->orders.push_back(std::move(done));
    }
    held_.pop_front();
  }
}

void CopyCore::Commit(Time now, Effects* effects) {
  std::move(replies_.begin(), replies_.end(), std::back_inserter(effects->copies));
  replies_.clear();
  if (role_ != Role::kLeads) {
    std::move(orders_.begin(), orders_.end(), std::back_inserter(effects->orders));
    orders_.clear();
    return;
  }
  std::vector<JournalEntry> written;
  Held held;
  shard_->Commit(&held.out, &effects->workers, &written);
  kept_.Add(std::move(written));
  ForgetKept();
  if (kept_.last() != shard_->entries()) {  // the model was installed, or nobody asks for steps
    kept_ = KeptSteps(shard_->entries() + 1);
  }
  if (!shard_->has_unwritten()) {
    held.entries = shard_->entries();
    held.orders = std::exchange(orders_, {});
    if (!held.out.empty() || !held.orders.empty()) held_.push_back(std::move(held));
  }
  for (auto& [server, other] : others_) {
    if (other.asked) Begin(server, &other, now, effects);
  }
  SendSteps(now, effects);
  LetGo(effects);
  LeaveLaggardsBehind();
  const bool behind = kept_.bytes() > 2 * kept_bytes() && (!held_.empty() || AnyBeganAnew());
  shard_->TurnAwayWhile(
      behind ? absl::UnavailableError("another server's copy of the shard does not keep up")
             : absl::OkStatus());
}

void CopyCore::Tick(Time now) {
  // The time in which this thread wrote an image counts as a standstill, too.
  const Duration lost = standstill_.Lost(now);
  heard_ = std::min(heard_ + lost, now);
  if (fresh_ != 0 && now >= tried_ + options_.silence) MakeFresh(now);
  // A question in the middle of an image would say that nothing of it could be written.
  const Duration patience =
      image_comes_ ? std::max(kImagePatience, options_.silence) : options_.silence;
  const bool silence = now >= heard_ + patience && now >= asked_ + options_.silence;
  if (role_ == Role::kFollows && (asks_ || silence)) {
    asks_ = false;
    asked_ = now;
    CopyMessage::Has has{0, 0, copy_};
    if (shard_ != nullptr) has = {log_epoch_, shard_->entries(), copy_};
    replies_.push_back({leader_, {options_.shard, epoch_, has}});
  }
  for (auto& [server, other] : others_) {
    other.heard += lost;
    if (other.broke) *other.broke += lost;
  }
  if (role_ != Role::kLeads) return;
  shard_->Tick(now, lost);
  for (auto& [server, other] : others_) {
    if (!IsSilent(other, now)) continue;
    if (in_sync_.contains(server)) {
      if (silent_.insert(server).second) ++report_;
    } else if (other.takes_image && now < other.heard + kImagePatience) {
      continue;  // the image comes slowly
    } else if (other.streams || (waited_.contains(server) && !unwaited_after_.contains(server))) {
      FallBack(server);  // no steps are kept for it until it asks again
    }
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
  state.set_report(report_);
  if (epoch_ == 0 && shard_ != nullptr) *state.mutable_clocks() = shard_->core().Clocks();
  if (!state.leads()) return state;
  for (const auto& [server, copy] : caught_up_) {
    CopyState::CaughtUp* const caught_up = state.add_caught_up();
    caught_up->set_server(server);
    caught_up->set_copy(copy);
  }
  state.mutable_silent()->Assign(silent_.begin(), silent_.end());
  state.set_written_order(written_order_);
  return state;
}

bool CopyCore::StillSays(const CopyState& said) const {
  const bool same = said.epoch() == epoch_ && said.leads() == leads() &&
                    said.empty() == (shard_ == nullptr) && said.trouble() == trouble_ &&
                    said.report() == report_;
  if (!same || !leads()) return same;
  return said.written_order() == written_order_ && std::ranges::equal(said.silent(), silent_) &&
         std::ranges::equal(said.caught_up(), caught_up_, [](const auto& one, const auto& other) {
           return one.server() == other.first && one.copy() == other.second;
         });
}

}  // namespace psgd
