#include "tests/sim/oracle.h"

#include <algorithm>
#include <functional>
#include <utility>

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

void Oracle::Registered(const WorkerKey& key, const Placement& placement) {
  placement_ = placement;
  fragments_.emplace(placement, static_cast<uint32_t>(scenario_.config.local().fragments()));
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
  for (const auto& [clock, batches] : members_[*member].steps) {
    for (const Batch& batch : batches) {
      if (batch.first < epoch_) late_.insert(batch);
    }
  }
}

std::string Oracle::Name(uint32_t member) const {
  const WorkerKey& key = members_[member].key;
  return absl::StrCat("worker ", key.worker(), ".", key.incarnation(), " (member ", member, ")");
}

void Oracle::GoOnFrom(const Oracle& other, const CheckpointManifest& manifest,
                      const std::vector<ShardSnapshot>& shards) {
  members_ = other.members_;
  for (MemberBooks& books : members_) books.in = false;
  numbers_ = other.numbers_;
  holders_ = other.holders_;
  // What was left undone after the checkpoint is dealt again.
  for (const Batch& batch : other.late_) {
    if (batch.first < manifest.epoch()) late_.insert(batch);
  }
  counts_ = other.counts_;
  epoch_ = manifest.epoch();
  last_step_ = manifest.steps();
  ends_ = {manifest.clock()};
  placement_ = manifest.placement();
  Earlier& earlier = earlier_.emplace();
  earlier.members = static_cast<uint32_t>(members_.size());
  earlier.placement = manifest.placement();
  earlier.clock = manifest.clock();
  earlier.epoch = manifest.epoch();
  for (const BatchStretch& stretch : manifest.remaining()) {
    for (uint32_t i = 0; i < stretch.count(); ++i)
      earlier.remaining.insert(stretch.first() + i * std::max(1u, stretch.step()));
  }
  // A worker begins with the states of those whose numbers are too large for this run, too.
  const auto workers = static_cast<uint32_t>(scenario_.config.cluster().workers());
  for (const ShardSnapshot& shard : shards) {
    for (const auto& [worker, states] : shard.residuals) {
      for (const auto& [slice, state] : states) ++earlier.states[{worker % workers, slice}];
    }
  }
  if (scenario_.smooth) return;
  for (const ShardSnapshot& shard : shards) {
    for (const SliceSnapshot& slice : shard.slices) {
      const Applied applied = ReadRegister(AsFloats(slice.weights));
      for (uint32_t i = 0; i < kRegister; ++i) earlier.has[slice.id][i] = applied[i] != 0;
    }
  }
}

void Oracle::Loaded(const WorkerKey& key, uint32_t slice, std::span<const float> state) {
  // Each worker saved the clock of the checkpoint in every element. Several states are added up.
  const auto saved = earlier_->states.find({key.worker(), slice});
  const uint64_t states = saved == earlier_->states.end() ? 0 : saved->second;
  const auto expected = static_cast<float>(states * earlier_->clock);
  if (state.empty()) return Breach("a worker begins with a state that is empty");
  const auto wrong = std::ranges::find_if(state, [&](float value) { return value != expected; });
  if (states > 0 && wrong == state.end()) return;
  Breach(absl::StrCat("worker ", key.worker(), " begins slice ", slice, " with a state of ",
                      wrong == state.end() ? state.front() : *wrong, ", and ", states,
                      " workers saved one of clock ", earlier_->clock));
}

void Oracle::Deal(const Batch& batch, uint32_t member) {
  if (earlier_ &&
      (batch.first < earlier_->epoch ||
       (batch.first == earlier_->epoch && !earlier_->remaining.contains(batch.second)))) {
    Breach(absl::StrCat("batch ", batch.second, " of epoch ", batch.first, " is dealt to ",
                        Name(member), ", and was done in the checkpoint"));
  }
  const auto [at, first] = holders_.try_emplace(batch, member);
  if (first) return;
  const uint32_t holder = std::exchange(at->second, member);
  ++counts_.dealt_again;
  if (!members_[holder].in) return;
  Breach(absl::StrCat("batch ", batch.second, " of epoch ", batch.first, " is dealt to ",
                      Name(member), ", and ", Name(holder), " has it"));
}

void Oracle::Dealt(const Segment& segment) {
  counts_.passes += segment.epoch() > epoch_;
  counts_.uneven +=
      std::ranges::adjacent_find(segment.steps(), std::not_equal_to()) != segment.steps().end();
  epoch_ = std::max(epoch_, segment.epoch());
  uint32_t steps = 1;  // in a clock, of the member with the most
  for (const uint32_t each : segment.steps()) steps = std::max(steps, each);
  last_step_ = segment.first_step() + uint64_t{segment.clocks()} * steps;
  ends_.insert({segment.first_clock(), segment.first_clock() + segment.clocks()});
  for (int rank = 0; rank < segment.workers_size(); ++rank) {
    // The newest incarnation that is in holds the number.
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
    const Segment share = ShareOf(segment, segment.workers(rank));
    const uint32_t of_clock = share.steps().empty() ? 1 : share.steps(0);
    for (int i = 0; i < share.batches_size(); ++i) {
      const Batch batch(segment.epoch(), share.batches(i));
      books->steps[segment.first_clock() + static_cast<uint32_t>(i) / of_clock + 1].push_back(
          batch);
      Deal(batch, static_cast<uint32_t>(books - members_.data()));
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
    CountSoundness(push, &books.soundness[message.header.shard()], &it->second);
    for (const PushPart& part : push.parts()) {
      it->second.slices.push_back(part.slice());
      it->second.bases[part.slice()] = books.installed[part.slice()];
    }
  }
}

void Oracle::CountSoundness(const Push& push, Soundness* soundness, MadePush* made) {
  made->unheard = soundness->quarantined;
  if (made->poisoned) {
    soundness->bad_clock = push.clock();
    const int32_t most = scenario_.config.cluster().quarantine();
    soundness->quarantined |= ++soundness->bad >= most && most > 0;
    return;
  }
  if (push.parts_size() > 0) soundness->pushed_clock = push.clock();
  const bool sound = soundness->pushed_clock == push.clock() &&
                     soundness->bad_clock != push.clock() && push.end_of_clock();
  if (sound) soundness->bad = 0;
}

void Oracle::Answered(const Message& message, uint32_t server) {
  if (!owners_.empty() && owners_[message.header.shard()] != server) {
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
      if (refused == pushes.end() || !refused->second.poisoned) {
        Breach(absl::StrCat("shard ", shard, " refused a sound push ", refusal.next_seq() - 1,
                            " of ", Name(*member), ": ", refusal.detail()));
      }
      acknowledge(refusal.next_seq());
      break;
    }
    case DataHeader::kPullReply:
      if (!scenario_.smooth && !lossy()) CheckPull(shard, message);
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

void Oracle::Showed(const Message& answer, const std::vector<std::pair<uint32_t, Bytes>>& weights) {
  const PullReply& reply = answer.header.pull_reply();
  for (int p = 0; p < reply.parts_size(); ++p) {
    const PullPart& part = reply.parts(p);
    for (const auto& [slice, bytes] : weights) {
      if (pulls_changes() && part.slice() == slice) {
        shown_.try_emplace({slice, part.version()}, bytes);
      }
    }
    // The shard may have gone on since it made an answer that waited for its journal.
    if (!pulls_changes() && part.form() == PullPart::WHOLE) {
      shown_.insert_or_assign({part.slice(), part.version()}, answer.payloads[p]);
    }
  }
}

void Oracle::Installed(const WorkerKey& key, uint32_t slice, const PulledSlice& pulled,
                       std::span<const float> weights) {
  if (!scenario_.smooth && !lossy()) {
    Marks& installed = members_[*Member(key)].installed[slice];
    for (uint32_t i = 0; i < kRegister; ++i) installed[i] = weights[i] != kInitial;
  }
  if (!pulls_changes() && pulled.form == PullPart::WHOLE) return;
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
    // The payload has nothing of a slice that has not changed: the worker has those weights.
    const bool whole = reply.parts(p).form() == PullPart::WHOLE;
    const std::span<const float> weights =
        AsFloats(whole ? message.payloads[p] : shown_[{slice, reply.parts(p).version()}]);
    if (weights.empty()) return Breach("a pull brought nothing of a slice that never travelled");
    for (uint32_t m = 0; m < members_.size(); ++m) {
      if (!members_[m].in) continue;
      const uint64_t required = &members_[m] == &books ? own_clock : others_clock;
      for (const auto& [step, batches] : members_[m].steps) {
        if (step > required) break;
        if (!fragments_->Carries(step, slice)) continue;
        const MadePush* push = Find(m, step, slice);
        if (push != nullptr && push->poisoned) continue;
        if (weights[RegisterAt(m, step)] != kInitial) continue;
        if (step > Whole(required)) {
          ++counts_.late;
          break;
        }
        Breach(absl::StrCat("stale pull: ", Name(*Member(key)), " after clock ", clock,
                            " got slice ", slice, " of shard ", shard, " without clock ", step,
                            " of ", Name(m), ", bound ", bound));
        return;
      }
    }
  }
}

uint64_t Oracle::Whole(uint64_t clock) const {
  if (scenario_.config.consistency().quorum() == 0) return clock;
  const auto after = ends_.upper_bound(clock);
  return after == ends_.begin() ? 0 : *std::prev(after);
}

bool Oracle::Carries(uint32_t member, uint64_t clock, uint32_t slice) const {
  if (!earlier_ || member >= earlier_->members) return fragments_->Carries(clock, slice);
  return Fragments(earlier_->placement, static_cast<uint32_t>(scenario_.config.local().fragments()))
      .Carries(clock, slice);
}

const Oracle::MadePush* Oracle::Find(uint32_t member, uint64_t clock, uint32_t slice) const {
  const MemberBooks& books = members_[member];
  const Placement& placement =
      earlier_ && member < earlier_->members ? earlier_->placement : placement_;
  const uint32_t shard = placement.slices(static_cast<int>(slice)).shard();
  auto pushes = books.pushes.find(shard);
  if (pushes == books.pushes.end()) return nullptr;
  for (auto it = pushes->second.rbegin(); it != pushes->second.rend(); ++it) {
    const auto& [seq, push] = *it;
    if (push.clock != clock) continue;
    if (std::find(push.slices.begin(), push.slices.end(), slice) == push.slices.end()) continue;
    return &push;
  }
  return nullptr;
}

void Oracle::CutOrdered(const TakeCheckpoint& command) {
  OrderedCut& cut = cuts_[command.id];
  cut.clock = command.clock;
  for (const WorkerKey& key : command.savers) {
    if (auto member = Member(key)) cut.savers.push_back(*member);
  }
}

void Oracle::Accumulated(uint32_t slice, uint64_t clock, std::span<const float> gradient) {
  auto& sum = accumulated_[slice][clock];
  sum.resize(gradient.size());
  for (size_t i = 0; i < gradient.size(); ++i) sum[i] += gradient[i];
}

void Oracle::Keeps(const WorkerKey& key, uint32_t slice, std::span<const float> residual) {
  kept_[slice][*Member(key)].assign(residual.begin(), residual.end());
}

void Oracle::CheckBases(const std::string& where, uint32_t slice, const Applied& applied) {
  Marks in;
  for (uint32_t i = 0; i < kRegister; ++i) in[i] = applied[i] != 0;
  for (uint32_t i = 0; i < kRegister; ++i) {
    if (!in[i] || i / kClocks >= members_.size()) continue;
    const MadePush* push = Find(i / kClocks, i % kClocks + 1, slice);
    if (push == nullptr) continue;
    const Marks lost = push->bases.at(slice) & ~in;
    if (lost.none()) continue;
    const uint32_t first = static_cast<uint32_t>(lost._Find_first());
    Breach(absl::StrCat(where, ": clock ", push->clock, " of ", Name(i / kClocks), " in slice ",
                        slice, " is a difference from weights with clock ", first % kClocks + 1,
                        " of ", Name(first / kClocks), ", which a crash took back"));
    return;
  }
}

void Oracle::CheckEarlier(const std::string& where, uint32_t slice, const Applied& applied) {
  if (!earlier_) return;
  const Marks& has = earlier_->has[slice];
  for (uint32_t i = 0; i < earlier_->members * kClocks; ++i) {
    if ((applied[i] != 0) == has[i]) continue;
    Breach(absl::StrCat(
        where, ": clock ", i % kClocks + 1, " of ", Name(i / kClocks), " in slice ", slice,
        has[i] ? " is lost, and the checkpoint had it" : " is in, and the checkpoint had it not"));
    return;
  }
}

void Oracle::CheckSlice(const std::string& where, uint32_t slice, std::span<const float> weights) {
  const Applied applied = ReadRegister(weights);
  CheckBases(where, slice, applied);
  CheckEarlier(where, slice, applied);
  std::vector<float> expected(weights.size() - kRegister, kInitial);
  for (uint32_t i = 0; i < kRegister; ++i) {
    if (applied[i] == 0) continue;
    const uint32_t member = i / kClocks;
    const uint64_t clock = i % kClocks + 1;
    const std::string what =
        absl::StrCat(where, ": clock ", clock, " of member ", member, " in slice ", slice);
    if (applied[i] != 1) Breach(absl::StrCat(what, " was applied ", applied[i], " times"));
    const MadePush* push = member < members_.size() ? Find(member, clock, slice) : nullptr;
    if (push == nullptr) {
      Breach(absl::StrCat(what, " is in, but nobody made it"));
      continue;
    }
    if (push->poisoned) Breach(absl::StrCat(what, " is in, but was not finite"));
    if (push->unheard) Breach(absl::StrCat(what, " is in, but its worker was in quarantine"));
    const auto gradient =
        WholeGradient(scenario_.seed, member, clock, slice, static_cast<uint32_t>(weights.size()));
    for (size_t k = 0; k < expected.size(); ++k) expected[k] -= gradient[kRegister + k];
  }
  for (size_t k = 0; k < expected.size(); ++k) {
    if (weights[kRegister + k] == expected[k]) continue;
    Breach(absl::StrCat(where, ": slice ", slice, " element ", kRegister + k, " is ",
                        weights[kRegister + k], ", the applied updates make ", expected[k]));
    return;
  }
}

void Oracle::CheckBooks(const std::string& where, uint64_t clock, uint32_t slice,
                        std::span<const float> weights,
                        const std::vector<std::span<const float>>& kept) {
  for (size_t i = 0; i < weights.size(); ++i) {
    double made = 0, found = kInitial - weights[i];
    for (const auto& [c, sum] : accumulated_[slice]) {
      if (c <= clock) made += sum[i];
    }
    for (const auto& residual : kept) found += residual[i];
    if (made == found) continue;
    Breach(absl::StrCat(where, ": slice ", slice, " element ", i, ": gradients sum to ", made,
                        ", applied and kept to ", found));
    return;
  }
}

void Oracle::CheckCutSlice(const std::string& where, const OrderedCut& cut, uint32_t slice,
                           std::span<const float> weights) {
  CheckSlice(where, slice, weights);
  const Applied applied = ReadRegister(weights);
  for (uint32_t m = 0; m < members_.size(); ++m) {
    for (uint64_t clock = 1; clock <= kClocks; ++clock) {
      const bool in = applied[RegisterAt(m, clock)] != 0;
      if (in && clock > cut.clock) {
        Breach(absl::StrCat(where, ": slice ", slice, " has clock ", clock, " of ", Name(m),
                            ", beyond its clock ", cut.clock));
      }
      // What a worker that is out did not bring in time is not waited for.
      if (in || clock > cut.clock || !members_[m].in || !members_[m].steps.count(clock)) continue;
      if (!fragments_->Carries(clock, slice)) continue;
      const MadePush* push = Find(m, clock, slice);
      if (push != nullptr && push->poisoned) continue;
      Breach(absl::StrCat(where, ": slice ", slice, " lacks clock ", clock, " of ", Name(m)));
    }
  }
}

void Oracle::CheckCutStates(const std::string& where, const OrderedCut& cut, uint32_t shard,
                            const ShardSnapshot& snapshot) {
  for (uint32_t member : cut.savers) {
    if (!members_[member].in) continue;
    auto saved = snapshot.residuals.find(members_[member].key.worker());
    std::map<uint32_t, int> times;
    if (saved != snapshot.residuals.end()) {
      for (const auto& [slice, residual] : saved->second) {
        ++times[slice];
        // Workers of the simulation save their clock in every element.
        if (!lossy() && AsFloats(residual)[0] != static_cast<float>(cut.clock)) {
          Breach(absl::StrCat(where, ": the state of ", Name(member), " is of clock ",
                              AsFloats(residual)[0], ", not ", cut.clock));
        }
      }
    }
    for (int slice = 0; slice < placement_.slices_size(); ++slice) {
      if (placement_.slices(slice).shard() != shard || times[slice] == 1) continue;
      Breach(absl::StrCat(where, ": the state of ", Name(member), " for slice ", slice,
                          " is there ", times[slice], " times"));
    }
  }
}

void Oracle::CutTaken(uint32_t shard, const ShardCut& cut) {
  auto ordered = cuts_.find(cut.checkpoint);
  if (ordered == cuts_.end()) return Breach("a cut that nobody ordered");
  if (scenario_.smooth) return;
  ++counts_.cuts_checked;
  const std::string where = absl::StrCat("checkpoint ", cut.checkpoint, " of shard ", shard);
  int expected = 0;
  for (const SliceSpec& slice : placement_.slices()) expected += slice.shard() == shard;
  if (static_cast<int>(cut.snapshot.slices.size()) != expected) {
    Breach(absl::StrCat(where, " has ", cut.snapshot.slices.size(), " slices, not ", expected));
  }
  CheckCutStates(where, ordered->second, shard, cut.snapshot);
  for (const SliceSnapshot& slice : cut.snapshot.slices) {
    if (!lossy()) {
      CheckCutSlice(where, ordered->second, slice.id, AsFloats(slice.weights));
      continue;
    }
    std::vector<std::span<const float>> kept;
    for (const auto& [worker, residuals] : cut.snapshot.residuals) {
      for (const auto& [id, residual] : residuals) {
        if (id == slice.id) kept.push_back(AsFloats(residual));
      }
    }
    CheckBooks(where, ordered->second.clock, slice.id, AsFloats(slice.weights), kept);
  }
}

void Oracle::CheckWholeMessages(const std::map<uint32_t, Applied>& applied) {
  for (uint32_t m = 0; m < members_.size(); ++m) {
    for (const auto& [shard, pushes] : members_[m].pushes) {
      const uint64_t below = members_[m].acknowledged[shard];
      for (const auto& [seq, push] : pushes) {
        if (push.poisoned || push.slices.empty()) continue;
        // The checkpoint decides what is in of an earlier run.
        if (earlier_ && m < earlier_->members) continue;
        int in = 0;
        for (uint32_t slice : push.slices) {
          in += applied.at(slice)[RegisterAt(m, push.clock)] != 0;
        }
        const std::string what = absl::StrCat("push ", seq, " (clock ", push.clock, ") of ",
                                              Name(m), " to shard ", shard);
        if (in != 0 && in != static_cast<int>(push.slices.size())) {
          Breach(absl::StrCat(what, " was applied in part"));
        }
        if (seq < below && in == 0) Breach(absl::StrCat(what, " was acknowledged and is lost"));
        if (seq >= below) ++counts_.pushes_in_doubt;
      }
    }
  }
}

bool Oracle::IsQuarantined(uint32_t member) const {
  return std::ranges::any_of(members_[member].soundness,
                             [](const auto& shard) { return shard.second.quarantined; });
}

bool Oracle::AnyQuarantined() const {
  for (uint32_t m = earlier_ ? earlier_->members : 0; m < members_.size(); ++m) {
    if (IsQuarantined(m)) return true;
  }
  return false;
}

bool Oracle::MayBeUndone(uint32_t epoch, std::optional<uint32_t> holder) const {
  if (holder && IsQuarantined(*holder)) return true;
  return epoch >= epoch_ && (!holder || !members_[*holder].in);
}

void Oracle::CheckBatches(const std::map<uint32_t, Applied>& applied, bool drained) {
  // Stopped by the step limit, on request, or because no worker was left that sends sound updates.
  const auto most_steps = static_cast<uint64_t>(scenario_.config.train().max_steps());
  if (last_step_ >= most_steps || scenario_.drain_after.count() > 0) return;
  if (drained && !AnyQuarantined()) return Breach("the run ended early, and nobody asked for that");
  std::set<Batch> seen = late_;
  for (uint32_t m = 0; m < members_.size(); ++m) {
    for (const auto& [clock, batches] : members_[m].steps) {
      if (earlier_ && m < earlier_->members && clock > earlier_->clock) break;
      const bool in = std::all_of(applied.begin(), applied.end(), [&](const auto& slice) {
        if (!Carries(m, clock, slice.first)) return true;
        const MadePush* push = Find(m, clock, slice.first);
        if (push != nullptr && push->poisoned) return true;
        return slice.second[RegisterAt(m, clock)] != 0;
      });
      if (in) seen.insert(batches.begin(), batches.end());
    }
  }
  const auto epochs = static_cast<uint32_t>(scenario_.config.train().epochs());
  for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
    for (uint32_t index = 0; index < scenario_.batches_per_epoch; ++index) {
      if (seen.count({epoch, index})) continue;
      const auto holder = holders_.find({epoch, index});
      const bool dealt = holder != holders_.end();
      if (drained && MayBeUndone(epoch, dealt ? std::optional(holder->second) : std::nullopt))
        continue;
      Breach(absl::StrCat("batch ", index, " of epoch ", epoch, " was ",
                          dealt ? "dealt and not done" : "never dealt"));
    }
  }
}

void Oracle::Ended(const std::map<uint32_t, std::vector<float>>& weights, bool drained) {
  if (scenario_.smooth) return;
  std::map<uint32_t, Applied> applied;
  for (const auto& [slice, values] : weights) {
    if (lossy()) {
      std::vector<std::span<const float>> kept;
      for (const auto& [member, residual] : kept_[slice]) kept.emplace_back(residual);
      CheckBooks("at the end", UINT64_MAX, slice, values, kept);
    } else {
      CheckSlice("at the end", slice, values);
      applied[slice] = ReadRegister(values);
    }
  }
  if (lossy()) return;
  CheckWholeMessages(applied);
  CheckBatches(applied, drained);
}

}  // namespace psgd::sim
