#include "engine/builder.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

constexpr int64_t kLargestTensor = int64_t{1} << 31;  // elements

bool TooLarge(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 1 || __builtin_mul_overflow(count, size, &count) || count > kLargestTensor) {
      return true;
    }
  }
  return false;
}

}  // namespace

NetworkBuilder::NetworkBuilder(Mode mode, int batch, const InputShape& shape)
    : mode_(mode), shape_(shape) {
  const bool sequence = shape.IsSequence();
  const Shape input = sequence ? Shape{batch, shape.length}
                               : Shape{batch, shape.channels, shape.height, shape.width};
  if (TooLarge(input) || shape.classes < 1 || (sequence && shape.vocabulary < 1)) {
    status_ =
        absl::InvalidArgumentError(absl::StrCat("a batch of ", ShapeText(input), " with ",
                                                shape.classes, " classes is empty or too large"));
    return;
  }
  model_.input = model_.graph.AddTensor({.name = sequence ? "tokens" : "image",
                                         .shape = input,
                                         .element = sequence ? Element::kInt32 : Element::kReal,
                                         .external = true});
  model_.labels = model_.graph.AddTensor({.name = "labels",
                                          .shape = sequence ? input : Shape{batch},
                                          .element = Element::kInt32,
                                          .external = true});
}

TensorId NetworkBuilder::Input(bool sequence, const char* wanted, const char* given) {
  if (status_.ok() && shape_.IsSequence() != sequence) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("the network takes ", wanted, ", but samples are ", given));
  }
  return model_.input;
}

TensorId NetworkBuilder::image() { return Input(false, "images", "sequences of tokens"); }
TensorId NetworkBuilder::tokens() { return Input(true, "sequences of tokens", "images"); }

TensorId NetworkBuilder::Layer(const std::function<absl::StatusOr<TensorId>()>& make) {
  if (!status_.ok()) return kNoTensor;
  absl::StatusOr<TensorId> made = make();
  if (made.ok() && status_.ok() && TooLarge(model_.graph.shape(*made))) {
    made = absl::InvalidArgumentError(absl::StrCat(model_.graph.tensors[*made].name, ": ",
                                                   ShapeText(model_.graph.shape(*made)),
                                                   " is too large for one tensor"));
  }
  if (status_.ok()) status_ = made.status();
  return status_.ok() ? *made : kNoTensor;
}

TensorId NetworkBuilder::NewParameter(const std::string& name, Shape shape, Parameter parameter) {
  if (TooLarge(shape)) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(name, ": ", ShapeText(shape), " is too large for one tensor"));
    shape = {1};
  }
  parameter.value = model_.graph.AddTensor({.name = name,
                                            .shape = std::move(shape),
                                            .wants_gradient = !parameter.statistic,
                                            .external = true});
  model_.graph.parameters.push_back(parameter);
  return parameter.value;
}

TensorId NetworkBuilder::NewWeight(const std::string& name, Shape shape, int64_t fan_in,
                                   bool decay) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return NewParameter(name, std::move(shape),
                      {.decay = decay, .initial = {Initial::Kind::kUniform, 0, bound}});
}

TensorId NetworkBuilder::Conv2d(const std::string& name, TensorId x, const ConvLayer& layer) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    const Shape in = model_.graph.shape(x);
    if (in.size() != 4 || layer.groups < 1 || in[1] % layer.groups != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": cannot convolve ", ShapeText(in), " in ", layer.groups, " groups"));
    }
    const psgd::Conv2d op = {{layer.kernel, layer.stride, layer.pad, layer.dilation}, layer.groups};
    const Shape shape = {layer.channels, in[1] / layer.groups, layer.kernel.height,
                         layer.kernel.width};
    const int64_t fan_in = shape[1] * shape[2] * shape[3];
    const TensorId weight = NewWeight(name + ".weight", shape, fan_in, true);
    const TensorId bias =
        layer.bias ? NewWeight(name + ".bias", {layer.channels}, fan_in, false) : kNoTensor;
    return AddConv2d(&model_.graph, name, op, x, weight, bias);
  });
}

TensorId NetworkBuilder::Pool(Pool::Kind kind, const std::string& name, TensorId x,
                              const PoolLayer& layer) {
  return Layer([&] {
    return AddPool(&model_.graph, name, {kind, {layer.kernel, layer.stride, layer.pad}}, x);
  });
}

TensorId NetworkBuilder::MaxPool(const std::string& name, TensorId x, const PoolLayer& layer) {
  return Pool(Pool::Kind::kMax, name, x, layer);
}

TensorId NetworkBuilder::AveragePool(const std::string& name, TensorId x, const PoolLayer& layer) {
  return Pool(Pool::Kind::kAverage, name, x, layer);
}

TensorId NetworkBuilder::GlobalAveragePool(const std::string& name, TensorId x) {
  if (!status_.ok()) return kNoTensor;
  const Shape& in = model_.graph.shape(x);
  if (in.size() != 4) return Layer([&] { return AddPool(&model_.graph, name, {}, x); });
  const Extent whole(static_cast<int>(in[2]), static_cast<int>(in[3]));
  return Flatten(AveragePool(name, x, {.kernel = whole}));
}

TensorId NetworkBuilder::Dense(const std::string& name, TensorId x, int64_t outputs) {
  const TensorId flat = Flatten(x);
  return Layer([&] {
    const int64_t inputs = model_.graph.shape(flat)[1];
    const TensorId weight = NewWeight(name + ".weight", {outputs, inputs}, inputs, true);
    const TensorId bias = NewWeight(name + ".bias", {outputs}, inputs, false);
    return AddDense(&model_.graph, name, flat, weight, bias);
  });
}

TensorId NetworkBuilder::BatchNorm(const std::string& name, TensorId x) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    const Shape in = model_.graph.shape(x);
    const Shape channels = {in.size() < 2 ? 1 : in[1]};
    const Initial zero = {}, one = {.center = 1};
    BatchNormParameters p;
    p.gamma = NewParameter(name + ".weight", channels, {.initial = one});
    p.beta = NewParameter(name + ".bias", channels, {.initial = zero});
    p.running_mean =
        NewParameter(name + ".running_mean", channels, {.statistic = true, .initial = zero});
    p.running_var =
        NewParameter(name + ".running_var", channels, {.statistic = true, .initial = one});
    if (mode_ == Mode::kEvaluate) return AddBatchNormInference(&model_.graph, name, {}, x, p);
    PSGD_ASSIGN_OR_RETURN(const BatchNormOutputs outputs,
                          AddBatchNorm(&model_.graph, name, {}, x, p));
    std::vector<Parameter>& parameters = model_.graph.parameters;
    for (auto [parameter, delta] : {std::pair{parameters.end() - 2, outputs.mean_delta},
                                    std::pair{parameters.end() - 1, outputs.var_delta}}) {
      parameter->gradient = delta;
      model_.graph.tensors[delta].external = true;
    }
    return outputs.y;
  });
}

TensorId NetworkBuilder::Relu(TensorId x) {
  return Layer([&] { return AddRelu(&model_.graph, NextName("relu"), x); });
}

TensorId NetworkBuilder::Dropout(TensorId x, float rate) {
  const uint32_t layer = dropouts_++;
  if (mode_ == Mode::kEvaluate || rate == 0) return x;
  return Layer([&] { return AddDropout(&model_.graph, NextName("dropout"), {rate, layer}, x); });
}

TensorId NetworkBuilder::Add(const std::string& name, TensorId a, TensorId b) {
  return Layer([&] { return AddSum(&model_.graph, name, {a, b}); });
}

TensorId NetworkBuilder::Flatten(TensorId x) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    const Shape in = model_.graph.shape(x);
    if (in.size() == 2) return x;
    return AddReshape(&model_.graph, NextName("flatten"), x, {in[0], ElementCount(in) / in[0]});
  });
}

absl::StatusOr<ModelGraph> NetworkBuilder::Finish(TensorId logits, float label_smoothing) {
  const SoftmaxCrossEntropy loss = {.label_smoothing = mode_ == Mode::kTrain ? label_smoothing : 0};
  model_.result = Layer(
      [&] { return AddSoftmaxCrossEntropy(&model_.graph, "loss", loss, logits, model_.labels); });
  PSGD_RETURN_IF_ERROR(status_);
  return std::move(model_);
}

std::string NetworkBuilder::NextName(const std::string& kind) {
  return absl::StrCat(kind, ++unnamed_);
}

}  // namespace psgd
