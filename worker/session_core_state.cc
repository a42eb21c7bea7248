// What a session does beside pushing and pulling: a checkpoint's state, and probes of the link.
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/session_core.h"

namespace psgd {

void SessionCore::SetTime(Time now) {
  if (now < now_) {
    // The clock was set back: what happened so long ago is still so long ago.
    const Duration step = now - now_;
    for (Shard& shard : shards_) {
      for (Time* time : {&shard.last_gap, &shard.doubted_at, &shard.last_sent, &shard.last_heard,
                         &shard.owed_since, &shard.paused_until}) {
        *time += step;
      }
    }
    for (Time* time : {&acknowledged_at_, &last_tick_, &listening_since_}) *time += step;
  }
  now_ = now;
}

void SessionCore::SaveState(uint64_t checkpoint,
                            const std::vector<std::pair<uint32_t, Bytes>>& residuals, Time now) {
  SetTime(now);
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
  for (const auto& [slice, residual] : residuals) {
    const uint32_t s = placement_.slices(static_cast<int>(slice)).shard();
    if (open_bytes[s] > 0 && open_bytes[s] + residual.size() > kMessageBytes) close(s, false);
    open[s].header.mutable_save_state()->add_slices(slice);
    open[s].payloads.push_back(residual);
    open_bytes[s] += residual.size();
  }
  for (uint32_t s = 0; s < shards_.size(); ++s) close(s, true);
}

void SessionCore::LoadState(Time now) {
  SetTime(now);
  const uint64_t request = next_request_++;
  loaded_.clear();
  loads_left_ = shards_.size();
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    Message message = MakeMessage(s);
    message.header.mutable_load_state()->set_request(request);
    shards_[s].load = message;
    shards_[s].loaded = 0;
    shards_[s].requests.push_back(std::move(message));
    shards_[s].owed_since = now;
  }
}

void SessionCore::OnWelcome(PeerId from, Shard& shard, const Welcome& welcome) {
  OnAck(shard, welcome.next_seq());
  if (shard.probe && welcome.probe() == shard.probe->header.hello().probe()) {
    shard.probe.reset();
    --probes_left_;
  }
  if (shard.doubt == 0 || welcome.probe() != shard.doubt) {
    // Who waits for weights pushes nothing: this is how it hears of it.
    return Doubt(from, shard, welcome.next_seq(), now_);
  }
  shard.doubt = 0;
  if (welcome.next_seq() >= shard.doubt_seq) return;
  fatal_ = Lost(from, absl::StrCat("it expects push ", welcome.next_seq(), ", and had all below ", shard.doubt_seq));
}

void SessionCore::WentBack(PeerId from, const PullPart& part) {
  fatal_ = Lost(from, absl::StrCat("slice ", part.slice(), " is at version ", part.version(), ", and was at ",
                                   base_versions_[part.slice()]));
}

absl::Status SessionCore::Lost(PeerId from, const std::string& how) const {
  return absl::DataLossError(absl::StrCat(
      "shard ", from, " at ", placement_.endpoints(static_cast<int>(from)), " has lost pushes that it acknowledged: ",
      how, "; was its journal damaged, or put back to an older copy, or did its machine lose power? Go on from the last "
      "checkpoint with ps-run --resume"));
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
  probes_left_ = shards_.size();
  for (size_t s = 0; s < shards_.size(); ++s) {
    Message message = MakeMessage(static_cast<uint32_t>(s));
    message.header.mutable_hello()->set_probe(request);
    // Repeated without its payload: what the link lost it need not carry again.
    shards_[s].probe = message;
    const size_t begin = payload.size() * s / shards_.size();
    const size_t end = payload.size() * (s + 1) / shards_.size();
    if (end > begin) message.payloads.push_back(payload.Sub(begin, end - begin));
    shards_[s].requests.push_back(std::move(message));
    shards_[s].owed_since = now;
  }
}

void SessionCore::ShardsMoved(const std::vector<std::string>& endpoints, Time now) {
  now_ = now;
  placement_.mutable_endpoints()->Assign(endpoints.begin(), endpoints.end());
  for (Shard& shard : shards_) {
    ResendAll(shard);
    shard.requests.clear();
    for (const auto& asked : {shard.pull, shard.load, shard.probe}) {
      if (asked) shard.requests.push_back(*asked);
    }
    shard.paused_until = now;
    shard.last_heard = shard.last_sent = now;
  }
}

}  // namespace psgd
