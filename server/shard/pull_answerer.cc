#include "server/shard/pull_answerer.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "server/shard/open_push.h"

namespace psgd {
namespace {

// Adds the parts of slices that share one payload of updates.
void AddUpdateParts(std::span<const SliceState> tensor, const WeightsEncoder& encoder,
                    uint32_t planes, PullReply* reply) {
  for (const SliceState& slice : tensor) {
    PullPart* part = reply->add_parts();
    part->set_slice(slice.id);
    part->set_codec(CODEC_FACTORS);
    part->set_version(slice.version);
    part->set_form(PullPart::UPDATES);
    part->set_mark(encoder.MarkOf(slice));
    part->set_with_previous(&slice != &tensor.front());
    part->set_zstd(planes);
  }
}

}  // namespace

PullAnswerer::PullAnswerer(const Config& config, const PullOptions& options, SliceSet* slices,
                           PullClocks clocks)
    : options_(options),
      unbounded_(config.consistency().staleness() < 0),
      bound_(static_cast<uint64_t>(config.consistency().staleness())),
      remembers_shown_(config.consistency().compensation() == ConsistencyConfig::DELAY),
      clocks_(std::move(clocks)),
      slices_(*slices),
      encoder_(config, options.starts) {}

void PullAnswerer::BeginLife(uint32_t starts) {
  encoder_.BeginLife(starts);
  life_versions_.clear();
  for (const SliceState& slice : slices_.all()) life_versions_.push_back(slice.version);
}

bool PullAnswerer::KnowsALaterLife(const Push& push) const {
  return !life_versions_.empty() && std::ranges::any_of(push.parts(), [&](const PushPart& part) {
    return part.base_life() > life();
  });
}

std::string PullAnswerer::LostBase(const Push& push) const {
  for (const PushPart& part : push.parts()) {
    const auto local = slices_.Local(part.slice());
    if (!local || *local >= life_versions_.size()) continue;
    if (part.base_life() == life() || part.base_version() <= life_versions_[*local]) continue;
    if (part.base_life() == 0) continue;  // of an earlier version of psgd, which does not know LOST
    return absl::StrCat("slice ", part.slice(), " came back with version ", life_versions_[*local],
                        ", and the update is computed from version ", part.base_version(),
                        " before that");
  }
  return "";
}

void PullAnswerer::Meet(uint32_t worker) {
  Worker& met = workers_[worker];
  met.shown.assign(slices_.size(), {});
  met.sent = std::vector<SentWeights>(slices_.size());
}

void PullAnswerer::Forget(uint32_t worker) {
  workers_.erase(worker);
  std::erase_if(waiting_, [&](const WaitingPull& pull) { return pull.key.worker() == worker; });
}

absl::StatusOr<std::optional<AnsweredPull>> PullAnswerer::Take(PeerId from,
                                                               const DataHeader& header,
                                                               Outbox* out) {
  PSGD_ASSIGN_OR_RETURN(WaitingPull pull, Read(from, header));
  for (const WaitingPull& other : waiting_) {
    // A newer pull overtook this one: nobody waits for it any more.
    if (other.key.worker() == pull.key.worker() && other.request > pull.request)
      return std::nullopt;
  }
  const uint64_t slowest = clocks_.slowest();
  if (Allowed(pull, slowest)) return Answer(pull, slowest, out);
  // A newer request replaces the waiting request.
  std::erase_if(waiting_,
                [&](const WaitingPull& other) { return other.key.worker() == pull.key.worker(); });
  waiting_.push_back(std::move(pull));
  if (clocks_.ahead && waiting_.back().clock == slowest + 1) {
    SendReady(clocks_.ahead, &waiting_.back(), out);
  }
  return std::nullopt;
}

void PullAnswerer::SendAhead(std::vector<uint32_t> slices, Outbox* out) {
  if (slices.empty()) return;
  std::ranges::sort(slices);
  const uint64_t slowest = clocks_.slowest();
  for (WaitingPull& pull : waiting_) {
    if (pull.clock != slowest + 1) continue;
    SendReady([&](uint32_t local) { return std::ranges::binary_search(slices, local); }, &pull,
              out);
  }
}

void PullAnswerer::SendReady(const std::function<bool(uint32_t)>& ready, WaitingPull* pull,
                             Outbox* out) {
  const auto rest = std::ranges::stable_partition(pull->slices, [&](const auto& slice) {
                      return ready(slice.first);
                    }).begin();
  if (rest == pull->slices.begin()) return;
  WaitingPull now = *pull;
  now.slices.assign(pull->slices.begin(), rest);
  pull->slices.erase(pull->slices.begin(), rest);
  // These slices have every worker's update of the pull's clock.
  Send(now, pull->slices.size(), pull->clock, out);
}

std::vector<AnsweredPull> PullAnswerer::AnswerWaiting(Outbox* out) {
  std::vector<AnsweredPull> answered;
  if (waiting_.empty()) return answered;
  const uint64_t slowest = clocks_.slowest();  // once for all pulls
  for (size_t i = 0; i < waiting_.size();) {
    if (!Allowed(waiting_[i], slowest)) {
      ++i;
      continue;
    }
    answered.push_back(Answer(waiting_[i], slowest, out));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return answered;
}

absl::StatusOr<PullAnswerer::WaitingPull> PullAnswerer::Read(PeerId from,
                                                             const DataHeader& header) const {
  const Pull& request = header.pull();
  WaitingPull pull;
  pull.from = from;
  pull.key.set_worker(header.worker());
  pull.key.set_incarnation(header.incarnation());
  pull.request = request.request();
  pull.clock = request.clock();
  pull.own_clock = request.own_clock();
  pull.aside = request.aside();
  if (request.slices_size() > static_cast<int>(slices_.size())) {
    return absl::InvalidArgumentError("more slices than the shard has");
  }
  for (uint32_t slice : request.slices()) {
    const auto local = slices_.Local(slice);
    if (!local) {
      return InvalidArgumentError("slice ", slice, " is not on shard ", options_.shard);
    }
    pull.slices.emplace_back(*local, 0);
  }
  if (request.slices_size() == 0) {
    for (uint32_t local = 0; local < slices_.size(); ++local) pull.slices.emplace_back(local, 0);
  }
  // Front layers first: slice ids ascend from the front of the network.
  std::ranges::sort(pull.slices);
  if (request.marks_size() == 0) return pull;
  if (request.marks_size() != static_cast<int>(pull.slices.size())) {
    return InvalidArgumentError(request.marks_size(), " marks for ", pull.slices.size(), " slices");
  }
  for (size_t i = 0; i < pull.slices.size(); ++i) {
    pull.slices[i].second = request.marks(static_cast<int>(i));
  }
  return pull;
}

bool PullAnswerer::Allowed(const WaitingPull& pull, uint64_t slowest) const {
  if (!unbounded_ && pull.clock > slowest + bound_) return false;
  // A worker must see its own updates, even if messages were lost or a cut holds its pushes back.
  // Otherwise its next steps would start from the same weights, and their gradients would be added
  // up. With consistency.quorum a late worker need not see its late ones.
  return clocks_.of(pull.key.worker()) >= pull.own_clock;
}

AnsweredPull PullAnswerer::Answer(const WaitingPull& pull, uint64_t slowest, Outbox* out) {
  AnsweredPull answered;
  answered.staleness = pull.clock > slowest ? pull.clock - slowest : 0;
  if (remembers_shown_ && !pull.aside) {
    answered.shown.emplace().set_worker(pull.key.worker());
    for (const auto& [local, mark] : pull.slices) answered.shown->add_slices(local);
    Show(*answered.shown);
  }
  if (!pull.slices.empty()) Send(pull, 0, slowest, out);  // all were sent ahead
  return answered;
}

Bytes PullAnswerer::EncodeSlice(const WaitingPull& pull, size_t i, PullPart* part) {
  const auto [local, mark] = pull.slices[i];
  SliceState& slice = slices_[local];
  part->set_slice(slice.id);
  if (pull.aside) {
    part->set_codec(CODEC_NONE);
    part->set_version(slice.version);
    part->set_mark(mark);
    return slice.average ? slice.average->Share() : slice.weights.Share();
  }
  SentWeights* const sent = &workers_.at(pull.key.worker()).sent[local];
  Bytes payload = encoder_.Encode(slice, pull.clock, mark, sent, part);
  const PackedPayload packed = encoder_.Pack(slice, payload, part->form());
  part->set_zstd(packed.planes);
  return packed.planes == 0 ? payload : packed.frame;
}

void PullAnswerer::Send(const WaitingPull& pull, size_t later, uint64_t slowest, Outbox* out) {
  Message message;
  size_t bytes = 0;
  const auto send = [&](size_t answered) {
    message.header.set_worker(pull.key.worker());
    message.header.set_incarnation(pull.key.incarnation());
    message.header.set_shard(options_.shard);
    PullReply* reply = message.header.mutable_pull_reply();
    reply->set_request(pull.request);
    reply->set_slowest_clock(slowest);
    reply->set_life(life());
    reply->set_remaining(static_cast<uint32_t>(pull.slices.size() - answered + later));
    reply->set_last(reply->remaining() == 0);
    out->push_back({pull.from, std::exchange(message, {})});
    bytes = 0;
  };
  const size_t most = std::max<size_t>(options_.reply_bytes, slices_.weight_bytes() / 1024);
  const auto is_full = [&](size_t parts, size_t more) {
    const auto there = static_cast<size_t>(message.header.pull_reply().parts_size());
    return there > 0 && (there + parts > kMostParts || bytes + more > most);
  };
  for (size_t i = 0; i < pull.slices.size(); ++i) {
    const auto [local, mark] = pull.slices[i];
    if (const size_t count = pull.aside ? 0 : WholeTensor(pull, i); count > 0) {
      const auto tensor = std::span<const SliceState>(slices_.all()).subspan(local, count);
      const UpdateReader reader = {pull.key.worker(), pull.key.incarnation()};
      if (std::optional<Bytes> updates = encoder_.EncodeUpdates(tensor, mark, reader)) {
        if (is_full(count, updates->size())) send(i);
        bytes += updates->size();
        const PackedPayload packed = encoder_.Pack(slices_[local], *updates, PullPart::UPDATES);
        AddUpdateParts(tensor, encoder_, packed.planes, message.header.mutable_pull_reply());
        message.payloads.push_back(packed.planes == 0 ? *std::move(updates) : packed.frame);
        i += count - 1;
        continue;
      }
    }
    PullPart part;
    Bytes payload = EncodeSlice(pull, i, &part);
    if (is_full(1, payload.size())) send(i);
    bytes += payload.size();
    *message.header.mutable_pull_reply()->add_parts() = std::move(part);
    message.payloads.push_back(std::move(payload));
  }
  send(pull.slices.size());
}

// If the requested slices from the i-th on include all slices that the shard has of a tensor, and
// the worker holds the same version of them: their number, if it fits a message. Otherwise 0.
size_t PullAnswerer::WholeTensor(const WaitingPull& pull, size_t i) const {
  const auto [local, mark] = pull.slices[i];
  const std::vector<SliceState>& slices = slices_.all();
  const uint32_t tensor = slices[local].spec.parameter();
  const bool first = local == 0 || slices[local - 1].spec.parameter() != tensor;
  if (mark == 0 || !first) return 0;
  const size_t count = EndOfTensor(slices, local) - local;
  if (count > pull.slices.size() - i || count > kMostParts) return 0;
  for (size_t k = 0; k < count; ++k) {
    if (pull.slices[i + k] != std::pair<uint32_t, uint64_t>(local + k, mark)) return 0;
  }
  return count;
}

bool PullAnswerer::Show(const WeightsShown& shown) {
  const auto worker = workers_.find(shown.worker());
  if (worker == workers_.end()) return false;
  const bool known = std::ranges::all_of(
      shown.slices(), [&](uint32_t local) { return local < worker->second.shown.size(); });
  if (!known) return false;
  for (const uint32_t local : shown.slices()) {
    const SliceState& slice = slices_[local];
    worker->second.shown[local] = {slice.version, slice.weights.Share()};
  }
  return true;
}

std::span<const ShownWeights> PullAnswerer::ShownTo(uint32_t worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? std::span<const ShownWeights>() : found->second.shown;
}

void PullAnswerer::SaveShown(uint32_t worker, MemberRecord* record, ShardSnapshot* arrays) const {
  const std::span<const ShownWeights> all = ShownTo(worker);
  for (size_t local = 0; local < all.size(); ++local) {
    record->add_shown_versions(all[local].version);
    if (all[local].weights.empty()) continue;
    arrays->shown[worker].emplace_back(slices_[local].id, all[local].weights);
  }
}

void PullAnswerer::RestoreShown(const MemberRecord& record, const ShardSnapshot& arrays) {
  std::vector<ShownWeights>& shown = workers_.at(record.worker()).shown;
  for (int i = 0; i < record.shown_versions_size(); ++i) {
    shown[i].version = record.shown_versions(i);
  }
  const auto found = arrays.shown.find(record.worker());
  if (found == arrays.shown.end()) return;
  for (const auto& [slice, weights] : found->second) {
    if (const auto local = slices_.Local(slice)) shown[*local].weights = weights;
  }
}

}  // namespace psgd
