#include "worker/session_core.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/latency.h"
#include "common/program_state.h"
#include "net/wire_format.h"

namespace psgd {

SessionOptions SessionOptionsOf(const Config& config, const WorkerKey& key) {
  SessionOptions options;
  options.key = key;
  options.resend = Milliseconds(config.cluster().resend());
  options.deadline = Milliseconds(config.cluster().deadline());
  options.window_bytes = config.cluster().window();
  options.fuse_bytes = config.cluster().fuse();
  options.fragments = static_cast<uint32_t>(config.local().fragments());
  // The shards' coded differences to what a worker has would differ after a pull of slices that its
  // exchange does not carry, and so would its training.
  const bool differs =
      config.local().fragments() > 1 && config.compression().pull().delta().has_codec();
  options.evaluates_aside = config.train().average() > 0 || differs;
  return options;
}

SessionCore::SessionCore(const SessionOptions& options, const Placement& placement, Time now)
    : options_(options),
      placement_(placement),
      shards_(placement.endpoints_size()),
      pulled_(placement, options.fragments),
      now_(now) {
  for (Shard& shard : shards_) shard.last_heard = now;
}

Message SessionCore::MakeMessage(uint32_t shard) const {
  Message message;
  message.header.set_worker(options_.key.worker());
  message.header.set_incarnation(options_.key.incarnation());
  message.header.set_shard(shard);
  return message;
}

void SessionCore::AskShards(uint64_t clock, Time now, bool all, bool aside) {
  SetTime(now);
  pulled_.Begin(clock, all, aside);
  const uint64_t request = next_request_++;
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    if (pulled_.left(s) == 0) continue;
    Message message = MakeMessage(s);
    message.header.mutable_pull()->set_request(request);
    message.header.mutable_pull()->set_clock(clock);
    message.header.mutable_pull()->set_own_clock(ended_clock_);
    message.header.mutable_pull()->set_aside(aside);
    pulled_.AddWanted(s, message.header.mutable_pull());
    shards_[s].pull = message;
    shards_[s].pull_sent = Time{};
    Ask(shards_[s], std::move(message));
  }
}

void SessionCore::Ask(Shard& shard, Message request) {
  shard.requests.push_back(std::move(request));
  shard.owed_since = now_;
}

Message SessionCore::PullAgain(uint32_t shard) const {
  Message message = *shards_[shard].pull;
  pulled_.AddWanted(shard, message.header.mutable_pull());
  return message;
}

void SessionCore::Push(uint64_t clock, EncodedSlice update, Time now) {
  SetTime(now);
  const uint32_t slice = update.slice;
  const uint32_t s = placement_.slices(static_cast<int>(slice)).shard();
  Shard& shard = shards_[s];
  shard.part_bytes += update.payload.size();
  shard.parts_clock = clock;
  shard.parts[slice] = std::move(update);
}

void SessionCore::EndClock(uint64_t clock, Time now) {
  SetTime(now);
  ended_clock_ = clock;
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    shards_[s].parts_clock = clock;
    do MakePush(s, true);
    while (!shards_[s].parts.empty());
  }
}

void SessionCore::AddParts(const EncodedSlice& update, psgd::Push* push) const {
  const auto add = [&](uint32_t slice) {
    PushPart* part = push->add_parts();
    part->set_slice(slice);
    part->set_codec(update.codec);
    part->set_base_version(pulled_.installed(slice).version);
    part->set_base_life(pulled_.installed(slice).life);
    part->set_with_previous(slice != update.slice);
    part->set_zstd(update.packed.planes);
  };
  add(update.slice);
  std::ranges::for_each(update.also, add);
}

void SessionCore::MakePush(uint32_t s, bool ends_clock) {
  Shard& shard = shards_[s];
  Message message = MakeMessage(s);
  psgd::Push* push = message.header.mutable_push();
  push->set_clock(shard.parts_clock);
  // Small parts share a message; a part that is large by itself travels alone. Packed ones count as
  // what they are unpacked: that is what a shard has to hold.
  size_t bytes = 0;
  while (!shard.parts.empty()) {
    const EncodedSlice& part = shard.parts.begin()->second;
    const bool any = push->parts_size() > 0;
    if (any && bytes + part.payload.size() > options_.fuse_bytes) break;
    if (any && push->parts_size() + part.also.size() >= kMostParts) break;
    bytes += part.payload.size();
    AddParts(part, push);
    message.payloads.push_back(part.travels());
    shard.parts.erase(shard.parts.begin());
  }
  shard.part_bytes -= bytes;
  push->set_end_of_clock(shard.parts.empty() && ends_clock);
  const uint64_t seq = shard.next_seq++;
  push->set_seq(seq);
  Enqueue(s, std::move(message), seq);
}

void SessionCore::Enqueue(uint32_t s, Message message, uint64_t seq) {
  Shard& shard = shards_[s];
  const size_t bytes = message.PayloadBytes() + message.header.ByteSizeLong();
  if (!Owes(shard)) shard.owed_since = now_;
  shard.pushes.push_back({.seq = seq, .message = std::move(message), .bytes = bytes});
}

bool SessionCore::AllAcknowledged() const {
  return std::ranges::all_of(shards_,
                             [](const Shard& s) { return s.pushes.empty() && s.parts.empty(); });
}

std::vector<uint32_t> SessionCore::SlicesInDoubt(uint64_t clock) const {
  std::vector<uint32_t> slices;
  for (const Shard& shard : shards_) {
    for (const Unacknowledged& unacknowledged : shard.pushes) {
      const psgd::Push& push = unacknowledged.message.header.push();
      if (push.clock() != clock) continue;
      for (const PushPart& part : push.parts()) slices.push_back(part.slice());
    }
  }
  return slices;
}

uint64_t SessionCore::AcknowledgedClock() const {
  uint64_t clock = UINT64_MAX;
  for (const Shard& shard : shards_) clock = std::min(clock, shard.acknowledged_clock);
  return clock;
}

bool SessionCore::Owes(const Shard& shard) const {
  return !shard.pushes.empty() || shard.pull || shard.load || shard.probe;
}

bool SessionCore::AnyOf(std::optional<Message> Shard::*request) const {
  return std::ranges::any_of(shards_,
                             [=](const Shard& shard) { return (shard.*request).has_value(); });
}

void SessionCore::OnMessage(PeerId from, const Message& message, Time now) {
  SetTime(now);
  if (from >= shards_.size() || message.header.worker() != options_.key.worker() ||
      message.header.incarnation() != options_.key.incarnation()) {
    return;
  }
  Shard& shard = shards_[from];
  shard.last_heard = now;
  switch (message.header.body_case()) {
    case DataHeader::kPushAck:
      // A late acknowledgement of an earlier leader counts: its pushes are in all copies in sync.
      (void)IsReplaced(message.header.push_ack().life(), &shard);
      OnAck(shard, message.header.push_ack().next_seq());
      break;
    case DataHeader::kPullReply:
      if (IsReplaced(message.header.pull_reply().life(), &shard)) break;
      OnPullReply(from, shard, message);
      break;
    case DataHeader::kStateReply: {
      const StateReply& reply = message.header.state_reply();
      if (!shard.load || reply.request() != shard.load->header.load_state().request()) break;
      const int count = std::min<int>(reply.slices_size(), message.payloads.size());
      for (int i = 0; i < count; ++i) {
        if (loaded_.try_emplace(reply.slices(i), message.payloads[i]).second) ++shard.loaded;
      }
      // Counted, because an earlier one of several replies may have been lost.
      if (shard.loaded >= reply.total()) {
        shard.load.reset();
      }
      break;
    }
    case DataHeader::kWelcome:
      if (IsReplaced(message.header.welcome().life(), &shard)) break;
      OnWelcome(from, shard, message.header.welcome());
      break;
    case DataHeader::kRefusal:
      OnRefusal(from, shard, message.header.refusal(), now);
      break;
    default:
      break;
  }
}

bool SessionCore::IsReplaced(uint32_t life, Shard* shard) {
  if (life != 0 && life < shard->life) return true;
  shard->life = std::max(shard->life, life);
  return false;
}

void SessionCore::OnAck(Shard& shard, uint64_t next_seq) {
  const bool any = !shard.pushes.empty() && shard.pushes.front().seq < next_seq;
  while (!shard.pushes.empty() && shard.pushes.front().seq < next_seq) {
    const Unacknowledged& push = shard.pushes.front();
    if (push.sent) {
      shard.flying_bytes -= push.bytes;
      // If a push was sent more than once, nobody knows which of them arrived.
      if (push.mark.sent == push.first_sent) shard.window.OnArrived(push.mark, push.bytes, now_);
    }
    if (push.message.header.has_push()) {
      if (push.first_sent != Time{}) stats_.push_latency.Add(LatencyBin(now_ - push.first_sent));
      if (options_.on_acknowledged) options_.on_acknowledged(push.message, push.first_sent);
    }
    if (push.message.header.push().end_of_clock()) {
      shard.acknowledged_clock = push.message.header.push().clock();
    }
    shard.pushes.pop_front();
  }
  if (any && AllAcknowledged()) acknowledged_at_ = now_;
}

void SessionCore::OnPullReply(PeerId from, Shard& shard, const Message& message) {
  const PullReply& reply = message.header.pull_reply();
  if (!shard.pull || reply.request() != shard.pull->header.pull().request()) {
    ++stats_.reordered_replies;
    return;
  }
  size_t payloads = 0;  // begun
  for (const PullPart& part : reply.parts()) {
    if (!part.with_previous()) ++payloads;
    if (payloads == 0 || payloads > message.payloads.size()) break;
    const auto shard_number = static_cast<uint32_t>(from);
    if (!pulled_.Add(shard_number, part, message.payloads[payloads - 1], reply.life()))
      WentBack(from, part);
  }
  if (reply.last()) {
    shard.answer.apply = std::chrono::microseconds(reply.apply_us());
    shard.answer.wait = std::chrono::microseconds(reply.wait_us());
  }
  if (pulled_.left(static_cast<uint32_t>(from)) > 0) return;
  shard.pull.reset();
  if (shard.pull_sent != Time{}) shard.answer.round_trip = now_ - shard.pull_sent;
  last_answer_ = std::exchange(shard.answer, {});
  if (shard.pull_sent != Time{}) stats_.pull_latency.Add(LatencyBin(now_ - shard.pull_sent));
  const uint64_t clock = pulled_.clock(), slowest = reply.slowest_clock();
  stats_.pull_staleness.Add(clock > slowest ? clock - slowest : 0);
}

void SessionCore::OnRefusal(PeerId from, Shard& shard, const Refusal& refusal, Time now) {
  stats_.last_refusal = absl::StrCat("shard ", from, ": ", refusal.detail());
  switch (refusal.reason()) {
    case Refusal::OUT_OF_ORDER:
      OnAck(shard, refusal.next_seq());
      Doubt(from, shard, refusal.next_seq(), now);
      if (shard.pushes.empty() || shard.pushes.front().seq != refusal.next_seq()) return;
      // Every push behind a lost one is refused too: one resend answers them all.
      if (shard.gap == refusal.next_seq() && now - shard.last_gap <= options_.resend / 8) return;
      shard.gap = refusal.next_seq();
      shard.last_gap = now;
      ResendAll(shard);
      return;
    case Refusal::OVERLOADED:
    case Refusal::NOT_READY:
      ResendAll(shard);
      shard.paused_until = now + options_.resend / 8;
      return;
    case Refusal::LOST:
      fatal_ = Lost(from, refusal.detail());
      return;
    case Refusal::UNKNOWN_WORKER:
    case Refusal::FENCED:
      fatal_ = FailedPreconditionError("shard ", from, " refuses this worker: ", refusal.detail(),
                                       "; start the worker again to join anew");
      return;
    default:
      ++stats_.refused[absl::AsciiStrToLower(Refusal::Reason_Name(refusal.reason()))];
      if (refusal.request() != 0) {
        fatal_ = absl::InternalError(
            absl::StrCat("shard ", from, " refused a request: ", refusal.detail()));
      }
      OnAck(shard, refusal.next_seq());
  }
}

void SessionCore::ResendAll(Shard& shard) {
  for (Unacknowledged& push : shard.pushes) {
    if (push.sent) ++stats_.resent;
    push.sent = false;
  }
  shard.flying_bytes = 0;
}

absl::Status SessionCore::Tick(Time now) {
  SetTime(now);
  if (!fatal_.ok()) return fatal_;
  // While this side did not listen (a long step, a stopped process), silence says nothing.
  if (now - last_tick_ > options_.resend) listening_since_ = now;
  last_tick_ = now;
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    Shard& shard = shards_[s];
    if (!Owes(shard)) continue;
    const Time since = std::max(shard.last_heard, shard.owed_since);
    const Time silent_since = std::max(since, listening_since_);
    if (now - silent_since > options_.deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("shard ", s, " at ", placement_.endpoints(static_cast<int>(s)),
                       " has not answered for ", static_cast<int64_t>(Seconds(now - silent_since)),
                       " s (cluster.deadline); is ps-server still running there and the network "
                       "up? Where it kept a journal (durability.acknowledge) ps-server --recover "
                       "RUN_DIR goes on from that, else ps-run --resume from the last checkpoint"));
    }
    if (now - std::max(shard.last_sent, since) <= options_.resend) continue;
    ResendAll(shard);
    if (shard.requests.empty() && shard.probe) shard.requests.push_back(*shard.probe);
    if (shard.requests.empty() && (shard.pull || shard.load)) {
      // A pull may rightly wait at the shard, without a word, for as long as another worker takes:
      // the answer to the greeting tells that from a dead shard.
      Message hello = MakeMessage(s);
      hello.header.mutable_hello();
      shard.requests.push_back(std::move(hello));
      if (shard.pull) shard.requests.push_back(PullAgain(s));
      if (shard.load) shard.requests.push_back(*shard.load);
    }
    ++stats_.resent;
    shard.last_sent = now;
  }
  return absl::OkStatus();
}

Time SessionCore::NextTick() const {
  Time next = now_ + options_.resend;
  for (const Shard& shard : shards_) {
    if (shard.paused_until > now_) next = std::min(next, shard.paused_until);
  }
  return next;
}

std::optional<SessionCore::Outgoing> SessionCore::Next() {
  if (!fatal_.ok()) return std::nullopt;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const auto s = static_cast<uint32_t>((turn_ + i) % shards_.size());
    Shard& shard = shards_[s];
    if (shard.paused_until > now_) continue;
    // Pushes before the pull that follows them, so that a worker sees its own updates.
    const auto unsent = [](const Unacknowledged& push) { return !push.sent; };
    auto push = std::ranges::find_if(shard.pushes, unsent);
    // A push is made as late as possible, since parts of front layers may still come.
    if (push == shard.pushes.end() && HasFullMessage(shard) &&
        HasRoom(shard, shard.parts.begin()->second.travels().size())) {
      MakePush(s, false);
      push = std::prev(shard.pushes.end());
    }
    if (push != shard.pushes.end() && HasRoom(shard, push->bytes)) {
      offered_ = {.shard = s, .is_request = false};
      return Outgoing{s, &push->message};
    }
    if (push == shard.pushes.end() && !shard.requests.empty()) {
      offered_ = {.shard = s, .is_request = true};
      return Outgoing{s, &shard.requests.front()};
    }
  }
  return std::nullopt;
}

bool SessionCore::HasRoom(const Shard& shard, size_t bytes) const {
  return shard.flying_bytes == 0 ||
         shard.flying_bytes + bytes <= shard.window.bytes(options_.window_bytes);
}

bool SessionCore::HasFullMessage(const Shard& shard) const {
  return !shard.parts.empty() && shard.part_bytes >= options_.fuse_bytes;
}

bool SessionCore::WaitsForRoom() const {
  return std::ranges::any_of(shards_, [this](const Shard& shard) {
    return HasFullMessage(shard) || !shard.requests.empty() ||
           (!shard.pushes.empty() && !shard.pushes.back().sent);
  });
}

void SessionCore::Sent(Time now) {
  SetTime(now);
  Shard& shard = shards_[offered_->shard];
  shard.last_sent = now;
  if (offered_->is_request) {
    if (shard.requests.front().header.has_pull() && shard.pull_sent == Time{})
      shard.pull_sent = now;
    shard.requests.pop_front();
  } else {
    auto push = std::ranges::find_if(shard.pushes, [](const Unacknowledged& p) { return !p.sent; });
    push->sent = true;
    if (push->first_sent == Time{}) push->first_sent = now;
    push->mark = shard.window.OnSent(shard.flying_bytes == 0, now);
    shard.flying_bytes += push->bytes;
  }
  turn_ = (offered_->shard + 1) % static_cast<uint32_t>(shards_.size());
  offered_.reset();
}

void SessionCore::Retry(Time now, Duration pause) {
  SetTime(now);
  shards_[offered_->shard].paused_until = now + pause;
  offered_.reset();
}

void SessionCore::CannotSend(const absl::Status& why) {
  fatal_ = absl::InternalError(
      absl::StrCat("a message to shard ", offered_->shard, " cannot be sent: ", why.message()));
  offered_.reset();
}

void SessionCore::SetTime(Time now) {
  if (now < now_) {
    // The clock was set back: what happened so long ago is still so long ago.
    const Duration step = now - now_;
    for (Shard& shard : shards_) {
      for (Time* time : {&shard.last_gap, &shard.doubted_at, &shard.last_sent, &shard.last_heard,
                         &shard.owed_since, &shard.paused_until}) {
        *time += step;
      }
      shard.window = {};
    }
    for (Time* time : {&acknowledged_at_, &last_tick_, &listening_since_}) *time += step;
  }
  now_ = now;
}

void SessionCore::SaveState(uint64_t checkpoint,
                            const std::vector<std::pair<uint32_t, Bytes>>& states, Time now) {
  SetTime(now);
  const auto shards = static_cast<uint32_t>(shards_.size());
  std::vector<Message> open(shards_.size());
  std::vector<size_t> open_bytes(shards_.size());
  const auto close = [&](uint32_t s, bool last) {
    const uint64_t seq = shards_[s].next_seq++;
    psgd::SaveState* save = open[s].header.mutable_save_state();
    save->set_checkpoint(checkpoint);
    save->set_seq(seq);
    save->set_last(last);
    Enqueue(s, std::move(open[s]), seq);
    open[s] = MakeMessage(s);
    open_bytes[s] = 0;
  };
  for (uint32_t s = 0; s < shards_.size(); ++s) open[s] = MakeMessage(s);
  constexpr size_t kMessageBytes = 4u << 20;
  for (const auto& [id, state] : states) {
    const uint32_t s = IsProgramPart(id) ? ShardOfProgramPart(id, shards)
                                         : placement_.slices(static_cast<int>(id)).shard();
    const int there = open[s].header.save_state().slices_size();
    if (there == kMostParts || (there > 0 && open_bytes[s] + state.size() > kMessageBytes)) {
      close(s, false);
    }
    open[s].header.mutable_save_state()->add_slices(id);
    open[s].payloads.push_back(state);
    open_bytes[s] += state.size();
  }
  for (uint32_t s = 0; s < shards; ++s) close(s, true);
}

void SessionCore::LoadState(Time now) {
  SetTime(now);
  const uint64_t request = next_request_++;
  loaded_.clear();
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    Message message = MakeMessage(s);
    message.header.mutable_load_state()->set_request(request);
    shards_[s].load = message;
    shards_[s].loaded = 0;
    Ask(shards_[s], std::move(message));
  }
}

void SessionCore::OnWelcome(PeerId from, Shard& shard, const Welcome& welcome) {
  OnAck(shard, welcome.next_seq());
  if (shard.probe && welcome.probe() == shard.probe->header.hello().probe()) shard.probe.reset();
  if (shard.doubt == 0 || welcome.probe() != shard.doubt) {
    // Who waits for weights pushes nothing: this is how it hears of it.
    return Doubt(from, shard, welcome.next_seq(), now_);
  }
  shard.doubt = 0;
  if (welcome.next_seq() >= shard.doubt_seq) return;
  fatal_ = Lost(from, absl::StrCat("it expects push ", welcome.next_seq(), ", and had all below ",
                                   shard.doubt_seq));
}

void SessionCore::WentBack(PeerId from, const PullPart& part) {
  fatal_ = Lost(from, absl::StrCat("slice ", part.slice(), " is at version ", part.version(),
                                   ", and was at ", pulled_.installed(part.slice()).version));
}

absl::Status SessionCore::Lost(PeerId from, const std::string& how) const {
  return DataLossError("shard ", from, " at ", placement_.endpoints(static_cast<int>(from)),
                       " has lost pushes that it acknowledged: ", how,
                       "; was its journal damaged, or put back to an older copy, or did its "
                       "machine lose power? Go on from the last checkpoint with ps-run --resume");
}

void SessionCore::Doubt(PeerId from, Shard& shard, uint64_t next_seq, Time now) {
  const uint64_t acknowledged = shard.pushes.empty() ? shard.next_seq : shard.pushes.front().seq;
  const bool asked = shard.doubt != 0 && now - shard.doubted_at <= options_.resend;
  if (next_seq >= acknowledged || asked) return;
  shard.doubt = next_request_++;
  shard.doubt_seq = acknowledged;
  shard.doubted_at = now;
  Message hello = MakeMessage(static_cast<uint32_t>(from));
  hello.header.mutable_hello()->set_probe(shard.doubt);
  shard.requests.push_back(std::move(hello));
}

void SessionCore::Probe(const Bytes& payload, Time now) {
  SetTime(now);
  const uint64_t request = next_request_++;
  for (size_t s = 0; s < shards_.size(); ++s) {
    Message message = MakeMessage(static_cast<uint32_t>(s));
    message.header.mutable_hello()->set_probe(request);
    // Repeated without its payload: what the link lost it need not carry again.
    shards_[s].probe = message;
    const size_t begin = payload.size() * s / shards_.size();
    const size_t end = payload.size() * (s + 1) / shards_.size();
    if (end > begin) message.payloads.push_back(payload.Sub(begin, end - begin));
    Ask(shards_[s], std::move(message));
  }
}

void SessionCore::ShardsMoved(const std::vector<std::string>& endpoints, Time now) {
  now_ = now;
  placement_.mutable_endpoints()->Assign(endpoints.begin(), endpoints.end());
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    Shard& shard = shards_[s];
    ResendAll(shard);
    shard.window = {};
    shard.requests.clear();
    if (shard.pull) shard.requests.push_back(PullAgain(s));
    for (const auto& asked : {shard.load, shard.probe}) {
      if (asked) shard.requests.push_back(*asked);
    }
    shard.paused_until = now;
    shard.last_heard = shard.last_sent = now;
  }
}

}  // namespace psgd
