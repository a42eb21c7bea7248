#include "train/local_steps.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "proto/decay.h"
#include "proto/local_steps.h"

namespace psgd {
namespace {

// The head of a saved state; its arrays follow. Stored: do not change.
struct SavedHead {
  char optimizer[24] = {};
  uint64_t steps = 0;
  uint64_t clock = 0;
  uint32_t worker = 0;
  uint32_t matrices = 0;  // of muon: a checksum of which parameters are matrices; else 0
};

}  // namespace

bool LocalSteps::CanUseDevice(const OptimizerConfig& optimizer, int* state_arrays,
                              bool* orthogonal) {
  const std::unique_ptr<Optimizer> made = MakeOptimizer(optimizer);
  const std::optional<ElementUpdate> of_matrix = made->ElementUpdateAt({.rows = 1, .columns = 1});
  *state_arrays = made->state_arrays();
  *orthogonal = of_matrix && of_matrix->kind == ElementUpdate::Kind::kLookAhead;
  return of_matrix.has_value();
}

LocalSteps::LocalSteps(Options options)
    : options_(std::move(options)),
      optimizer_(MakeOptimizer(options_.config.local().optimizer())),
      hyper_(FirstHyper(options_.config.local().optimizer())),
      crew_(static_cast<size_t>(options_.threads)),
      rooms_(static_cast<size_t>(options_.threads)) {
  for (const ParameterSpec& parameter : options_.model.parameters()) {
    rates_.push_back(RatesOf(options_.config.local().optimizer(), parameter));
  }
  shards_ = Zeros();
  largest_first_.resize(rates_.size());
  std::iota(largest_first_.begin(), largest_first_.end(), 0);
  std::ranges::stable_sort(largest_first_, std::greater(),
                           [this](int p) { return shards_[p].size(); });
  if (options_.config.local().fragments() > 1) base_ = Zeros();
  if (options_.device == nullptr) {
    states_.assign(static_cast<size_t>(optimizer_->state_arrays()), Zeros());
  }
}

LocalSteps::Arrays LocalSteps::Zeros() const {
  Arrays zeros;
  for (int p = 0; p < options_.model.parameters_size(); ++p) {
    zeros.emplace_back(options_.weights(p).size(), 0.0f);
  }
  return zeros;
}

absl::Status LocalSteps::BringWeights() {
  if (weights_here_) return absl::OkStatus();
  weights_here_ = true;
  return options_.device->FetchParameters();
}

absl::Status LocalSteps::ReadStates() {
  if (options_.device == nullptr) return absl::OkStatus();
  states_.assign(static_cast<size_t>(optimizer_->state_arrays()), Zeros());
  for (size_t array = 0; array < states_.size(); ++array) {
    for (size_t p = 0; p < states_[array].size(); ++p) {
      PSGD_RETURN_IF_ERROR(options_.device->ReadState(static_cast<int>(array), static_cast<int>(p),
                                                      states_[array][p]));
    }
  }
  return absl::OkStatus();
}

absl::Status LocalSteps::WriteStates() {
  if (options_.device == nullptr) return absl::OkStatus();
  for (size_t array = 0; array < states_.size(); ++array) {
    for (size_t p = 0; p < states_[array].size(); ++p) {
      PSGD_RETURN_IF_ERROR(options_.device->WriteState(static_cast<int>(array), static_cast<int>(p),
                                                       states_[array][p]));
    }
  }
  states_.clear();
  return absl::OkStatus();
}

absl::Status LocalSteps::Take(uint64_t clock) {
  PSGD_RETURN_IF_ERROR(BringWeights());
  const auto mix = static_cast<float>(begun_ ? options_.config.local().mix() : 1);
  for (int id = 0; id < options_.placement.slices_size(); ++id) {
    if (begun_ && !options_.fragments.Carries(clock, static_cast<uint32_t>(id))) continue;
    const SliceSpec& slice = options_.placement.slices(id);
    const auto parameter = static_cast<int>(slice.parameter());
    const auto part = [&](std::span<float> all) {
      return all.subspan(slice.offset(), slice.count());
    };
    const std::span<float> own = part(options_.weights(parameter));
    const std::span<const float> theirs = part(shards_[parameter]);
    const std::span<float> from = base_.empty() ? std::span<float>() : part(base_[parameter]);
    if (begun_ && exchanged_ != clock && !from.empty()) {
      // This worker had no batch in the clock: its weight change is still to be pushed.
      for (size_t i = 0; i < own.size(); ++i) own[i] += theirs[i] - from[i];
    } else if (mix == 1) {
      std::ranges::copy(theirs, own.begin());
    } else {
      for (size_t i = 0; i < own.size(); ++i) own[i] += mix * (theirs[i] - own[i]);
    }
    if (!from.empty()) std::ranges::copy(theirs, from.begin());
  }
  begun_ = true;
  options_.wrote();
  return absl::OkStatus();
}

absl::Status LocalSteps::Step(const ScheduleTime& time) {
  ++steps_;
  const double rate =
      hyper_.learning_rate() * ScheduleFactor(options_.config.local().schedule(), time);
  if (options_.device == nullptr) {
    std::atomic<int> next = 0;
    crew_.Run([&](size_t member) {
      const int parameters = options_.model.parameters_size();
      for (int at = next++; at < parameters; at = next++) {
        const int p = largest_first_[at];
        StepOnHost(p, StepOf(p, rate), &rooms_[member]);
      }
    });
    options_.wrote();
    return absl::OkStatus();
  }
  std::vector<ElementUpdate> updates;  // by parameter
  for (int p = 0; p < options_.model.parameters_size(); ++p) {
    updates.push_back(UpdateOf(p, StepOf(p, rate)));
  }
  weights_here_ = false;
  const ClipConfig& clip = options_.config.train().clip();
  return options_.device->UpdateParameters(
      updates, {.value = static_cast<float>(clip.value()), .norm = clip.norm()});
}

OptimizerStep LocalSteps::StepOf(int parameter, double rate) const {
  const ParameterSpec& spec = options_.model.parameters(parameter);
  const ParameterRates& own = rates_[parameter];
  OptimizerStep step;
  step.step = steps_;
  step.decays = spec.decay();
  step.learning_rate = rate * own.rate;
  step.weight_decay = own.DecayOf(step.decays, hyper_.weight_decay());
  if (options_.matrices[parameter]) {
    step.rows = static_cast<size_t>(spec.shape(0));
    step.columns = shards_[parameter].size() / step.rows;
  }
  return step;
}

ElementUpdate LocalSteps::UpdateOf(int parameter, const OptimizerStep& step) const {
  if (!Trained(parameter)) return {.kind = ElementUpdate::Kind::kAdd};
  ElementUpdate update = *optimizer_->ElementUpdateAt(step);
  if (!DecouplesDecay(options_.config.local().optimizer())) {
    update.decay = static_cast<float>(step.weight_decay);
  }
  return update;
}

void LocalSteps::StepOnHost(int parameter, const OptimizerStep& step, Room* room) {
  const std::span<float> weights = options_.weights(parameter);
  std::span<const float> gradient = options_.gradient(parameter, &room->clipped);
  if (!Trained(parameter)) {
    AddDelta(gradient, weights.data(), weights.data());
    return;
  }
  if (step.weight_decay != 0 && !DecouplesDecay(options_.config.local().optimizer())) {
    const auto decay = static_cast<float>(step.weight_decay);
    room->decayed.resize(weights.size());
    for (size_t i = 0; i < weights.size(); ++i) room->decayed[i] = gradient[i] + decay * weights[i];
    gradient = room->decayed;
  }
  OptimizerBlock block;
  block.size = weights.size();
  block.gradient = gradient.data();
  block.weights_in = block.weights_out = weights.data();
  for (size_t s = 0; s < states_.size(); ++s) {
    block.state_in[s] = block.state_out[s] = states_[s][parameter].data();
  }
  optimizer_->ApplyBlock(step, block);
}

absl::Status LocalSteps::Exchange(uint64_t clock) {
  exchanged_ = clock;
  return BringWeights();
}

std::span<const float> LocalSteps::Change(int parameter) {
  const std::span<const float> own = options_.weights(parameter);
  const std::vector<float>& from = base(parameter);
  const float sign = Trained(parameter) ? 1.0f : -1.0f;
  scratch_.resize(own.size());
  for (size_t i = 0; i < own.size(); ++i) scratch_[i] = sign * (from[i] - own[i]);
  return scratch_;
}

absl::Status LocalSteps::ShowShards() {
  PSGD_RETURN_IF_ERROR(BringWeights());
  hidden_.resize(shards_.size());
  for (size_t p = 0; p < shards_.size(); ++p) {
    const std::span<float> weights = options_.weights(static_cast<int>(p));
    hidden_[p].assign(weights.begin(), weights.end());
    std::ranges::copy(shards_[p], weights.begin());
  }
  options_.wrote();
  return absl::OkStatus();
}

void LocalSteps::ShowOwn() {
  for (size_t p = 0; p < hidden_.size(); ++p) {
    std::ranges::copy(hidden_[p], options_.weights(static_cast<int>(p)).begin());
  }
  hidden_ = {};
  options_.wrote();
}

template <typename Use>
void LocalSteps::ForEachSaved(const Use& use) {
  for (Arrays& arrays : states_) {
    for (std::vector<float>& array : arrays) use(std::span(array));
  }
  for (std::vector<float>& array : base_) use(std::span(array));
  if (!KeepsOwnWeights(options_.config.local())) return;
  for (int p = 0; p < options_.model.parameters_size(); ++p) use(options_.weights(p));
}

// A matrix has another state than other parameters.
uint32_t LocalSteps::MatricesSum() const {
  if (!options_.config.local().optimizer().has_muon()) return 0;
  std::string matrices;
  for (const bool matrix : options_.matrices) matrices += matrix ? '1' : '0';
  return static_cast<uint32_t>(ChecksumOf(std::as_bytes(std::span(matrices))));
}

size_t LocalSteps::SavedBytes() {
  size_t bytes = sizeof(SavedHead);
  ForEachSaved([&](std::span<float> array) { bytes += array.size_bytes(); });
  if (!states_.empty()) return bytes;
  for (const std::vector<float>& array : shards_) {
    bytes += static_cast<size_t>(optimizer_->state_arrays()) * array.size() * sizeof(float);
  }
  return bytes;
}

void LocalSteps::Begin(uint64_t clock) {
  if (saved_clock_ != 0 && saved_clock_ != clock) begun_ = false;
  saved_clock_ = 0;
}

absl::StatusOr<Bytes> LocalSteps::Save(uint32_t worker, uint64_t clock) {
  PSGD_RETURN_IF_ERROR(BringWeights());
  PSGD_RETURN_IF_ERROR(ReadStates());
  SavedHead head;
  const absl::string_view name = optimizer_->name();
  name.copy(head.optimizer, sizeof(head.optimizer));
  head.steps = steps_;
  head.clock = clock;
  head.worker = worker;
  head.matrices = MatricesSum();
  std::vector<std::byte> saved(SavedBytes());
  std::memcpy(saved.data(), &head, sizeof(head));
  std::byte* at = saved.data() + sizeof(head);
  ForEachSaved([&](std::span<float> array) {
    std::memcpy(at, array.data(), array.size_bytes());
    at += array.size_bytes();
  });
  if (options_.device != nullptr) states_.clear();
  return Bytes::Adopt(std::move(saved));
}

absl::StatusOr<bool> LocalSteps::Restore(std::span<const std::byte> saved, uint32_t worker) {
  SavedHead head;
  if (saved.size() != SavedBytes()) return false;
  std::memcpy(&head, saved.data(), sizeof(head));
  const absl::string_view name(head.optimizer, strnlen(head.optimizer, sizeof(head.optimizer)));
  if (name != optimizer_->name() || head.matrices != MatricesSum()) return false;
  steps_ = head.steps;
  PSGD_RETURN_IF_ERROR(ReadStates());  // makes room
  const std::byte* at = saved.data() + sizeof(head);
  ForEachSaved([&](std::span<float> array) {
    std::memcpy(array.data(), at, array.size_bytes());
    at += array.size_bytes();
  });
  PSGD_RETURN_IF_ERROR(WriteStates());
  weights_here_ = true;
  options_.wrote();
  begun_ = KeepsOwnWeights(options_.config.local()) && head.worker == worker;
  exchanged_ = saved_clock_ = head.clock;
  return true;
}

}  // namespace psgd
