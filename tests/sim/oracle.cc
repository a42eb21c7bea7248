#include "tests/sim/oracle.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace psgd::sim {
namespace {
constexpr size_t kBreachesKept = 20;
}  // namespace

std::span<const float> AsFloats(const Bytes& bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

void Oracle::Breach(const std::string& what) {
  if (breaches_.size() < kBreachesKept) breaches_.push_back(what);
}

void Oracle::MayHaveLost() { may_have_lost_ = true; }

void Oracle::Registered(const WorkerKey& key, const Placement& placement) {
  placement_ = placement;
  if (Member(key)) return;
  numbers_[{key.worker(), key.incarnation()}] = static_cast<uint32_t>(members_.size());
  members_.emplace_back().key = key;
}

std::optional<uint32_t> Oracle::Member(const WorkerKey& key) const {
  auto it = numbers_.find({key.worker(), key.incarnation()});
  return it == numbers_.end() ? std::nullopt : std::optional(it->second);
}

void Oracle::Removed(const WorkerKey& key) {
  const auto member = Member(key);
  if (!member) return;
  members_[*member].in = false;
  for (const auto& [clock, batch] : members_[*member].steps) {
    if (batch.first < epoch_) late_.insert(batch);
  }
}

std::string Oracle::Name(uint32_t member) const {
  const WorkerKey& key = members_[member].key;
  return absl::StrCat("worker ", key.worker(), ".", key.incarnation(), " (member ", member, ")");
}

void Oracle::Dealt(const Segment& segment) {
  const int n = segment.workers_size();
  epoch_ = std::max(epoch_, segment.epoch());
  last_clock_ = segment.first_clock() + segment.clocks();
  for (int rank = 0; rank < n; ++rank) {
    // The newest incarnation that is in holds the identity.
    MemberBooks* books = nullptr;
    for (MemberBooks& m : members_) {
      if (m.in && m.key.worker() == segment.workers(rank)) books = &m;
    }
    if (books == nullptr) {
      Breach(absl::StrCat("segment ", segment.id(), " has worker ", segment.workers(rank),
                          ", who is not in"));
      continue;
    }
    if (books->first_clock == 0 && books->steps.empty()) books->first_clock = segment.first_clock();
    for (uint32_t i = 0; i < segment.clocks(); ++i) {
      const int index = static_cast<int>(i) * n + rank;
      if (index >= segment.batches_size()) break;
      const Batch batch(segment.epoch(), segment.batches(index));
      books->steps[segment.first_clock() + i + 1] = batch;
      dealt_.insert(batch);
    }
  }
}

void Oracle::Made(const Message& message, bool poisoned) {
  WorkerKey key;
  key.set_worker(message.header.worker());
  key.set_incarnation(message.header.incarnation());
  const auto member = Member(key);
  if (!member) return Breach("a message of a worker that never registered");
  MemberBooks& books = members_[*member];
  if (message.header.has_pull()) {
    books.pulls[message.header.pull().request()] = {message.header.pull().clock(),
                                                    message.header.pull().own_clock()};
  } else if (message.header.has_push()) {
    const Push& push = message.header.push();
    auto [it, fresh] = books.pushes[message.header.shard()].try_emplace(push.seq());
    if (!fresh) return;
    ++counts_.pushes_made;
    it->second.clock = push.clock();
    it->second.poisoned = poisoned;
    for (const PushPart& part : push.parts()) it->second.slices.push_back(part.slice());
  }
}

void Oracle::Answered(const Message& message, uint32_t server) {
  if (!owners_.empty() && !may_have_lost() && owners_[message.header.shard()] != server) {
    Breach(absl::StrCat("server ", server, " answered for shard ", message.header.shard(),
                        ", which server ", owners_[message.header.shard()], " holds"));
  }
  WorkerKey key;
  key.set_worker(message.header.worker());
  key.set_incarnation(message.header.incarnation());
  const auto member = Member(key);
  if (!member) return;
  MemberBooks& books = members_[*member];
  const uint32_t shard = message.header.shard();
  const auto acknowledge = [&](uint64_t next_seq) {
    uint64_t& below = books.acknowledged[shard];
    below = std::max(below, next_seq);
  };
  switch (message.header.body_case()) {
    case DataHeader::kPushAck:
      acknowledge(message.header.push_ack().next_seq());
      break;
    case DataHeader::kWelcome:
      acknowledge(message.header.welcome().next_seq());
      break;
    case DataHeader::kRefusal: {
      const Refusal& refusal = message.header.refusal();
      if (refusal.reason() != Refusal::MALFORMED && refusal.reason() != Refusal::NON_FINITE) break;
      const auto& pushes = books.pushes[shard];
      auto refused = pushes.find(refusal.next_seq() - 1);
      // Computed from weights that are lost it cannot be taken; that it was not must be found out.
      if (!may_have_lost() && (refused == pushes.end() || !refused->second.poisoned)) {
        Breach(absl::StrCat("shard ", shard, " refused a sound push ", refusal.next_seq() - 1,
                            " of ", Name(*member), ": ", refusal.detail()));
      }
      acknowledge(refusal.next_seq());
      break;
    }
    case DataHeader::kPullReply:
      // Weights that lack what is lost are the worker's to find out.
      if (!scenario_.smooth && !lossy() && !may_have_lost()) CheckPull(shard, message);
      break;
    default:
      break;
  }
}

Oracle::Applied Oracle::ReadRegister(std::span<const float> weights) const {
  Applied applied{};
  for (uint32_t i = 0; i < kRegister; ++i) applied[i] = static_cast<int>(weights[i] - kInitial);
  return applied;
}

void Oracle::Showed(const PullReply& reply,
                    const std::vector<std::pair<uint32_t, Bytes>>& weights) {
  if (!pulls_changes()) return;
  for (const auto& [slice, bytes] : weights) {
    for (const PullPart& part : reply.parts()) {
      if (part.slice() == slice) shown_.try_emplace({slice, part.version()}, bytes);
    }
  }
}

void Oracle::Installed(const WorkerKey& key, uint32_t slice, const PulledSlice& pulled,
                       std::span<const float> weights) {
  if (!pulls_changes()) return;
  counts_.changes_checked += pulled.form == PullPart::CHANGED;
  auto shown = shown_.find({slice, pulled.version});
  if (shown == shown_.end()) return Breach("a pull brought weights that no shard had");
  const std::span<const float> expected = AsFloats(shown->second);
  if (!std::equal(weights.begin(), weights.end(), expected.begin(), expected.end())) {
    Breach(absl::StrCat("worker ", key.worker(), " has other weights than version ", pulled.version,
                        " of slice ", slice));
  }
}

void Oracle::CheckPull(uint32_t shard, const Message& message) {
  WorkerKey key;
  key.set_worker(message.header.worker());
  key.set_incarnation(message.header.incarnation());
  const MemberBooks& books = members_[*Member(key)];
  const PullReply& reply = message.header.pull_reply();
  auto asked = books.pulls.find(reply.request());
  if (asked == books.pulls.end()) return Breach("a reply to a pull that was never sent");
  const int64_t bound = scenario_.config.consistency().staleness();
  ++counts_.pulls_checked;
  const auto& [clock, own_clock] = asked->second;
  const uint64_t others_clock =
      bound < 0 || clock < static_cast<uint64_t>(bound) ? 0 : clock - static_cast<uint64_t>(bound);
  for (int p = 0; p < reply.parts_size(); ++p) {
    const uint32_t slice = reply.parts(p).slice();
    const std::span<const float> weights = AsFloats(message.payloads[p]);
    for (uint32_t m = 0; m < members_.size(); ++m) {
      if (!members_[m].in) continue;
      const uint64_t required = &members_[m] == &books ? own_clock : others_clock;
      for (const auto& [step, batch] : members_[m].steps) {
        if (step > required) break;
        bool acknowledged = false;
        const MadePush* push = Find(m, step, slice, &acknowledged);
        if (push != nullptr && push->poisoned) continue;
        if (weights[RegisterAt(m, step)] != kInitial) continue;
        Breach(absl::StrCat("stale pull: ", Name(*Member(key)), " after clock ", clock,
                            " got slice ", slice, " of shard ", shard, " without clock ", step,
                            " of ", Name(m), ", bound ", bound));
        return;
      }
    }
  }
}

const Oracle::MadePush* Oracle::Find(uint32_t member, uint64_t clock, uint32_t slice,
                                     bool* acknowledged) const {
  const MemberBooks& books = members_[member];
  const uint32_t shard = placement_.slices(static_cast<int>(slice)).shard();
  auto pushes = books.pushes.find(shard);
  if (pushes == books.pushes.end()) return nullptr;
  for (auto it = pushes->second.rbegin(); it != pushes->second.rend(); ++it) {
    const auto& [seq, push] = *it;
    if (push.clock != clock) continue;
    if (std::find(push.slices.begin(), push.slices.end(), slice) == push.slices.end()) continue;
    auto below = books.acknowledged.find(shard);
    *acknowledged = below != books.acknowledged.end() && seq < below->second;
    return &push;
  }
  return nullptr;
}

}  // namespace psgd::sim
