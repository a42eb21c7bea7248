#include "engine/parameter_memory.h"

#include "engine/memory_plan.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<ParameterMemory>> ParameterMemory::Create(const Graph& graph,
                                                                         Backend* backend) {
  std::unique_ptr<ParameterMemory> memory(new ParameterMemory(backend));
  constexpr size_t kUnit = MemoryPlan::kAlignment / sizeof(float);
  size_t end = 0;
  for (const Parameter& parameter : graph.parameters) {
    const auto count = static_cast<size_t>(ElementCount(graph.shape(parameter.value)));
    const size_t rounded = (count + kUnit - 1) / kUnit * kUnit;
    memory->offsets_.push_back(end);
    memory->padding_.push_back(rounded - count);
    end += rounded;
  }
  memory->offsets_.push_back(end);
  const size_t bytes = 2 * end * sizeof(float);
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

absl::Status ParameterMemory::Upload(uint64_t version) {
  if (host_memory_ == nullptr || version == uploaded_) return absl::OkStatus();
  uploaded_ = version;
  return backend_->Upload(host_values_, values_, offsets_.back() * sizeof(float));
}

absl::Status ParameterMemory::Launched(int i, const OnGradient& done) {
  if (host_memory_ == nullptr) {
    if (done) done(i);
    return absl::OkStatus();
  }
  if (kept_[i]) {
    PSGD_ASSIGN_OR_RETURN(marks_[i], backend_->SetMark());
    return absl::OkStatus();
  }
  const size_t bytes = (offsets_[i + 1] - offsets_[i]) * sizeof(float);
  PSGD_ASSIGN_OR_RETURN(copies_[i], backend_->StartDownload(device_gradient(i),
                                                            host_gradients_ + offsets_[i], bytes));
  return absl::OkStatus();
}

absl::Status ParameterMemory::Finish(const OnGradient& done) {
  const int count = static_cast<int>(copies_.size());
  for (int i = count - 1; i >= 0 && done; --i) {
    if (marks_[i] == nullptr) continue;
    const DeviceGradient made = {gradients_ + offsets_[i], values_ + offsets_[i],
                                 marks_[i]->event()};
    PSGD_RETURN_IF_ERROR(launched_(i, made));
  }
  for (int i = count - 1; i >= 0; --i) {
    if (copies_[i] == nullptr && marks_[i] == nullptr) continue;
    if (copies_[i] != nullptr) PSGD_RETURN_IF_ERROR(copies_[i]->Wait());
    if (done) done(i);
  }
  return absl::OkStatus();
}

}  // namespace psgd
