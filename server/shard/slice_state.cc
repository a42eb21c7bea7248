#include "server/shard/slice_state.h"

#include <algorithm>
#include <cstring>

#include "compression/slice_shape.h"
#include "proto/decay.h"
#include "proto/initialize.h"
#include "server/shard/left_residuals.h"
#include "server/shard/placement.h"

namespace psgd {
namespace {

// Enough for the copies on write that one pull or checkpoint causes.
constexpr size_t kPoolBytes = 256u << 20;
// Updates in one message.
constexpr uint64_t kMostUpdateBytes = 32u << 20;

bool IsPlainSgd(const OptimizerConfig& optimizer) {
  return optimizer.kind_case() == OptimizerConfig::KIND_NOT_SET || optimizer.has_worker() ||
         (optimizer.has_sgd() && optimizer.sgd().momentum() == 0);
}

}  // namespace

SliceUpdater::SliceUpdater(const Config& config)
    : consistency_(config.consistency()),
      optimizer_config_(config.optimizer()),
      average_(config.train().average()),
      workers_(static_cast<uint32_t>(config.cluster().workers())),
      decoupled_decay_(DecouplesDecay(config.optimizer())),
      logs_changes_(config.compression().pull().has_delta() &&
                    !config.compression().pull().delta().has_codec()),
      logs_updates_(logs_changes_ && IsPlainSgd(config.optimizer()) &&
                    config.consistency().compensation() != ConsistencyConfig::DELAY),
      optimizer_(MakeOptimizer(config.optimizer(), config.cluster().workers())),
      pool_(kPoolBytes) {}

SliceState SliceUpdater::Prepare(uint32_t id, const SliceSpec& spec,
                                 const ParameterSpec& parameter) {
  SliceState slice;
  slice.id = id;
  slice.spec = spec;
  slice.parameter = parameter.name();
  slice.role = parameter.role();
  slice.rates = RatesOf(optimizer_config_, parameter);
  slice.decays = parameter.decay();
  slice.coupled_decay = (slice.decays || slice.rates.weight_decay) && !decoupled_decay_;
  slice.decays_here = slice.coupled_decay && parameter.sparse();
  slice.shape = ShapeOf(spec, parameter);
  slice.weights = CowArray(&pool_, spec.count());
  if (slice.role == ParameterSpec::TRAINED) {
    for (int i = 0; i < optimizer_->state_arrays(); ++i) {
      slice.states.emplace_back(&pool_, spec.count());
    }
  }
  if (average_ > 0) slice.average.emplace(&pool_, spec.count());
  return slice;
}

absl::StatusOr<SliceState> SliceUpdater::Make(uint32_t id, const SliceSpec& spec,
                                              const ModelSpec& model, uint64_t seed,
                                              const LoadedCheckpoint* checkpoint,
                                              const GivenWeights* given) {
  const ParameterSpec& parameter = model.parameters(static_cast<int>(spec.parameter()));
  if (checkpoint != nullptr) {
    PSGD_ASSIGN_OR_RETURN(SliceContents saved,
                          checkpoint->Extract(parameter.name(), spec.offset(), spec.count()));
    HandOnResiduals(workers_, spec.count(), &saved.residuals);
    return Restore(id, spec, model, std::move(saved));
  }
  SliceState slice = Prepare(id, spec, parameter);
  StartLogs(slice, parameter);
  if (parameter.initializer().has_given()) {
    const float* first = given->at(parameter.name()).data() + spec.offset();
    std::copy_n(first, spec.count(), slice.weights.Writable().begin());
  } else {
    FillInitial(parameter, seed, spec.parameter(), spec.offset(), slice.weights.Writable());
  }
  if (slice.average) std::ranges::copy(slice.weights.read(), slice.average->Writable().begin());
  return slice;
}

absl::StatusOr<SliceState> SliceUpdater::Restore(uint32_t id, const SliceSpec& spec,
                                                 const ModelSpec& model, SliceContents contents) {
  const ParameterSpec& parameter = model.parameters(static_cast<int>(spec.parameter()));
  SliceState slice = Prepare(id, spec, parameter);
  const auto fill = [&](CowArray& array, const Bytes& values) -> absl::Status {
    if (values.size() != array.size() * sizeof(float)) {
      return DataLossError("slice ", id, " of ", parameter.name(), " has ", array.size(),
                           " elements, and ", values.size(), " bytes are kept of them");
    }
    std::memcpy(array.Writable().data(), values.data(), values.size());
    return absl::OkStatus();
  };
  const auto find = [&](absl::string_view name) {
    return std::ranges::find_if(contents.states,
                                [&](const auto& entry) { return entry.first == name; });
  };
  PSGD_RETURN_IF_ERROR(fill(slice.weights, contents.weights));
  if (slice.average) {
    // A run that had no average begins one.
    const auto average = find(kAverageState);
    const bool begins = average == contents.states.end();
    PSGD_RETURN_IF_ERROR(fill(*slice.average, begins ? contents.weights : average->second));
  }
  for (size_t i = 0; i < slice.states.size(); ++i) {
    const absl::string_view name = optimizer_->state_name(static_cast<int>(i));
    const auto state = find(name);
    if (state == contents.states.end()) {
      return FailedPreconditionError(
          "the checkpoint has no ", std::string(name), " for ", parameter.name(),
          "; it was taken with another optimizer: resume with the optimizer it was taken with");
    }
    PSGD_RETURN_IF_ERROR(fill(slice.states[i], state->second));
  }
  slice.version = contents.version;
  slice.steps = contents.steps;
  slice.resumed_residuals = std::move(contents.residuals);
  StartLogs(slice, parameter);
  return slice;
}

void SliceUpdater::StartLogs(SliceState& slice, const ParameterSpec& parameter) const {
  if (logs_changes_) slice.changes.emplace(slice.spec.count(), slice.version);
  // A worker is never sent more bytes of updates than the tensor has.
  if (logs_updates_) {
    const uint64_t most = ElementsOf(parameter) * sizeof(float);
    slice.updates.emplace(std::min(most, kMostUpdateBytes), slice.version);
  }
}

void SliceUpdater::Log(SliceState& slice, std::span<const Contribution> contributions,
                       const OptimizerStep& step, float decay) {
  if (slice.changes) slice.changes->AddAll(slice.version);
  if (!slice.updates) return;
  FactorUpdate update;
  update.version = slice.version;
  update.rate = static_cast<float>(step.learning_rate);
  update.decay = decay;
  for (const Contribution& contribution : contributions) {
    if (contribution.factors.payload.empty()) return slice.updates->Forget(slice.version);
    update.parts.push_back(contribution.factors);
    update.parts.back().scale = ScaleOf(contribution);
  }
  slice.updates->Add(std::move(update));
}

float SliceUpdater::ScaleOf(const Contribution& contribution) const {
  if (consistency_.compensation() != ConsistencyConfig::SCALE) return contribution.scale;
  return contribution.scale / static_cast<float>(1 + contribution.staleness);
}

bool SliceUpdater::Compensates(const Contribution& contribution,
                               std::span<const float> weights) const {
  return consistency_.compensation() == ConsistencyConfig::DELAY &&
         contribution.pulled.size() == weights.size_bytes();
}

void SliceUpdater::Compensate(const Contribution& contribution, std::span<const float> now,
                              const float* then, std::span<float> gradient) const {
  CompensateDelay(static_cast<float>(consistency_.delay_lambda()), now, {then, now.size()},
                  gradient);
  // The correction is quadratic in the worker's own gradient, so the scale comes afterwards.
  const float scale = ScaleOf(contribution);
  for (float& value : gradient) {
    value = std::clamp(value * scale, -kLargestUpdate, kLargestUpdate);
  }
}

void SliceUpdater::AddUp(std::span<Contribution> contributions, size_t elements,
                         std::vector<float>* sum) const {
  const auto is_open = [](const Contribution& contribution) {
    return contribution.reader != nullptr;
  };
  if (std::ranges::none_of(contributions, is_open)) return;
  sum->resize(elements);
  for (size_t begin = 0; begin < elements; begin += kBlock) {
    const auto block = std::span(*sum).subspan(begin, std::min(kBlock, elements - begin));
    for (const Contribution& contribution : contributions) {
      if (is_open(contribution)) contribution.reader->AddBlock(ScaleOf(contribution), block);
    }
  }
  for (Contribution& contribution : contributions) {
    if (!is_open(contribution)) continue;
    contribution.without_decay = contribution.reader->without_decay();
    contribution.reader = nullptr;
  }
}

const float* SliceUpdater::Gather(std::span<const Contribution> contributions,
                                  std::span<const float> sum, std::span<const float> weights,
                                  float decay, size_t begin, std::span<float> into) {
  if (contributions.size() == 1 && sum.empty() && decay == 0 && ScaleOf(contributions[0]) == 1.0f &&
      !Compensates(contributions[0], weights)) {
    const auto direct = contributions[0].reader->Direct();
    if (!direct.empty()) return direct.data() + begin;
  }
  for (size_t at = 0; at < into.size(); at += kBlock) {
    const size_t size = std::min(kBlock, into.size() - at);
    Sum(contributions, sum, weights, decay, begin + at, into.subspan(at, size));
  }
  return into.data();
}

void SliceUpdater::Sum(std::span<const Contribution> contributions, std::span<const float> sum,
                       std::span<const float> weights, float decay, size_t begin,
                       std::span<float> block) const {
  if (sum.empty()) {
    std::ranges::fill(block, 0.0f);
  } else {
    std::ranges::copy(sum.subspan(begin, block.size()), block.begin());
  }
  for (const Contribution& contribution : contributions) {
    if (contribution.reader == nullptr) continue;
    if (Compensates(contribution, weights)) {
      contribution.reader->AddBlock(1.0f, block);
      const auto* then = reinterpret_cast<const float*>(contribution.pulled.data());
      Compensate(contribution, weights.subspan(begin, block.size()), then + begin, block);
    } else {
      contribution.reader->AddBlock(ScaleOf(contribution), block);
    }
  }
  if (decay != 0) {
    for (size_t i = 0; i < block.size(); ++i) block[i] += decay * weights[begin + i];
  }
}

void SliceUpdater::CompensateEntries(const Contribution& contribution,
                                     std::span<const float> weights,
                                     std::span<const uint32_t> indices) {
  const auto* pulled = reinterpret_cast<const float*>(contribution.pulled.data());
  float now[kBlock], then[kBlock];
  for (size_t i = 0; i < indices.size(); ++i) {
    now[i] = weights[indices[i]];
    then[i] = pulled[indices[i]];
  }
  Compensate(contribution, {now, indices.size()}, then, {block_, indices.size()});
}

void SliceUpdater::GatherEntries(std::span<const Contribution> contributions,
                                 std::span<const float> weights) {
  indices_.clear();
  values_.clear();
  for (const Contribution& contribution : contributions) {
    const bool compensates = Compensates(contribution, weights);
    const float scale = compensates ? 1 : ScaleOf(contribution);
    std::swap(indices_, more_indices_);
    std::swap(values_, more_values_);
    indices_.clear();
    values_.clear();
    size_t next = 0;
    const auto take_up_to = [&](uint64_t end) {
      for (; next < more_indices_.size() && more_indices_[next] < end; ++next) {
        indices_.push_back(more_indices_[next]);
        values_.push_back(more_values_[next]);
      }
    };
    uint32_t indices[kBlock];
    while (const size_t count = contribution.reader->NextEntries(indices, block_)) {
      if (compensates) CompensateEntries(contribution, weights, {indices, count});
      for (size_t i = 0; i < count; ++i) {
        take_up_to(indices[i]);
        const bool there = next < more_indices_.size() && more_indices_[next] == indices[i];
        indices_.push_back(indices[i]);
        values_.push_back((there ? more_values_[next] : 0.0f) + scale * block_[i]);
        next += there;
      }
    }
    take_up_to(UINT64_MAX);
  }
}

bool SliceUpdater::ApplySparse(SliceState& slice, std::span<const Contribution> contributions,
                               const OptimizerStep& step) {
  if (!optimizer_->sparse() || slice.role != ParameterSpec::TRAINED) return false;
  for (const Contribution& contribution : contributions) {
    if (contribution.reader == nullptr || !contribution.reader->sparse()) return false;
  }
  GatherEntries(contributions, slice.weights.read());
  SparseUpdate update;
  update.indices = indices_;
  update.values = values_;
  update.weights = slice.weights.Writable().data();
  for (size_t i = 0; i < slice.states.size(); ++i) {
    update.states[i] = slice.states[i].Writable().data();
  }
  optimizer_->ApplySparse(step, update);
  if (slice.changes) slice.changes->Add(slice.version, indices_);
  if (slice.updates) slice.updates->Forget(slice.version);
  return true;
}

void SliceUpdater::Apply(SliceState& slice, std::span<const Contribution> contributions,
                         const UpdateRates& rates, std::span<const float> sum) {
  slice.version += contributions.size();
  ++slice.steps;
  OptimizerStep step;
  step.learning_rate = rates.learning_rate * slice.rates.rate;
  step.weight_decay = slice.rates.DecayOf(slice.decays, rates.weight_decay);
  step.step = slice.steps;
  step.decays = slice.decays;
  float decay = 0;
  if (slice.coupled_decay) {
    for (const Contribution& contribution : contributions) {
      const bool here = slice.decays_here ||
                        (contribution.reader != nullptr ? contribution.reader->without_decay()
                                                        : contribution.without_decay);
      if (here) decay += ScaleOf(contribution);
    }
    decay *= static_cast<float>(step.weight_decay);
  }
  if (decay == 0 && ApplySparse(slice, contributions, step)) {
    return UpdateAverage(slice, rates.clocks);
  }
  Log(slice, contributions, step, decay);

  const size_t elements = slice.weights.size();
  CowArray::Update weights = slice.weights.BeginUpdate();
  std::vector<CowArray::Update> states;
  for (CowArray& state : slice.states) states.push_back(state.BeginUpdate());
  std::span<float> scratch(block_);
  if (optimizer_->whole_slices()) {
    if (whole_.size() < elements) whole_.resize(elements);
    scratch = std::span(whole_).first(elements);
  }
  for (size_t begin = 0; begin < elements; begin += scratch.size()) {
    const size_t size = std::min(scratch.size(), elements - begin);
    const float* gradient =
        Gather(contributions, sum, {weights.in(), elements}, decay, begin, scratch.first(size));
    if (slice.role == ParameterSpec::STATISTIC) {
      AddDelta({gradient, size}, weights.in() + begin, weights.out() + begin);
      continue;
    }
    OptimizerBlock block;
    block.size = size;
    block.gradient = gradient;
    block.weights_in = weights.in() + begin;
    block.weights_out = weights.out() + begin;
    for (size_t i = 0; i < states.size(); ++i) {
      block.state_in[i] = states[i].in() + begin;
      block.state_out[i] = states[i].out() + begin;
    }
    optimizer_->ApplyBlock(step, block);
  }
  weights.Commit();
  for (CowArray::Update& state : states) state.Commit();
  UpdateAverage(slice, rates.clocks);
}

void SliceUpdater::UpdateAverage(SliceState& slice, double clocks) const {
  if (!slice.average) return;
  // The first clocks count more: the average forgets the initial weights.
  const double updates = static_cast<double>(slice.steps) * clocks;
  const double keep = std::min(average_, (1 + updates) / (10 + updates));
  const auto gain = static_cast<float>((1 - keep) * clocks);
  const std::span<const float> weights = slice.weights.read();
  CowArray::Update average = slice.average->BeginUpdate();
  const float* const in = average.in();
  float* const out = average.out();
  for (size_t i = 0; i < weights.size(); ++i) out[i] = in[i] + gain * (weights[i] - in[i]);
  average.Commit();
}

SliceSnapshot SliceUpdater::Snapshot(const SliceState& slice) const {
  SliceSnapshot snapshot;
  snapshot.id = slice.id;
  snapshot.spec = slice.spec;
  snapshot.parameter = slice.parameter;
  snapshot.version = slice.version;
  snapshot.steps = slice.steps;
  snapshot.weights = slice.weights.Share();
  for (size_t i = 0; i < slice.states.size(); ++i) {
    snapshot.states.emplace_back(std::string(optimizer_->state_name(static_cast<int>(i))),
                                 slice.states[i].Share());
  }
  if (slice.average) snapshot.states.emplace_back(kAverageState, slice.average->Share());
  return snapshot;
}

}  // namespace psgd
