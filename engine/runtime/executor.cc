#include "engine/runtime/executor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/clock.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Graph& graph, Backend* backend) {
  std::unique_ptr<Executor> executor(new Executor(&graph, backend));
  backend->EnterThread();
  PSGD_ASSIGN_OR_RETURN(executor->kernels_, backend->MakeKernels(graph, &executor->plan_));
  executor->note_ = backend->note();
  executor->plan_.Arrange();
  return executor;
}

absl::Status Executor::Bind(void* temporary, const std::vector<ExternalMemory>& externals) {
  PSGD_ASSIGN_OR_RETURN(persistent_, backend_->Allocate(plan_.persistent_bytes()));
  for (const Buffer& buffer : plan_.buffers()) {
    if (buffer.kind == Buffer::Kind::kExternal) {
      const auto found = std::ranges::find(externals, buffer.tensor, &ExternalMemory::tensor);
      if (found == externals.end()) {
        return absl::InternalError(
            absl::StrCat("no memory was given for ", graph_->tensors[buffer.tensor].name));
      }
      addresses_.push_back(found->data);
    } else {
      const bool kept = buffer.kind == Buffer::Kind::kPersistent;
      addresses_.push_back(static_cast<char*>(kept ? persistent_->data() : temporary) +
                           buffer.offset);
    }
  }
  for (const auto& kernel : kernels_) {
    if (kernel != nullptr) kernel->Bind(addresses_);
  }
  return absl::OkStatus();
}

absl::Status Executor::Run(const Step& step, const Around& before, const Around& after) {
  backend_->EnterThread();
  PSGD_RETURN_IF_ERROR(backend_->BeginRun(step));
  // The first run is not recorded, because libraries set themselves up in their first calls.
  if (ran_ && recording_ == nullptr && recorded_.ok()) {
    Step recorded = step;
    recorded.recorded = true;
    auto recording = backend_->Record([&] { return RunNodes(recorded, before, after); });
    recorded_ = recording.status();
    if (recording.ok()) recording_ = *std::move(recording);
  }
  if (recording_ != nullptr) return recording_->Replay();
  PSGD_RETURN_IF_ERROR(RunNodes(step, before, after));
  ran_ = true;
  return absl::OkStatus();
}

absl::Status Executor::RunNodes(const Step& step, const Around& before, const Around& after) {
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (poison_ && !step.recorded) PSGD_RETURN_IF_ERROR(Poison(static_cast<int>(i)));
    if (before) PSGD_RETURN_IF_ERROR(before(static_cast<int>(i)));
    if (kernels_[i] != nullptr) {
      absl::Status status = kernels_[i]->Run(step);
      if (!status.ok()) return Annotate(status, graph_->nodes[i].name);
    }
    if (after) PSGD_RETURN_IF_ERROR(after(static_cast<int>(i)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> Executor::TimeNodes(const Step& step, int runs) {
  backend_->EnterThread();
  PSGD_RETURN_IF_ERROR(backend_->BeginRun(step));
  if (backend_->computes_on_host()) return TimeOnHost(step, runs);
  std::vector<double> seconds(kernels_.size());
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (kernels_[i] == nullptr) continue;
    PSGD_ASSIGN_OR_RETURN(seconds[i], TimeOnDevice(step, static_cast<int>(i), runs));
  }
  return seconds;
}

absl::StatusOr<std::vector<double>> Executor::TimeOnHost(const Step& step, int runs) {
  std::vector<double> least(kernels_.size());
  for (int run = 0; run < runs; ++run) {
    Time begun;
    const Around before = [&](int) {
      begun = SteadyNow();
      return absl::OkStatus();
    };
    const Around after = [&](int node) {
      const double took = Seconds(SteadyNow() - begun);
      if (kernels_[node] != nullptr) least[node] = run == 0 ? took : std::min(least[node], took);
      return absl::OkStatus();
    };
    PSGD_RETURN_IF_ERROR(RunNodes(step, before, after));
  }
  return least;
}

absl::StatusOr<double> Executor::TimeOnDevice(const Step& step, int node, int runs) {
  constexpr int kLaunches = 20;  // of one replay, which hide what a replay costs
  Step recorded = step;
  recorded.recorded = true;
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<Recording> recording, backend_->Record([&] {
    for (int i = 0; i < kLaunches; ++i) PSGD_RETURN_IF_ERROR(kernels_[node]->Run(recorded));
    return absl::OkStatus();
  }));
  double least = 0;
  for (int run = 0; run <= runs; ++run) {  // the first warms up
    const Time begun = SteadyNow();
    PSGD_RETURN_IF_ERROR(recording->Replay());
    char byte;
    PSGD_RETURN_IF_ERROR(backend_->Download(addresses_.front(), &byte, sizeof byte));  // waits
    const double took = Seconds(SteadyNow() - begun) / kLaunches;
    if (run == 1 || (run > 1 && took < least)) least = took;
  }
  return least;
}

absl::Status Executor::Poison(int node) {
  const std::vector<TensorId>& outputs = graph_->nodes[node].outputs;
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const Buffer& buffer = plan_.buffers()[i];
    const bool fresh = buffer.kind == Buffer::Kind::kTemporary
                           ? buffer.first == node
                           : std::count(outputs.begin(), outputs.end(), buffer.tensor) > 0;
    if (fresh && kernels_[node] != nullptr) {
      const std::vector<char> bits(buffer.bytes, '\xFF');  // all set: NaN in every float type
      PSGD_RETURN_IF_ERROR(backend_->Upload(bits.data(), addresses_[i], bits.size()));
    }
  }
  return absl::OkStatus();
}

}  // namespace psgd
