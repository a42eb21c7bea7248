#include "engine/parameter_memory.h"

#include "engine/memory_plan.h"

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

absl::Status ParameterMemory::Upload(uint64_t version) {
  if (host_memory_ == nullptr || version == uploaded_) return absl::OkStatus();
  uploaded_ = version;
  return backend_->Upload(host_values_, values_, of_values_.end * sizeof(float));
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
  const std::span<float> host = of_gradients_.Of(host_gradients_, i);
  PSGD_ASSIGN_OR_RETURN(
      copies_[i], backend_->StartDownload(device_gradient(i), host.data(), host.size_bytes()));
  return absl::OkStatus();
}

absl::Status ParameterMemory::Finish(const OnGradient& done) {
  const int count = static_cast<int>(copies_.size());
  for (int i = count - 1; i >= 0 && done; --i) {
    if (marks_[i] == nullptr) continue;
    const DeviceGradient made = {gradients_ + of_gradients_.begins[i],
                                 values_ + of_values_.begins[i], marks_[i]->event()};
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
