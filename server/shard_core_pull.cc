// The part of ShardCore that answers pulls.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/shard_core.h"

namespace psgd {

bool ShardCore::Allowed(const WaitingPull& pull) const {
  // A worker sees its own updates, whatever was lost on the way or is held back for a cut: its next
  // steps would all start from the same weights, and their gradients would then be added up.
  if (members_.at(pull.key.worker()).clock < pull.own_clock) return false;
  if (unbounded_) return true;
  const auto bound = static_cast<uint64_t>(options_.config.consistency().staleness());
  return pull.clock <= SlowestClock() + bound;
}

void ShardCore::OnPull(PeerId from, Member& member, const Message& message, Outbox* out) {
  const Pull& request = message.header.pull();
  WaitingPull pull;
  pull.from = from;
  pull.key.set_worker(message.header.worker());
  pull.key.set_incarnation(message.header.incarnation());
  pull.request = request.request();
  pull.clock = request.clock();
  pull.own_clock = request.own_clock();
  if (request.slices_size() > static_cast<int>(slices_.size())) {
    Refuse(from, message.header, Refusal::MALFORMED, "more slices than the shard has", 0, out);
    return;
  }
  for (uint32_t slice : request.slices()) {
    const auto local = Local(slice);
    if (!local) {
      Refuse(from, message.header, Refusal::MALFORMED,
             absl::StrCat("slice ", slice, " is not on shard ", options_.shard), 0, out);
      return;
    }
    pull.slices.push_back(*local);
  }
  if (request.slices_size() == 0) {
    for (uint32_t local = 0; local < slices_.size(); ++local) pull.slices.push_back(local);
  }
  // Front layers first: slice ids ascend from the front of the network.
  std::sort(pull.slices.begin(), pull.slices.end());
  for (const WaitingPull& other : waiting_) {
    // Overtaken on its way by a newer one: nobody waits for it any more.
    if (other.key.worker() == pull.key.worker() && other.request > pull.request) return;
  }
  if (Allowed(pull)) {
    Reply(pull, out);
    return;
  }
  // A repeated request replaces the one that waits.
  std::erase_if(waiting_, [&](const WaitingPull& other) {
    return other.key.worker() == pull.key.worker();
  });
  waiting_.push_back(std::move(pull));
}

Bytes ShardCore::EncodeWeights(SliceState& slice, CodecId* codec) {
  if (pull_encoder_ == nullptr || slice.role != ParameterSpec::TRAINED) {
    *codec = CODEC_NONE;
    return slice.weights.Share();
  }
  *codec = pull_codec_;
  if (slice.encoded.empty() || slice.encoded_version != slice.version) {
    std::vector<std::byte> bytes;
    EncodeInput input;
    input.gradient = slice.weights.read();
    pull_encoder_->Encode(input, &bytes);
    slice.encoded = Bytes::Adopt(std::move(bytes));
    slice.encoded_version = slice.version;
  }
  return slice.encoded;
}

void ShardCore::Reply(const WaitingPull& pull, Outbox* out) {
  ++stats_.pulls;
  const uint64_t slowest = SlowestClock();
  stats_.pull_staleness.Add(pull.clock > slowest ? pull.clock - slowest : 0);
  const bool keep = options_.config.consistency().compensation() == ConsistencyConfig::DELAY;
  Member& member = members_.at(pull.key.worker());

  size_t next = 0;
  do {
    Message message;
    message.header.set_worker(pull.key.worker());
    message.header.set_incarnation(pull.key.incarnation());
    message.header.set_shard(options_.shard);
    PullReply* reply = message.header.mutable_pull_reply();
    reply->set_request(pull.request);
    reply->set_slowest_clock(slowest);
    reply->set_fastest_clock(FastestClock());
    size_t bytes = 0;
    while (next < pull.slices.size()) {
      SliceState& slice = slices_[pull.slices[next]];
      CodecId codec;
      Bytes payload = EncodeWeights(slice, &codec);
      if (bytes > 0 && bytes + payload.size() > options_.reply_bytes) break;
      bytes += payload.size();
      PullPart* part = reply->add_parts();
      part->set_slice(slice.id);
      part->set_codec(codec);
      part->set_version(slice.version);
      if (keep) member.pulled[pull.slices[next]] = {slice.version, slice.weights.Share()};
      message.payloads.push_back(std::move(payload));
      ++next;
    }
    reply->set_remaining(static_cast<uint32_t>(pull.slices.size() - next));
    reply->set_last(next == pull.slices.size());
    out->push_back({pull.from, std::move(message)});
  } while (next < pull.slices.size());
}

}  // namespace psgd
