// The part of Oracle that reads checkpoints and the final weights.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/sim/oracle.h"

namespace psgd::sim {

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

void Oracle::CheckSlice(const std::string& where, uint32_t slice, std::span<const float> weights) {
  const Applied applied = ReadRegister(weights);
  std::vector<float> expected(weights.size() - kRegister, kInitial);
  for (uint32_t i = 0; i < kRegister; ++i) {
    if (applied[i] == 0) continue;
    const uint32_t member = i / kClocks;
    const uint64_t clock = i % kClocks + 1;
    const std::string what =
        absl::StrCat(where, ": clock ", clock, " of member ", member, " in slice ", slice);
    if (applied[i] != 1) Breach(absl::StrCat(what, " was applied ", applied[i], " times"));
    bool acknowledged = false;
    const MadePush* push =
        member < members_.size() ? Find(member, clock, slice, &acknowledged) : nullptr;
    if (push == nullptr) {
      Breach(absl::StrCat(what, " is in, but nobody made it"));
      continue;
    }
    if (push->poisoned) Breach(absl::StrCat(what, " is in, but was not finite"));
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
      bool acknowledged = false;
      const MadePush* push = Find(m, clock, slice, &acknowledged);
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
        int in = 0;
        for (uint32_t slice : push.slices) {
          in += applied.at(slice)[RegisterAt(m, push.clock)] != 0;
        }
        const std::string what = absl::StrCat("push ", seq, " (clock ", push.clock, ") of ",
                                              Name(m), " to shard ", shard);
        if (in != 0 && in != static_cast<int>(push.slices.size())) {
          Breach(absl::StrCat(what, " was applied in part"));
        }
        if (seq < below && in == 0 && !MayBeMissed(m))
          Breach(absl::StrCat(what, " was acknowledged and is lost"));
        if (seq >= below) ++counts_.pushes_in_doubt;
      }
    }
  }
}

void Oracle::CheckBatches(const std::map<uint32_t, Applied>& applied) {
  // Stopped by the step limit or on request.
  if (last_clock_ >= kClocks || scenario_.drain_after.count() > 0) return;
  std::set<Batch> seen = late_;
  for (uint32_t m = 0; m < members_.size(); ++m) {
    for (const auto& [clock, batch] : members_[m].steps) {
      const bool in = std::all_of(applied.begin(), applied.end(), [&](const auto& slice) {
        bool acknowledged = false;
        const MadePush* push = Find(m, clock, slice.first, &acknowledged);
        if (push != nullptr && (push->poisoned || (acknowledged && MayBeMissed(m)))) return true;
        return slice.second[RegisterAt(m, clock)] != 0;
      });
      if (in) seen.insert(batch);
    }
  }
  for (uint32_t epoch = 0; epoch <= epoch_; ++epoch) {
    for (uint32_t index = 0; index < scenario_.batches_per_epoch; ++index) {
      if (seen.count({epoch, index})) continue;
      Breach(absl::StrCat("batch ", index, " of epoch ", epoch, " was ",
                          dealt_.count({epoch, index}) ? "dealt and not done" : "never dealt"));
    }
  }
}

void Oracle::Ended(const std::map<uint32_t, std::vector<float>>& weights) {
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
  CheckBatches(applied);
}

}  // namespace psgd::sim
