#include "engine/network.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/builder.h"
#include "engine/differentiate.h"
#include "engine/executor.h"
#include "engine/model_spec.h"
#include "engine/parameter_memory.h"
#include "engine/plugin.h"
#include "engine/zoo/zoo.h"

namespace psgd {
namespace {

// A region that is carved into aligned pieces: first sized, then allocated.
class Region {
 public:
  // Returns the offset of a new piece.
  size_t Add(size_t bytes) {
    const size_t offset = bytes_;
    bytes_ +=
        (bytes + MemoryPlan::kAlignment - 1) / MemoryPlan::kAlignment * MemoryPlan::kAlignment;
    return offset;
  }
  absl::Status Allocate(Backend* backend) {
    PSGD_ASSIGN_OR_RETURN(memory_, backend->Allocate(bytes_));
    return absl::OkStatus();
  }
  void* at(size_t offset) const { return static_cast<char*>(memory_->data()) + offset; }

 private:
  size_t bytes_ = 0;
  std::unique_ptr<DeviceMemory> memory_;
};

// For each node, the parameters whose gradients are final once it has run, so that all are named
// from the last to the first.
std::vector<std::vector<int>> FinishedAfter(const Graph& graph) {
  std::vector<int> writer(graph.tensors.size(), 0);
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    for (TensorId output : graph.nodes[node].outputs) writer[output] = static_cast<int>(node);
  }
  std::vector<std::vector<int>> finished(graph.nodes.size());
  int latest = 0;
  for (int i = static_cast<int>(graph.parameters.size()) - 1; i >= 0; --i) {
    latest = std::max(latest, writer[graph.parameters[i].gradient]);
    finished[latest].push_back(i);
  }
  return finished;
}

}  // namespace

struct Network::Impl {
  ModelSpec spec;
  int batch = 0;
  InputShape shape;
  std::unique_ptr<Backend> backend;
  ModelGraph train, evaluate;
  Region memory;
  void *input = nullptr, *values = nullptr, *labels = nullptr, *result = nullptr;
  void* device_logits = nullptr;
  std::vector<float> logits;  // of the last evaluation
  size_t input_elements = 0, label_elements = 0;
  std::unique_ptr<ParameterMemory> parameters;
  std::vector<std::vector<int>> finished_after;  // by node of `train`
  std::unique_ptr<Executor> train_executor, evaluate_executor;
  uint64_t parameter_version = 1;

  absl::Status Prepare();
  absl::Status CheckBatch(const NetworkInput& batch_input, std::span<const int32_t> given) const;
  absl::StatusOr<Result> Run(Executor* executor, const NetworkInput& batch_input,
                             std::span<const int32_t> given, uint64_t step,
                             const std::function<void(int)>& on_gradient);
};

// Makes both executors, then one region for all they touch: the executors never run together, so
// their temporary memory is shared.
absl::Status Network::Impl::Prepare() {
  PSGD_ASSIGN_OR_RETURN(train_executor, Executor::Create(train.graph, backend.get()));
  PSGD_ASSIGN_OR_RETURN(evaluate_executor, Executor::Create(evaluate.graph, backend.get()));
  finished_after = FinishedAfter(train.graph);
  input_elements = static_cast<size_t>(ElementCount(train.graph.shape(train.input)));
  label_elements = static_cast<size_t>(ElementCount(train.graph.shape(train.labels)));

  static_assert(sizeof(float) == sizeof(int32_t), "pixels and tokens take the same room");
  const size_t input_at = memory.Add(input_elements * sizeof(float));
  const size_t values_at = memory.Add(shape.IsSparse() ? input_elements * sizeof(float) : 0);
  const size_t labels_at = memory.Add(label_elements * sizeof(int32_t));
  const size_t result_at = memory.Add(3 * sizeof(double));
  if (evaluate.logits != kNoTensor) {
    logits.resize(static_cast<size_t>(ElementCount(evaluate.graph.shape(evaluate.logits))));
  }
  const size_t logits_at = memory.Add(logits.size() * sizeof(float));
  const size_t temporary_at =
      memory.Add(std::max(train_executor->temporary_bytes(), evaluate_executor->temporary_bytes()));
  PSGD_RETURN_IF_ERROR(memory.Allocate(backend.get()));
  PSGD_ASSIGN_OR_RETURN(parameters, ParameterMemory::Create(train.graph, backend.get()));

  input = memory.at(input_at);
  values = memory.at(values_at);
  labels = memory.at(labels_at);
  result = memory.at(result_at);
  device_logits = memory.at(logits_at);
  const auto externals = [&](const ModelGraph& model) {
    std::vector<ExternalMemory> made = {
        {model.input, input}, {model.labels, labels}, {model.result, result}};
    if (model.values != kNoTensor) made.push_back({model.values, values});
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
  PSGD_RETURN_IF_ERROR(train_executor->Bind(memory.at(temporary_at), of_train));
  return evaluate_executor->Bind(memory.at(temporary_at), of_evaluate);
}

absl::Status Network::Impl::CheckBatch(const NetworkInput& batch_input,
                                       std::span<const int32_t> given) const {
  const bool whole = shape.IsSequence() || shape.IsSparse();
  const size_t elements = whole ? batch_input.tokens.size() : batch_input.pixels.size();
  const size_t values_wanted = shape.IsSparse() ? input_elements : 0;
  if (elements != input_elements || batch_input.values.size() != values_wanted ||
      given.size() != label_elements) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a batch of ", elements, whole ? " tokens and " : " values and ", given.size(),
        " labels; the network takes ", input_elements, " and ", label_elements));
  }
  const size_t labels_each = label_elements / static_cast<size_t>(batch);
  const size_t tokens_each = input_elements / static_cast<size_t>(batch);
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] >= -1 && given[i] < shape.classes) continue;
    return absl::InvalidArgumentError(absl::StrCat("label ", given[i], " of sample ",
                                                   i / labels_each, " is not below ", shape.classes,
                                                   " classes"));
  }
  for (size_t i = 0; i < batch_input.tokens.size(); ++i) {
    const int32_t token = batch_input.tokens[i];
    if (token >= 0 && token < shape.vocabulary) continue;
    return absl::InvalidArgumentError(absl::StrCat("token ", token, " of sample ", i / tokens_each,
                                                   " is not below ", shape.vocabulary,
                                                   ", the size of the vocabulary"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Network::Result> Network::Impl::Run(Executor* executor,
                                                   const NetworkInput& batch_input,
                                                   std::span<const int32_t> given, uint64_t step,
                                                   const std::function<void(int)>& on_gradient) {
  PSGD_RETURN_IF_ERROR(CheckBatch(batch_input, given));
  backend->EnterThread();
  PSGD_RETURN_IF_ERROR(parameters->Upload(parameter_version));
  const auto bytes = batch_input.tokens.empty() ? std::as_bytes(batch_input.pixels)
                                                : std::as_bytes(batch_input.tokens);
  PSGD_RETURN_IF_ERROR(backend->Upload(bytes.data(), input, bytes.size()));
  if (shape.IsSparse()) {
    PSGD_RETURN_IF_ERROR(
        backend->Upload(batch_input.values.data(), values, batch_input.values.size_bytes()));
  }
  PSGD_RETURN_IF_ERROR(backend->Upload(given.data(), labels, given.size_bytes()));
  absl::Status copied;
  const auto after = [&](int node) {
    if (executor != train_executor.get()) return;
    for (int i : finished_after[node]) copied.Update(parameters->Launched(i, on_gradient));
  };
  const absl::Status ran = executor->Run({step, parameter_version}, after);
  copied.Update(parameters->Finish(on_gradient));  // also after a failure: copies are under way
  PSGD_RETURN_IF_ERROR(ran);
  PSGD_RETURN_IF_ERROR(copied);
  std::array<double, 3> values;
  PSGD_RETURN_IF_ERROR(backend->Download(result, values.data(), sizeof(values)));
  if (executor == evaluate_executor.get() && !logits.empty()) {
    PSGD_RETURN_IF_ERROR(
        backend->Download(device_logits, logits.data(), logits.size() * sizeof(float)));
  }
  return Result{values[0], static_cast<uint64_t>(values[1]), static_cast<uint64_t>(values[2])};
}

Network::Network(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Network::~Network() = default;

absl::StatusOr<std::unique_ptr<Network>> Network::Create(const ModelConfig& model,
                                                         const InputShape& shape, int batch,
                                                         const NetworkOptions& options) {
  auto impl = std::make_unique<Impl>();
  PSGD_ASSIGN_OR_RETURN(impl->train, BuildModel(model, shape, batch, Mode::kTrain));
  PSGD_ASSIGN_OR_RETURN(impl->evaluate, BuildModel(model, shape, batch, Mode::kEvaluate));
  PSGD_RETURN_IF_ERROR(Differentiate(&impl->train.graph).status());
  const BackendOptions backend = {.threads = std::max(1, options.threads),
                                  .dropout = {options.seed, options.worker},
                                  .device = options.device,
                                  .precision = options.precision};
  PSGD_ASSIGN_OR_RETURN(impl->backend, LoadBackend(options.backend, options.plugin_dir, backend));
  impl->spec = MakeModelSpec(ModelName(model), impl->train.graph);
  impl->batch = batch;
  impl->shape = shape;
  PSGD_RETURN_IF_ERROR(impl->Prepare());
  return std::unique_ptr<Network>(new Network(std::move(impl)));
}

const ModelSpec& Network::spec() const { return impl_->spec; }
int Network::batch() const { return impl_->batch; }
std::span<float> Network::parameter(int index) { return impl_->parameters->value(index); }
std::span<const float> Network::gradient(int index) const {
  return impl_->parameters->gradient(index);
}
std::span<const float> Network::logits() const { return impl_->logits; }
void Network::InvalidateParameters() { ++impl_->parameter_version; }

absl::StatusOr<Network::Result> Network::TrainStep(const NetworkInput& input,
                                                   std::span<const int32_t> labels, uint64_t step,
                                                   const std::function<void(int)>& on_gradient) {
  return impl_->Run(impl_->train_executor.get(), input, labels, step, on_gradient);
}

absl::StatusOr<Network::Result> Network::Evaluate(const NetworkInput& input,
                                                  std::span<const int32_t> labels) {
  return impl_->Run(impl_->evaluate_executor.get(), input, labels, 0, nullptr);
}

}  // namespace psgd
