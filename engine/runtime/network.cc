#include "engine/runtime/network.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/newton_schulz.h"
#include "engine/graph/hidden_matrices.h"
#include "engine/graph/model_spec.h"
#include "engine/ops/cost.h"
#include "engine/runtime/batch_memory.h"
#include "engine/runtime/loss_scale.h"
#include "engine/runtime/memory_report.h"
#include "engine/runtime/out_of_memory.h"
#include "engine/runtime/parameter_memory.h"
#include "engine/runtime/planned_network.h"
#include "engine/runtime/region.h"
#include "engine/zoo/zoo.h"

namespace psgd {
namespace {

// For each node, the parameters to announce once the node has run. No later node writes their
// gradients, or reads them, as a group adds them up in place. The order is from the last parameter
// to the first.
std::vector<std::vector<int>> FinishedAfter(const Graph& graph) {
  std::vector<int> last(graph.tensors.size(), 0);
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    for (TensorId output : graph.nodes[node].outputs) last[output] = static_cast<int>(node);
    for (TensorId input : graph.nodes[node].inputs) last[input] = static_cast<int>(node);
  }
  std::vector<std::vector<int>> finished(graph.nodes.size());
  int latest = 0;
  for (int i = static_cast<int>(graph.parameters.size()) - 1; i >= 0; --i) {
    latest = std::max(latest, last[graph.parameters[i].gradient]);
    finished[latest].push_back(i);
  }
  return finished;
}

// Bytes of gradients that a group adds up together. A bucket is as large as all buckets before it,
// between these bounds: the first gradients leave soon, and launches stay few.
constexpr size_t kLeastBucket = 1 << 20, kMostBucket = 25 << 20;

// For each parameter: if its gradient completes a bucket, the bucket's parameters begin with it,
// and this is their end. Else it is 0.
std::vector<int> EndsOfBuckets(const ParameterMemory& parameters, int count) {
  std::vector<int> ends(static_cast<size_t>(count));
  size_t bytes = 0, before = 0;
  for (int i = count - 1, end = count; i >= 0; --i) {
    bytes += parameters.gradient(i).size_bytes();
    if (i > 0 && bytes < std::clamp(before, kLeastBucket, kMostBucket)) continue;
    ends[i] = std::exchange(end, i);
    before += std::exchange(bytes, 0);
  }
  return ends;
}

// For each node, the parameters that no node before it reads.
std::vector<std::vector<int>> FirstReadBy(const Graph& graph) {
  std::vector<int> parameter_of(graph.tensors.size(), -1);
  for (size_t i = 0; i < graph.parameters.size(); ++i)
    parameter_of[graph.parameters[i].value] = static_cast<int>(i);
  std::vector<std::vector<int>> first(graph.nodes.size());
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    for (const TensorId input : graph.nodes[node].inputs) {
      const int parameter = std::exchange(parameter_of[input], -1);
      if (parameter >= 0) first[node].push_back(parameter);
    }
  }
  return first;
}

}  // namespace

struct Network::Impl {
  ModelSpec spec;
  int batch = 0;
  SampleShape shape;
  std::unique_ptr<PlannedNetwork> planned;
  Backend* backend = nullptr;  // of `planned`
  std::unique_ptr<BatchMemory> batch_memory;
  Region memory;
  void *result = nullptr, *device_logits = nullptr;
  std::vector<float> logits;          // of the last evaluation
  size_t real_bytes = sizeof(float);  // of an activation
  size_t input_elements = 0, label_elements = 0, target_elements = 0;
  std::unique_ptr<ParameterMemory> parameters;
  std::vector<std::vector<int>> finished_after;  // by node of the training graph
  std::vector<std::vector<int>> first_read_by;   // likewise
  std::vector<bool> hidden_matrices;             // by parameter
  uint64_t parameter_version = 1;
  std::optional<LossScale> loss_scale;  // fp16 only
  GroupPart* group = nullptr;           // null: the network is in no group
  bool first_in_group = false;
  std::vector<int> bucket_ends;  // by parameter, if in a group
  float share = 1;               // weight in the group's sums

  absl::Status Prepare();
  absl::Status CheckBatch(const StepBatch& given) const;
  // Kernels launched later see the batch.
  absl::Status Bring(const StepBatch& given, bool training);
  absl::Status Stage(const StepBatch& next);
  absl::StatusOr<Result> Run(Executor* executor, const StepBatch& given, uint64_t step,
                             const std::function<void(int)>& on_gradient, const BesideStep& beside);
  using ResultValues = std::array<double, 3>;
  absl::StatusOr<ResultValues> ReadResult();
  absl::StatusOr<bool> Overflowed();
  // Called once the kernels that make gradient i are launched, from the last to the first.
  absl::Status Launched(int i, const std::function<void(int)>& on_gradient);
  // Runs the kernels once. False: gradients overflowed, so the kernels must run again.
  absl::StatusOr<bool> RunKernels(Executor* executor, uint64_t step,
                                  const std::function<void(int)>& on_gradient, BesideStep* beside);
};

// Allocates the memory of both graphs.
absl::Status Network::Impl::Prepare() {
  const ModelGraph &train = planned->train, &evaluate = planned->evaluate;
  finished_after = FinishedAfter(train.graph);
  first_read_by = FirstReadBy(train.graph);
  hidden_matrices = HiddenMatrices(evaluate.graph);
  input_elements = static_cast<size_t>(ElementCount(train.graph.shape(train.input)));
  label_elements = static_cast<size_t>(ElementCount(train.graph.shape(train.labels)));
  if (train.targets != kNoTensor) {
    target_elements = static_cast<size_t>(ElementCount(train.graph.shape(train.targets)));
  }

  const size_t result_at = memory.Add(3 * sizeof(double));
  if (evaluate.logits != kNoTensor) {
    logits.resize(static_cast<size_t>(ElementCount(evaluate.graph.shape(evaluate.logits))));
  }
  const size_t logits_at = memory.Add(logits.size() * sizeof(float));
  const size_t temporary_at = memory.Add(planned->temporary_bytes());
  PSGD_RETURN_IF_ERROR(memory.Allocate(backend));
  PSGD_ASSIGN_OR_RETURN(parameters, ParameterMemory::Create(train.graph, backend));
  PSGD_ASSIGN_OR_RETURN(batch_memory,
                        BatchMemory::Create({.input = input_elements,
                                             .values = shape.IsSparse() ? input_elements : 0,
                                             .labels = label_elements,
                                             .targets = target_elements},
                                            backend));

  result = memory.at(result_at);
  device_logits = memory.at(logits_at);
  const auto externals = [&](const ModelGraph& model) {
    std::vector<ExternalMemory> made = {{model.input, batch_memory->input()},
                                        {model.labels, batch_memory->labels()},
                                        {model.result, result}};
    if (model.values != kNoTensor) made.push_back({model.values, batch_memory->values()});
    if (model.targets != kNoTensor) made.push_back({model.targets, batch_memory->targets()});
    return made;
  };
  std::vector<ExternalMemory> of_train = externals(train), of_evaluate = externals(evaluate);
  if (!logits.empty()) of_evaluate.push_back({evaluate.logits, device_logits});
  for (size_t i = 0; i < train.graph.parameters.size(); ++i) {
    const Parameter& parameter = train.graph.parameters[i];
    void* const value = parameters->device_value(static_cast<int>(i));
    of_train.push_back({parameter.value, value});
    of_train.push_back({parameter.gradient, parameters->device_gradient(static_cast<int>(i))});
    of_evaluate.push_back({evaluate.graph.parameters[i].value, value});
  }
  PSGD_RETURN_IF_ERROR(planned->train_executor->Bind(memory.at(temporary_at), of_train));
  return planned->evaluate_executor->Bind(memory.at(temporary_at), of_evaluate);
}

absl::Status Network::Impl::CheckBatch(const StepBatch& given) const {
  const NetworkInput& batch_input = given.input;
  const bool whole = shape.IsSequence() || shape.IsSparse();
  const size_t elements = whole ? batch_input.tokens.size() : batch_input.pixels.size();
  const size_t values_wanted = shape.IsSparse() ? input_elements : 0;
  if (elements != input_elements || batch_input.values.size() != values_wanted ||
      given.labels.size() != label_elements) {
    return InvalidArgumentError("a batch of ", elements, whole ? " tokens and " : " values and ",
                                given.labels.size(), " labels; the network takes ", input_elements,
                                " and ", label_elements);
  }
  if (given.targets.size() != target_elements) {
    return InvalidArgumentError("a batch of ", given.targets.size(), " targets; the network takes ",
                                target_elements);
  }
  const size_t labels_each = label_elements / static_cast<size_t>(batch);
  const size_t tokens_each = input_elements / static_cast<size_t>(batch);
  for (size_t i = 0; i < given.labels.size(); ++i) {
    if (given.labels[i] >= -1 && given.labels[i] < shape.classes) continue;
    return InvalidArgumentError("label ", given.labels[i], " of sample ", i / labels_each,
                                " is not below ", shape.classes, " classes");
  }
  for (size_t i = 0; i < batch_input.tokens.size(); ++i) {
    const int32_t token = batch_input.tokens[i];
    if (token >= 0 && token < shape.vocabulary) continue;
    return InvalidArgumentError("token ", token, " of sample ", i / tokens_each, " is not below ",
                                shape.vocabulary, ", the size of the vocabulary");
  }
  return absl::OkStatus();
}

absl::Status Network::Impl::Stage(const StepBatch& next) {
  PSGD_RETURN_IF_ERROR(CheckBatch(next));
  return batch_memory->Stage(next);
}

absl::Status Network::Impl::Bring(const StepBatch& given, bool training) {
  if (training && batch_memory->stages()) {
    if (!given.staged) PSGD_RETURN_IF_ERROR(Stage(given));
    return batch_memory->TakeStaged();
  }
  // An evaluation also uploads, as it may run while a training batch is staged.
  PSGD_RETURN_IF_ERROR(CheckBatch(given));
  return batch_memory->Upload(given);
}

absl::StatusOr<Network::Result> Network::Impl::Run(Executor* executor, const StepBatch& given,
                                                   uint64_t step,
                                                   const std::function<void(int)>& on_gradient,
                                                   const BesideStep& beside) {
  backend->EnterThread();
  // This comes first, even for a bad batch, because the thread that stages parameters waits for it.
  PSGD_RETURN_IF_ERROR(parameters->Upload(parameter_version));
  PSGD_RETURN_IF_ERROR(Bring(given, executor == planned->train_executor.get()));
  int repeated = 0;
  for (BesideStep left = beside;; ++repeated) {
    PSGD_ASSIGN_OR_RETURN(const bool sound, RunKernels(executor, step, on_gradient, &left));
    if (sound) break;
    left.next = nullptr;
  }
  PSGD_ASSIGN_OR_RETURN(const ResultValues values, ReadResult());
  if (executor == planned->evaluate_executor.get() && !logits.empty()) {
    PSGD_RETURN_IF_ERROR(
        backend->Download(device_logits, logits.data(), logits.size() * sizeof(float)));
  }
  return Result{values[0], static_cast<uint64_t>(values[1]), static_cast<uint64_t>(values[2]),
                repeated};
}

absl::StatusOr<Network::Impl::ResultValues> Network::Impl::ReadResult() {
  ResultValues values;
  PSGD_RETURN_IF_ERROR(backend->Download(result, values.data(), sizeof(values)));
  return values;
}

absl::Status Network::Impl::Launched(int i, const std::function<void(int)>& on_gradient) {
  if (group == nullptr) return parameters->Launched(i, on_gradient);
  if (bucket_ends[i] == 0) return absl::OkStatus();
  // Gradients lie one behind the other, with zeros between them, so neighbours are one sum.
  std::vector<GroupGradient> bucket;
  for (int of = i; of < bucket_ends[i]; ++of) {
    float* const data = static_cast<float*>(parameters->device_gradient(of));
    const bool mean = spec.parameters(of).role() == ParameterSpec::STATISTIC;
    if (bucket.empty() || bucket.back().mean != mean)
      bucket.push_back({.data = data, .mean = mean});
    bucket.back().count =
        static_cast<size_t>(data - bucket.back().data) + parameters->gradient(of).size();
  }
  PSGD_RETURN_IF_ERROR(group->Reduce(bucket));
  if (!first_in_group) return absl::OkStatus();
  for (int of = bucket_ends[i] - 1; of >= i; --of) {
    PSGD_RETURN_IF_ERROR(parameters->Launched(of, on_gradient));
  }
  return parameters->MarkLaunched();
}

absl::StatusOr<bool> Network::Impl::RunKernels(Executor* executor, uint64_t step,
                                               const std::function<void(int)>& on_gradient,
                                               BesideStep* beside) {
  const float scale = loss_scale ? loss_scale->value() : 1;
  if (executor != planned->train_executor.get()) {
    PSGD_RETURN_IF_ERROR(executor->Run({step, parameter_version, scale}, nullptr, nullptr));
    return true;
  }
  // After an abort, not even a recorded step may run.
  if (group != nullptr) PSGD_RETURN_IF_ERROR(group->Begin(share));
  const auto after = [&](int node) -> absl::Status {
    for (int i : finished_after[node]) PSGD_RETURN_IF_ERROR(Launched(i, on_gradient));
    return absl::OkStatus();
  };
  const auto before = [&](int node) -> absl::Status {
    for (int i : first_read_by[node]) PSGD_RETURN_IF_ERROR(beside->bring(i));
    return absl::OkStatus();
  };
  absl::Status status = executor->Run({step, parameter_version, scale},
                                      beside->bring ? Executor::Around(before) : nullptr, after);
  if (status.ok() && group != nullptr) status.Update(group->End());
  // The launched kernels run meanwhile.
  if (status.ok() && beside->next != nullptr && batch_memory->stages())
    status.Update(Stage(*beside->next));
  if (status.ok() && loss_scale) {
    parameters->WorkMeanwhile(&beside->meanwhile);
    const absl::StatusOr<bool> repeat = Overflowed();
    status.Update(repeat.status());
    if (status.ok() && *repeat) {
      PSGD_RETURN_IF_ERROR(parameters->Finish(nullptr));
      return false;
    }
  }
  // Finish also runs after a failure, because copies are under way.
  status.Update(status.ok() ? parameters->Finish(on_gradient, &beside->meanwhile)
                            : parameters->Finish(nullptr));
  PSGD_RETURN_IF_ERROR(status);
  return true;
}

// Whether to repeat the step. If the loss is not finite, the scale is not the cause.
absl::StatusOr<bool> Network::Impl::Overflowed() {
  PSGD_ASSIGN_OR_RETURN(const ResultValues values, ReadResult());
  if (!std::isfinite(values[0])) return false;
  PSGD_ASSIGN_OR_RETURN(const bool overflowed, backend->Overflowed());
  if (overflowed) return loss_scale->Overflowed();
  loss_scale->Finite();
  return false;
}

Network::Network(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Network::~Network() = default;

absl::StatusOr<std::unique_ptr<Network>> Network::Create(const ModelConfig& model,
                                                         const SampleShape& shape, int batch,
                                                         const NetworkOptions& options) {
  auto impl = std::make_unique<Impl>();
  PSGD_ASSIGN_OR_RETURN(impl->planned, PlannedNetwork::Create(model, shape, batch, options));
  impl->backend = impl->planned->backend.get();
  impl->spec = MakeModelSpec(ModelName(model), impl->planned->train.graph);
  impl->batch = batch;
  impl->real_bytes = RealBytes(options.precision);
  if (options.precision == Precision::kFp16 && !impl->backend->computes_on_host()) {
    impl->loss_scale.emplace();
  }
  const Graph& graph = impl->planned->train.graph;
  const bool factored = std::any_of(graph.parameters.begin(), graph.parameters.end(),
                                    [&](const Parameter& p) { return FactorRows(graph, p) > 0; });
  if (impl->loss_scale && factored) {
    return absl::InvalidArgumentError(
        "compression.push: factors does not go with --precision fp16, whose gradients are scaled; "
        "use "
        "bf16");
  }
  impl->shape = shape;
  const size_t available = options.memory > 0 ? options.memory : impl->backend->AvailableMemory();
  const size_t wanted = ReportMemory(*impl->planned).total();
  // Checked first, because a host allocates more memory than it has and kills the program later.
  const bool enough = available == 0 || wanted <= available;
  const absl::Status prepared =
      enough ? impl->Prepare() : absl::ResourceExhaustedError("not enough memory");
  if (absl::IsResourceExhausted(prepared)) {
    // Frees the memory, because the plans of a batch that fits measure what is free.
    const std::unique_ptr<PlannedNetwork> planned = std::move(impl->planned);
    impl->memory = {};
    impl->parameters.reset();
    impl->batch_memory.reset();
    return OutOfMemory(model, shape, batch, options, *planned, enough ? 0 : available);
  }
  PSGD_RETURN_IF_ERROR(prepared);
  return std::unique_ptr<Network>(new Network(std::move(impl)));
}

const ModelSpec& Network::spec() const { return impl_->spec; }
int Network::batch() const { return impl_->batch; }
std::span<float> Network::parameter(int index) { return impl_->parameters->value(index); }
std::span<const float> Network::gradient(int index) const {
  return impl_->parameters->gradient(index);
}
int64_t Network::factor_rows(int index) const {
  const Graph& graph = impl_->planned->train.graph;
  return FactorRows(graph, graph.parameters[index]);
}
const std::vector<bool>& Network::hidden_matrices() const { return impl_->hidden_matrices; }
std::span<const float> Network::logits() const { return impl_->logits; }
absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> Network::MakeGroup(
    std::span<Network* const> networks) {
  std::vector<Backend*> members;
  for (const Network* network : networks) {
    if (network->impl_->loss_scale) {
      return absl::InvalidArgumentError(
          "node.reduce: nccl does not go with --precision fp16, whose steps are repeated by the "
          "GPU "
          "that overflows; use bf16, or node.reduce: host");
    }
    for (int i = 0; i < network->spec().parameters_size(); ++i) {
      if (network->factor_rows(i) == 0) continue;
      return absl::InvalidArgumentError(
          "node.reduce: nccl adds gradients up, which their factors cannot be; use node.reduce: "
          "host, "
          "or another compression.push than factors");
    }
    members.push_back(network->impl_->backend);
  }
  PSGD_ASSIGN_OR_RETURN(auto parts, members[0]->MakeGroup(members));
  for (size_t i = 0; i < networks.size(); ++i) {
    Impl& impl = *networks[i]->impl_;
    impl.group = parts[i].get();
    impl.first_in_group = i == 0;
    impl.bucket_ends = EndsOfBuckets(*impl.parameters, impl.spec.parameters_size());
  }
  return parts;
}

bool Network::on_device() const { return !impl_->backend->computes_on_host(); }

void Network::KeepOnDevice(std::vector<bool> kept,
                           std::function<absl::Status(int, const DeviceGradient&)> launched) {
  impl_->parameters->KeepOnDevice(std::move(kept), std::move(launched));
}

absl::Status Network::KeepStates(int arrays, bool orthogonal) {
  impl_->backend->EnterThread();
  size_t scratch = 0;
  for (int i = 0; i < spec().parameters_size(); ++i) {
    if (!orthogonal || !impl_->hidden_matrices[i]) continue;
    const auto rows = static_cast<size_t>(spec().parameters(i).shape(0));
    const size_t columns = parameter(i).size() / rows;
    scratch = std::max(scratch, NewtonSchulz::ScratchFloats(rows, columns));
  }
  // Kernels, and the norm of a gradient, take memory later.
  constexpr size_t kSpare = size_t{256} << 20;
  const size_t available = impl_->backend->AvailableMemory();
  const size_t bytes =
      static_cast<size_t>(arrays) * ReportMemory(*impl_->planned).ahead + scratch * sizeof(float);
  if (available > 0 && available < bytes + kSpare) {
    return ResourceExhaustedError(bytes >> 20, " MiB for an optimizer's state, of ",
                                  available >> 20, " MiB free");
  }
  return impl_->parameters->MakeStates(arrays, scratch);
}
absl::Status Network::UpdateParameters(std::span<const ElementUpdate> updates,
                                       const GradientBounds& bounds) {
  return impl_->parameters->Update(updates, bounds, ++impl_->parameter_version);
}
absl::Status Network::FetchParameters() {
  impl_->backend->EnterThread();
  return impl_->parameters->Fetch();
}
absl::Status Network::ReadState(int array, int i, std::span<float> to) {
  impl_->backend->EnterThread();
  return impl_->parameters->ReadState(array, i, to);
}
absl::Status Network::WriteState(int array, int i, std::span<const float> from) {
  impl_->backend->EnterThread();
  return impl_->parameters->WriteState(array, i, from);
}

void Network::set_share(float share) { impl_->share = share; }
void Network::InvalidateParameters() { ++impl_->parameter_version; }

absl::Status Network::MakeRoomAhead(bool on_host) {
  const size_t bytes = ReportMemory(*impl_->planned).ahead;
  const size_t available = impl_->backend->AvailableMemory();
  if (available > 0 && !HasRoomAhead(bytes, available)) {
    return ResourceExhaustedError(bytes >> 20, " MiB, and as much again for codecs, of ",
                                  available >> 20, " MiB free");
  }
  const absl::Status made = impl_->parameters->MakeRoomAhead(on_host);
  if (!made.ok()) impl_->parameters->GiveUpRoomAhead();
  return made;
}
void Network::GiveUpRoomAhead() { impl_->parameters->GiveUpRoomAhead(); }
std::span<float> Network::next_parameter(int index) { return impl_->parameters->next_value(index); }
absl::Status Network::StageParameters(const Network& from) {
  return impl_->parameters->Stage(from.impl_->parameters->next_values());
}
void Network::TakeStagedParameters() { impl_->parameters->TakeStaged(++impl_->parameter_version); }

absl::StatusOr<std::vector<Network::NodeTime>> Network::TimeNodes(int runs) {
  const Graph& graph = impl_->planned->train.graph;
  const Step step = {0, impl_->parameter_version, loss_scale()};
  PSGD_ASSIGN_OR_RETURN(const std::vector<double> seconds,
                        impl_->planned->train_executor->TimeNodes(step, runs));
  std::vector<NodeTime> times;
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] == 0) continue;
    const Node& node = graph.nodes[i];
    const OpCost cost = CostOf(graph, node, impl_->real_bytes);
    NodeTime& time =
        times.emplace_back(node.name, OpName(node.op), cost.bytes, cost.flops, seconds[i]);
    const FusedWork* const fused = impl_->planned->train_executor->fused(static_cast<int>(i));
    if (fused == nullptr) continue;
    time.op.clear();
    time.flops = 0;
    for (const int part : fused->nodes) {
      absl::StrAppend(&time.op, time.op.empty() ? "" : "+", OpName(graph.nodes[part].op));
      time.flops += CostOf(graph, graph.nodes[part], impl_->real_bytes).flops;
    }
    time.bytes = BytesOf(graph, fused->tensors, impl_->real_bytes);
  }
  return times;
}

float Network::loss_scale() const { return impl_->loss_scale ? impl_->loss_scale->value() : 1; }
const absl::Status& Network::recorded() const { return impl_->planned->train_executor->recorded(); }
const std::string& Network::note() const { return impl_->planned->train_executor->note(); }

bool Network::stages() const { return impl_->batch_memory->stages(); }

absl::StatusOr<Network::Result> Network::TrainStep(const StepBatch& batch, uint64_t step,
                                                   const std::function<void(int)>& on_gradient,
                                                   const BesideStep& beside) {
  return impl_->Run(impl_->planned->train_executor.get(), batch, step, on_gradient, beside);
}

absl::StatusOr<Network::Result> Network::Evaluate(const StepBatch& batch) {
  return impl_->Run(impl_->planned->evaluate_executor.get(), batch, 0, nullptr, {});
}

}  // namespace psgd
