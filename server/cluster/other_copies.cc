#include "server/cluster/other_copies.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace psgd {
namespace {

// The leading copy begins to wait for a copy that lacks no more than this.
constexpr size_t kFewBytes = 1u << 20;
// A copy that could write no image waits for the next one at most so long: its disk may be full,
// and an image is large.
constexpr int kMostSilencesToNextImage = 8;
constexpr Duration kLongestImagePause = std::chrono::seconds(10);
// Steps travel in messages of about this size: a copy on a slow link hears one in time.
constexpr size_t kStepBytes = 256u << 10;
// The links of a process that dies break at once. A copy that lives connects again within this part
// of the time, and within this time.
constexpr int kSilenceToReturn = 4;
constexpr Duration kTimeToReturn = std::chrono::milliseconds(150);

}  // namespace

void OtherCopies::Keep(std::vector<JournalEntry> steps, const DurableShard& shard) {
  most_kept_ = std::max<size_t>(options_.kept, 2 * shard.core().weight_bytes());
  kept_.Add(std::move(steps));
  ForgetKept();
  if (kept_.last() == shard.entries()) return;
  KeepNone(shard);  // the model was installed, or nobody asks for steps
  for (auto& [server, other] : others_) {
    if (!other.streams || other.sent == kept_.last()) continue;
    FallBack(server);  // what it lacks is not kept
    BeginsLater(server);
  }
}

void OtherCopies::BeginEpoch(uint64_t epoch, uint64_t earlier_epoch, uint64_t entries) {
  epoch_ = epoch;
  earlier_epoch_ = earlier_epoch;
  began_at_ = entries;
  in_sync_.clear();
  waited_.clear();
  unwaited_after_.clear();
  End();
}

void OtherCopies::End() {
  others_.clear();
  caught_up_.clear();
  silent_.clear();
}

void OtherCopies::SetInSync(const std::set<uint32_t>& in_sync, uint64_t heard, Time now) {
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

bool OtherCopies::IsBeginning(const CopyMessage::Has& has) const {
  if (has.log_epoch == 0 || has.entries + 1 < kept_.first()) return false;
  if (has.log_epoch == epoch_) return has.entries <= kept_.last();
  return has.log_epoch == earlier_epoch_ && has.entries <= began_at_;
}

void OtherCopies::OnHas(uint32_t from, const CopyMessage::Has& has, Time now) {
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

void OtherCopies::OnTakesImage(uint32_t from, Time now) {
  // A copy in sync is reported as silent meanwhile. Workers wait only until the run's record says
  // so.
  const auto other = others_.find(from);
  if (other == others_.end() || in_sync_.contains(from)) return;
  if (other->second.takes_image) other->second.heard = now;
}

void OtherCopies::OnLinkChanged(uint32_t server) {
  if (!others_.contains(server)) return;
  FallBack(server);
  others_[server].broke.reset();
  others_[server].image_pause = {};
  others_[server].next_image = {};
}

void OtherCopies::OnLinkBroke(uint32_t server, Time now) {
  const auto other = others_.find(server);
  if (other != others_.end()) other->second.broke = now;
}

bool OtherCopies::IsSilent(const Other& other, Time now) const {
  const Duration to_return = std::max<Duration>(options_.silence / kSilenceToReturn, kTimeToReturn);
  return now >= other.heard + options_.silence || (other.broke && now >= *other.broke + to_return);
}

// A copy in sync is reported as silent meanwhile. Workers wait only until the run's record says so.
void OtherCopies::BeginsLater(uint32_t server) {
  if (in_sync_.contains(server) && silent_.insert(server).second) ++report_;
}

void OtherCopies::Begin(uint32_t server, Other* other, DurableShard* shard, Time now,
                        std::vector<CopySend>* sends) {
  // An image has every step so far, but unwritten steps may still be lost.
  if (!shard->core().has_model() || shard->has_unwritten()) return;
  shard->KeepSteps();
  const CopyMessage::Has has = *other->asked;
  if (IsBeginning(has)) {
    other->sent = other->written = has.entries;
  } else if (now < other->next_image) {
    // The image answers a later question. One that crosses a question would count as not written.
    other->asked.reset();
    return BeginsLater(server);
  } else {
    std::optional<ShardImage> image = shard->ImageForCopy();
    // It begins after the checkpoint, which may need pushes that would wait for this copy.
    if (!image) return BeginsLater(server);
    other->written = 0;
    other->sent = image->record.entry();
    sends->push_back({server,
                      {options_.shard, epoch_,
                       CopyMessage::Image{std::make_shared<ShardImage>(*std::move(image))}}});
    other->takes_image = other->began_anew = true;
  }
  other->asked.reset();
  other->streams = true;
}

void OtherCopies::OnWritten(uint32_t from, uint64_t entries, Time now) {
  const auto at = others_.find(from);
  if (at == others_.end() || !at->second.streams) return;
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

void OtherCopies::CatchUp(uint32_t server, Other* other) {
  if (in_sync_.contains(server) || caught_up_.contains(server)) return;
  if (!other->waited_from) {
    if (other->written + 1 < kept_.first()) return;
    if (kept_.BytesAfter(other->written, kept_.last()) > kFewBytes) return;
    other->waited_from = kept_.last();
    other->began_anew = false;
    waited_.insert(server);
    unwaited_after_.erase(server);
  }
  if (other->written < *other->waited_from) return;
  caught_up_[server] = other->copy;
  ++report_;
}

// The copy must catch up again. It is waited for until the run's leader knows.
void OtherCopies::FallBack(uint32_t server) {
  Other& other = others_[server];
  other.streams = false;
  other.takes_image = other.began_anew = false;
  other.asked.reset();
  other.waited_from.reset();
  caught_up_.erase(server);
  if (waited_.contains(server) && unwaited_after_.try_emplace(server, report_ + 1).second)
    ++report_;
}

bool OtherCopies::AnyBeganAnew() const {
  return std::ranges::any_of(others_, [](const auto& other) { return other.second.began_anew; });
}

uint64_t OtherCopies::Committed() const {
  uint64_t committed = kept_.last();
  for (const auto* servers : {&in_sync_, &waited_}) {
    for (const uint32_t server : *servers) {
      const auto other = others_.find(server);
      const bool streams = other != others_.end() && other->second.streams;
      committed = std::min(committed, streams ? other->second.written : 0);
    }
  }
  return committed;
}

void OtherCopies::ForgetKept() {
  uint64_t needed = kept_.last() + 1;
  for (const auto& [server, other] : others_) {
    if (other.streams) needed = std::min(needed, other.written + 1);
  }
  // The latest steps stay, for copies that were away for a moment.
  while (kept_.bytes() > most_kept_ && kept_.first() < needed) kept_.DropFirst();
}

// A copy that nobody waits for starts anew if it lags too far. Otherwise this server would run out
// of memory.
void OtherCopies::LeaveLaggardsBehind() {
  if (!KeepsTooMuch()) return;
  for (auto& [server, other] : others_) {
    // One that began with an image would need another one at once: workers wait for it instead.
    if (other.streams && !other.began_anew && !WaitsFor(server)) FallBack(server);
  }
  ForgetKept();
}

void OtherCopies::SendSteps(DurableShard* shard, uint64_t checkpoint_done, Time now,
                            std::vector<CopySend>* sends) {
  for (auto& [server, other] : others_) {
    if (other.asked) Begin(server, &other, shard, now, sends);
  }
  for (auto& [server, other] : others_) {
    if (!other.streams) continue;
    const auto may_send = [&, &other = other] {
      return other.sent < kept_.last() &&
             kept_.BytesAfter(other.written, other.sent) <= options_.window;
    };
    bool tells = now >= other.told + options_.silence / CopyMessage::kSignsPerSilence;
    while (tells || may_send()) {
      tells = false;
      CopyMessage::Steps next{{other.sent + 1, {}}, checkpoint_done};
      for (size_t bytes = 0; bytes < kStepBytes && may_send();) {
        next.steps.entries.push_back(kept_.at(++other.sent));
        bytes += next.steps.entries.back().bytes();
      }
      other.told = now;
      sends->push_back({server, {options_.shard, epoch_, std::move(next)}});
    }
  }
}

void OtherCopies::Tick(Time now, Duration lost) {
  for (auto& [server, other] : others_) {
    other.heard += lost;
    if (other.broke) *other.broke += lost;
  }
  for (auto& [server, other] : others_) {
    if (!IsSilent(other, now)) continue;
    if (in_sync_.contains(server)) {
      if (silent_.insert(server).second) ++report_;
    } else if (other.takes_image && now < other.heard + CopyMessage::kImagePatience) {
      continue;  // the image comes slowly
    } else if (other.streams || (waited_.contains(server) && !unwaited_after_.contains(server))) {
      FallBack(server);  // no steps are kept for it until it asks again
    }
  }
}

}  // namespace psgd
