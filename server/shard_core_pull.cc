// The part of ShardCore that answers pulls.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/shard_core.h"

namespace psgd {
namespace {

// Parts of slices that share the payload of updates.
void AddUpdateParts(std::span<const SliceState> tensor, uint32_t planes, PullReply* reply) {
  for (const SliceState& slice : tensor) {
    PullPart* part = reply->add_parts();
    part->set_slice(slice.id);
    part->set_codec(CODEC_FACTORS);
    part->set_version(slice.version);
    part->set_form(PullPart::UPDATES);
    part->set_mark(slice.version + 1);
    part->set_with_previous(&slice != &tensor.front());
    part->set_zstd(planes);
  }
}

}  // namespace

bool ShardCore::Allowed(const WaitingPull& pull, uint64_t slowest) const {
  const auto bound = static_cast<uint64_t>(options_.config.consistency().staleness());
  if (!unbounded_ && pull.clock > slowest + bound) return false;
  // A worker sees its own updates, whatever was lost on the way or is held back for a cut: its next
  // steps would all start from the same weights, and their gradients would then be added up.
  return members_.at(pull.key.worker()).clock >= pull.own_clock;
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
    pull.slices.emplace_back(*local, 0);
  }
  if (request.slices_size() == 0) {
    for (uint32_t local = 0; local < slices_.size(); ++local) pull.slices.emplace_back(local, 0);
  }
  // Front layers first: slice ids ascend from the front of the network.
  std::sort(pull.slices.begin(), pull.slices.end());
  if (request.marks_size() > 0) {
    if (request.marks_size() != static_cast<int>(pull.slices.size())) {
      Refuse(from, message.header, Refusal::MALFORMED,
             absl::StrCat(request.marks_size(), " marks for ", pull.slices.size(), " slices"), 0, out);
      return;
    }
    for (size_t i = 0; i < pull.slices.size(); ++i) {
      pull.slices[i].second = request.marks(static_cast<int>(i));
    }
  }
  for (const WaitingPull& other : waiting_) {
    // Overtaken on its way by a newer one: nobody waits for it any more.
    if (other.key.worker() == pull.key.worker() && other.request > pull.request) return;
  }
  if (Allowed(pull, SlowestClock())) {
    Reply(pull, out);
    return;
  }
  // A repeated request replaces the one that waits.
  std::erase_if(waiting_, [&](const WaitingPull& other) {
    return other.key.worker() == pull.key.worker();
  });
  waiting_.push_back(std::move(pull));
}

// How many slices from the i-th on that are asked for are all that the shard has of a tensor, where
// the worker holds the same version of them; 0: they are not.
size_t ShardCore::WholeTensor(const WaitingPull& pull, size_t i) const {
  const auto [local, mark] = pull.slices[i];
  const uint32_t tensor = slices_[local].spec.parameter();
  const bool first = local == 0 || slices_[local - 1].spec.parameter() != tensor;
  if (mark == 0 || !first) return 0;
  const size_t count = EndOfTensor(slices_, local) - local;
  if (count > pull.slices.size() - i) return 0;
  for (size_t k = 0; k < count; ++k) {
    if (pull.slices[i + k] != std::pair<uint32_t, uint64_t>(local + k, mark)) return 0;
  }
  return count;
}

void ShardCore::Show(uint32_t worker, const std::vector<uint32_t>& slices) {
  Member& member = members_.at(worker);
  for (uint32_t local : slices) {
    member.pulled[local] = {slices_[local].version, slices_[local].weights.Share()};
  }
  if (!keeps_journal_) return;
  JournalEntry entry;
  entry.head.mutable_shown()->set_worker(worker);
  entry.head.mutable_shown()->mutable_slices()->Add(slices.begin(), slices.end());
  journal_.push_back(std::move(entry));
}

void ShardCore::Reply(const WaitingPull& pull, Outbox* out) {
  ++stats_.pulls;
  const uint64_t slowest = SlowestClock();
  stats_.pull_staleness.Add(pull.clock > slowest ? pull.clock - slowest : 0);
  Member& member = members_.at(pull.key.worker());
  if (options_.config.consistency().compensation() == ConsistencyConfig::DELAY) {
    std::vector<uint32_t> shown;
    for (const auto& [local, mark] : pull.slices) shown.push_back(local);
    Show(pull.key.worker(), shown);
  }

  Message message;
  size_t bytes = 0;
  const auto send = [&](size_t answered) {
    message.header.set_worker(pull.key.worker());
    message.header.set_incarnation(pull.key.incarnation());
    message.header.set_shard(options_.shard);
    PullReply* reply = message.header.mutable_pull_reply();
    reply->set_request(pull.request);
    reply->set_slowest_clock(slowest);
    reply->set_fastest_clock(FastestClock());
    reply->set_remaining(static_cast<uint32_t>(pull.slices.size() - answered));
    reply->set_last(answered == pull.slices.size());
    out->push_back({pull.from, std::exchange(message, {})});
    bytes = 0;
  };
  for (size_t i = 0; i < pull.slices.size(); ++i) {
    const auto [local, mark] = pull.slices[i];
    if (const size_t count = WholeTensor(pull, i); count > 0) {
      const auto tensor = std::span<const SliceState>(slices_).subspan(local, count);
      const UpdateReader reader = {pull.key.worker(), pull.key.incarnation()};
      if (std::optional<Bytes> updates = weights_encoder_.EncodeUpdates(tensor, mark, reader)) {
        if (bytes > 0 && bytes + updates->size() > options_.reply_bytes) send(i);
        bytes += updates->size();
        const PackedPayload packed =
            weights_encoder_.Pack(slices_[local], *updates, PullPart::UPDATES);
        AddUpdateParts(tensor, packed.planes, message.header.mutable_pull_reply());
        message.payloads.push_back(packed.planes == 0 ? *std::move(updates) : packed.frame);
        i += count - 1;
        continue;
      }
    }
    SliceState& slice = slices_[local];
    PullPart part;
    part.set_slice(slice.id);
    Bytes payload =
        weights_encoder_.Encode(slice, pull.clock, mark, &member.sent[local], &part);
    if (bytes > 0 && bytes + payload.size() > options_.reply_bytes) send(i);
    bytes += payload.size();
    const PackedPayload packed = weights_encoder_.Pack(slice, payload, part.form());
    part.set_zstd(packed.planes);
    *message.header.mutable_pull_reply()->add_parts() = std::move(part);
    message.payloads.push_back(packed.planes == 0 ? std::move(payload) : packed.frame);
  }
  send(pull.slices.size());
}

}  // namespace psgd
