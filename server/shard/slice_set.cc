#include "server/shard/slice_set.h"

#include <algorithm>
#include <map>

#include "common/program_state.h"

namespace psgd {

namespace {

uint64_t WeightBytesOf(std::span<const SliceState> slices) {
  uint64_t bytes = 0;
  for (const SliceState& slice : slices) bytes += slice.weights.read().size_bytes();
  return bytes;
}

}  // namespace

absl::Status SliceSet::Install(const InstallModel& command) {
  auto updater = std::make_unique<SliceUpdater>(config_);
  std::vector<SliceState> slices;
  std::vector<int64_t> local(command.placement->slices_size(), -1);
  for (int id = 0; id < command.placement->slices_size(); ++id) {
    const SliceSpec& spec = command.placement->slices(id);
    if (spec.shard() != shard_) continue;
    PSGD_ASSIGN_OR_RETURN(SliceState slice,
                          updater->Make(id, spec, *command.model, config_.seed(),
                                        command.checkpoint.get(), command.given.get()));
    local[id] = static_cast<int64_t>(slices.size());
    slices.push_back(std::move(slice));
  }
  model_ = command.model;
  placement_ = command.placement;
  slices_ = std::move(slices);
  weight_bytes_ = WeightBytesOf(slices_);
  local_ = std::move(local);
  updater_ = std::move(updater);
  programs_.clear();
  if (command.checkpoint != nullptr) {
    const auto shards = static_cast<uint32_t>(config_.cluster().shards());
    programs_ =
        command.checkpoint->ProgramStates(static_cast<uint32_t>(config_.cluster().workers()));
    for (auto& [worker, parts] : programs_) {
      std::erase_if(parts, [&](const auto& part) {
        return ShardOfProgramPart(part.first, shards) != shard_;
      });
    }
  }
  return absl::OkStatus();
}

absl::Status SliceSet::Restore(const ShardImage& image) {
  model_ = std::make_shared<ModelSpec>(image.record.model());
  placement_ = std::make_shared<Placement>(image.record.placement());
  updater_ = std::make_unique<SliceUpdater>(config_);
  local_.assign(placement_->slices_size(), -1);
  std::map<uint32_t, decltype(SliceContents::residuals)> by_slice;
  for (const auto& [worker, residuals] : image.arrays.residuals) {
    for (const auto& [id, state] : residuals) {
      if (IsProgramPart(id)) {
        programs_[worker][id] = state;
      } else {
        by_slice[id][worker] = state;
      }
    }
  }
  for (const SliceSnapshot& saved : image.arrays.slices) {
    if (saved.id >= local_.size() ||
        saved.spec.parameter() >= static_cast<uint32_t>(model_->parameters_size())) {
      return DataLossError("slice ", saved.id, " is not in the placement");
    }
    SliceContents contents{saved.version, saved.steps, saved.weights, saved.states,
                           std::move(by_slice[saved.id])};
    PSGD_ASSIGN_OR_RETURN(SliceState slice,
                          updater_->Restore(saved.id, saved.spec, *model_, std::move(contents)));
    local_[saved.id] = static_cast<int64_t>(slices_.size());
    slices_.push_back(std::move(slice));
  }
  weight_bytes_ = WeightBytesOf(slices_);
  return absl::OkStatus();
}

void SliceSet::Save(ShardImage* image) const {
  *image->record.mutable_model() = *model_;
  *image->record.mutable_placement() = *placement_;
  image->arrays.slices = Snapshot();
  AddStates({}, &image->arrays);
}

std::vector<SliceSnapshot> SliceSet::Snapshot() const {
  std::vector<SliceSnapshot> snapshots;
  snapshots.reserve(slices_.size());
  for (const SliceState& slice : slices_) snapshots.push_back(updater_->Snapshot(slice));
  return snapshots;
}

std::optional<uint32_t> SliceSet::Local(uint32_t slice) const {
  if (slice >= local_.size() || local_[slice] < 0) return std::nullopt;
  return static_cast<uint32_t>(local_[slice]);
}

absl::StatusOr<std::vector<SharedPayload>> SliceSet::Open(Message* message) const {
  return OpenPush(codecs_, slices_, local_, message);
}

float SliceSet::ContributionScale(float share) const {
  return config_.consistency().reduction() == ConsistencyConfig::SUM ? 1.0f : share;
}

void SliceSet::Apply(const Push& push, std::span<const SharedPayload> payloads, float share,
                     uint64_t usual_age, std::span<const ShownWeights> shown, UpdateRates rates) {
  rates.clocks = share;
  for (const SharedPayload& shared : payloads) {
    for (size_t i = 0; i < shared.slices.size(); ++i) {
      const size_t local = shared.slices[i];
      const uint64_t base = push.parts(shared.first + static_cast<int>(i)).base_version();
      SliceState& slice = slices_[local];
      Contribution contribution;
      contribution.reader = shared.opened[i].reader.get();
      contribution.factors = shared.opened[i].factors;
      contribution.scale = ContributionScale(share);
      const uint64_t age = slice.version - base;
      contribution.staleness = age > usual_age ? age - usual_age : 0;
      // A pull that was answered twice leaves later weights here, which the worker did not use.
      if (local < shown.size() && shown[local].version == base) {
        contribution.pulled = shown[local].weights;
      }
      updater_->Apply(slice, {&contribution, 1}, rates);
    }
  }
}

std::vector<SharedPayload> SliceSet::Payloads(const Push& push) const {
  auto payloads = SharedPayloads(slices_, local_, push);
  return payloads.ok() ? *std::move(payloads) : std::vector<SharedPayload>();
}

void SliceSet::ApplyTogether(std::vector<WaitingPayload> payloads,
                             const std::map<uint32_t, uint32_t>& absent, const UpdateRates& rates) {
  std::map<uint32_t, std::vector<WaitingPayload>> by_tensor;
  for (WaitingPayload& payload : payloads) {
    const uint32_t tensor = slices_[payload.shared.slices.front()].spec.parameter();
    by_tensor[tensor].push_back(std::move(payload));
  }
  for (auto& [tensor, of_tensor] : by_tensor) {
    ApplyTensor(of_tensor, absent, rates);
    of_tensor.clear();  // what is unpacked is large
  }
}

// A few bytes may unpack to factors of many megabytes, so only some payloads are open at once. If
// there are more, the sum so far is kept: the same sum, in the same order.
void SliceSet::ApplyTensor(std::span<WaitingPayload> payloads,
                           const std::map<uint32_t, uint32_t>& absent, const UpdateRates& rates) {
  struct Gathered {
    std::map<uint32_t, uint32_t> absent;
    uint64_t steps = 0;  // of all contributions in time, and of the absent
    uint64_t late_of_all = 0;
    std::vector<Contribution> contributions;
    std::vector<float> sum;
  };
  std::map<size_t, Gathered> by_slice;
  for (const WaitingPayload& payload : payloads) {
    for (const size_t local : payload.shared.slices) {
      const auto [at, is_new] = by_slice.try_emplace(local);
      Gathered& gathered = at->second;
      if (is_new) gathered.absent = absent;
      if (payload.late > 0) {
        gathered.late_of_all = std::max(gathered.late_of_all, payload.of_all);
        continue;
      }
      gathered.steps += payload.steps;
      gathered.absent.erase(payload.message->header.worker());
    }
  }
  for (auto& [local, gathered] : by_slice) {
    if (gathered.steps == 0) {
      // The last clock of a segment may exchange other slices: a late change has its share in its
      // own clock.
      gathered.steps = gathered.late_of_all;
      continue;
    }
    for (const auto& [worker, steps] : gathered.absent) gathered.steps += steps;
  }
  while (!payloads.empty()) {
    const auto open = payloads.first(HowManyFit(payloads, open_bytes_));
    payloads = payloads.subspan(open.size());
    for (auto& [message, shared, steps, late, of_all] : open) {
      if (shared.opened.empty()) {
        auto opened = OpenPayload(codecs_, slices_, *message, shared);
        if (!opened.ok()) continue;
        shared.opened = *std::move(opened);
      }
      for (size_t i = 0; i < shared.slices.size(); ++i) {
        OpenedPart& part = shared.opened[i];
        Gathered& gathered = by_slice[shared.slices[i]];
        Contribution& contribution = gathered.contributions.emplace_back();
        contribution.reader = part.reader.get();
        contribution.scale =
            ContributionScale(static_cast<float>(steps) / static_cast<float>(gathered.steps));
        contribution.factors = std::move(part.factors);
        contribution.staleness = late;
      }
    }
    if (payloads.empty()) break;
    for (auto& [local, gathered] : by_slice) {
      updater_->AddUp(gathered.contributions, slices_[local].weights.size(), &gathered.sum);
    }
    for (WaitingPayload& waiting : open) waiting.shared.opened.clear();
  }
  for (const auto& [local, gathered] : by_slice) {
    if (gathered.contributions.empty()) continue;
    updater_->Apply(slices_[local], gathered.contributions, rates, gathered.sum);
  }
}

std::vector<std::pair<uint32_t, Bytes>> SliceSet::StatesOf(uint32_t worker) const {
  std::vector<std::pair<uint32_t, Bytes>> states;
  for (const SliceState& slice : slices_) {
    const auto found = slice.resumed_residuals.find(worker);
    if (found != slice.resumed_residuals.end()) states.emplace_back(slice.id, found->second);
  }
  const auto program = programs_.find(worker);
  if (program != programs_.end()) {
    states.insert(states.end(), program->second.begin(), program->second.end());
  }
  return states;
}

void SliceSet::KeepProgramPart(uint32_t worker, uint32_t part, const Bytes& bytes) {
  programs_[worker][part] = bytes;
}

void SliceSet::DropStates(uint32_t worker) {
  for (SliceState& slice : slices_) slice.resumed_residuals.erase(worker);
  programs_.erase(worker);
}

void SliceSet::AddStates(const std::set<uint32_t>& but, ShardSnapshot* snapshot) const {
  const auto add = [&](uint32_t worker, uint32_t id, const Bytes& state) {
    if (!but.contains(worker)) snapshot->residuals[worker].emplace_back(id, state);
  };
  for (const SliceState& slice : slices_) {
    for (const auto& [worker, state] : slice.resumed_residuals) add(worker, slice.id, state);
  }
  for (const auto& [worker, parts] : programs_) {
    for (const auto& [part, bytes] : parts) add(worker, part, bytes);
  }
}

std::vector<std::pair<uint32_t, Bytes>> SliceSet::ShareWeights() const {
  std::vector<std::pair<uint32_t, Bytes>> shared;
  shared.reserve(slices_.size());
  for (const SliceState& slice : slices_) shared.emplace_back(slice.id, slice.weights.Share());
  return shared;
}

}  // namespace psgd
