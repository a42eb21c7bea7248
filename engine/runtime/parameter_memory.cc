#include "engine/runtime/parameter_memory.h"

#include <algorithm>
#include <utility>

#include "engine/graph/memory_plan.h"

namespace psgd {

void ParameterMemory::Pieces::Add(size_t count) {
  constexpr size_t kUnit = MemoryPlan::kAlignment / sizeof(float);
  begins.push_back(end);
  counts.push_back(count);
  end += (count + kUnit - 1) / kUnit * kUnit;
}

absl::StatusOr<std::unique_ptr<ParameterMemory>> ParameterMemory::Create(const Graph& graph,
                                                                         Backend* backend) {
  std::unique_ptr<ParameterMemory> memory(new ParameterMemory(backend));
  for (const Parameter& parameter : graph.parameters) {
    memory->of_values_.Add(static_cast<size_t>(ElementCount(graph.shape(parameter.value))));
    memory->of_gradients_.Add(static_cast<size_t>(ElementCount(graph.shape(parameter.gradient))));
  }
  const size_t end = memory->of_values_.end;
  const size_t bytes = (end + memory->of_gradients_.end) * sizeof(float);
  PSGD_ASSIGN_OR_RETURN(memory->device_memory_, backend->Allocate(bytes));
  memory->values_ = static_cast<float*>(memory->device_memory_->data());
  memory->gradients_ = memory->values_ + end;
  memory->host_values_ = memory->values_;
  memory->host_gradients_ = memory->gradients_;
  if (!backend->computes_on_host()) {
    PSGD_ASSIGN_OR_RETURN(memory->host_memory_, backend->AllocateHost(bytes));
    memory->host_values_ = static_cast<float*>(memory->host_memory_->data());
    memory->host_gradients_ = memory->host_values_ + end;
    memory->copies_.resize(graph.parameters.size());
    memory->marks_.resize(graph.parameters.size());
    memory->kept_.resize(graph.parameters.size());
  }
  return memory;
}

void ParameterMemory::KeepOnDevice(std::vector<bool> kept, OnLaunched launched) {
  kept_ = std::move(kept);
  launched_ = std::move(launched);
}

absl::Status ParameterMemory::MakeStates(int arrays, size_t scratch) {
  const size_t each = of_values_.end, all = static_cast<size_t>(arrays) * each;
  PSGD_ASSIGN_OR_RETURN(state_memory_, backend_->Allocate((all + scratch) * sizeof(float)));
  auto* const first = static_cast<float*>(state_memory_->data());
  for (int array = 0; array < arrays; ++array) states_.push_back(first + array * each);
  scratch_ = first + all;
  kept_.assign(kept_.size(), true);
  return absl::OkStatus();
}

absl::Status ParameterMemory::Update(std::span<const ElementUpdate> updates,
                                     const GradientBounds& bounds, uint64_t version) {
  using Kind = ElementUpdate::Kind;
  std::vector<ParameterUpdate> all, moves;
  for (size_t i = 0; i < updates.size(); ++i) {
    const size_t begin = of_values_.begins[i];
    ParameterUpdate& one = all.emplace_back();
    one.size = of_values_.counts[i];
    float* const gradient = gradients_ + of_gradients_.begins[i];
    one.gradient = gradient;
    one.weights = values_ + begin;
    one.update = updates[i];
    if (updates[i].kind == Kind::kLookAhead) {
      moves.push_back(one);
      moves.back().update.kind = Kind::kSgd;
      one.weights = gradient;  // nothing reads the gradient afterwards
    }
    // A statistic has no state.
    const size_t arrays = updates[i].kind == Kind::kAdd ? 0 : states_.size();
    for (size_t array = 0; array < arrays; ++array) one.states[array] = states_[array] + begin;
  }
  uploaded_ = version;
  PSGD_RETURN_IF_ERROR(backend_->Update(all, bounds));
  if (moves.empty()) return absl::OkStatus();
  for (const ParameterUpdate& one : all) {
    if (one.update.kind != Kind::kLookAhead) continue;
    const size_t rows = one.update.rows;
    PSGD_RETURN_IF_ERROR(backend_->MakeOrthogonal(rows, one.size / rows, one.weights, scratch_));
  }
  return backend_->Update(moves, {});
}

absl::Status ParameterMemory::Fetch() {
  return backend_->Download(values_, host_values_, of_values_.end * sizeof(float));
}

absl::Status ParameterMemory::ReadState(int array, int i, std::span<float> to) {
  return backend_->Download(states_[array] + of_values_.begins[i], to.data(), to.size_bytes());
}

absl::Status ParameterMemory::WriteState(int array, int i, std::span<const float> from) {
  float* const state = states_[array] + of_values_.begins[i];
  PSGD_RETURN_IF_ERROR(backend_->Upload(from.data(), state, from.size_bytes()));
  // Returns when the device has read `from`.
  float first = 0;
  return backend_->Download(state, &first, sizeof(first));
}

absl::Status ParameterMemory::Upload(uint64_t version) {
  if (staged_) {
    staged_ = false;
    const absl::Status taken = feed_->Take(values_);
    may_stage_.release();  // also after a failure, so that no thread waits for a failed step
    PSGD_RETURN_IF_ERROR(taken);
  }
  if (host_memory_ == nullptr || version == uploaded_) return absl::OkStatus();
  uploaded_ = version;
  return backend_->Upload(host_values_, values_, of_values_.end * sizeof(float));
}

absl::Status ParameterMemory::MakeRoomAhead(bool on_host) {
  const size_t bytes = of_values_.end * sizeof(float);
  if (on_host) {
    PSGD_ASSIGN_OR_RETURN(next_memory_, backend_->AllocateHost(bytes));
    next_values_ = static_cast<float*>(next_memory_->data());
  }
  PSGD_ASSIGN_OR_RETURN(feed_, backend_->MakeFeed(bytes));
  return absl::OkStatus();
}

void ParameterMemory::GiveUpRoomAhead() {
  feed_.reset();
  next_memory_.reset();
  next_values_ = nullptr;
}

absl::Status ParameterMemory::Stage(const float* host) {
  may_stage_.acquire();
  return feed_->Start(host);
}

void ParameterMemory::TakeStaged(uint64_t version) {
  staged_ = true;
  uploaded_ = version;
  if (next_values_ != nullptr) std::swap(host_values_, next_values_);
}

absl::Status ParameterMemory::Launched(int i, const OnGradient& done) {
  if (host_memory_ == nullptr) {
    if (done) done(i);
    return absl::OkStatus();
  }
  if (static_cast<size_t>(i) + 1 == kept_.size()) {
    unmarked_.clear();
    unmarked_bytes_ = marked_bytes_ = 0;
  }
  if (kept_[i]) {
    unmarked_.push_back(i);
    unmarked_bytes_ += of_gradients_.counts[i] * sizeof(float);
    const bool last = std::find(kept_.begin(), kept_.end(), true) == kept_.begin() + i;
    const bool enough = unmarked_bytes_ >= std::clamp(marked_bytes_, kLeastTogether, kMostAwaited);
    return last || enough ? MarkLaunched() : absl::OkStatus();
  }
  const std::span<float> host = of_gradients_.Of(host_gradients_, i);
  PSGD_ASSIGN_OR_RETURN(
      copies_[i], backend_->StartDownload(device_gradient(i), host.data(), host.size_bytes()));
  return absl::OkStatus();
}

absl::Status ParameterMemory::MarkLaunched() {
  if (unmarked_.empty()) return absl::OkStatus();
  PSGD_ASSIGN_OR_RETURN(const std::shared_ptr<Mark> mark, backend_->SetMark());
  for (int i : unmarked_) marks_[i] = mark;
  marked_bytes_ += unmarked_bytes_;
  unmarked_.clear();
  unmarked_bytes_ = 0;
  return absl::OkStatus();
}

void ParameterMemory::WorkUntilMade(size_t i, std::function<bool()>* meanwhile) {
  const auto made = [&] {
    return (copies_[i] == nullptr || copies_[i]->Done()) &&
           (marks_[i] == nullptr || marks_[i]->Passed());
  };
  while (meanwhile != nullptr && *meanwhile && !made()) {
    if (!(*meanwhile)()) *meanwhile = nullptr;
  }
}

void ParameterMemory::WorkMeanwhile(std::function<bool()>* meanwhile) {
  for (size_t i = copies_.size(); i > 0; --i) WorkUntilMade(i - 1, meanwhile);
}

absl::Status ParameterMemory::Finish(const OnGradient& done, std::function<bool()>* meanwhile) {
  const int count = static_cast<int>(copies_.size());
  for (int i = count - 1; i >= 0 && done; --i) {
    if (marks_[i] == nullptr) continue;
    const DeviceGradient made = {gradients_ + of_gradients_.begins[i],
                                 values_ + of_values_.begins[i], marks_[i]->event()};
    PSGD_RETURN_IF_ERROR(launched_(i, made));
  }
  for (int i = count - 1; i >= 0; --i) {
    if (copies_[i] == nullptr && marks_[i] == nullptr) continue;
    WorkUntilMade(static_cast<size_t>(i), meanwhile);
    if (copies_[i] != nullptr) PSGD_RETURN_IF_ERROR(copies_[i]->Wait());
    if (done) done(i);
  }
  return absl::OkStatus();
}

}  // namespace psgd
