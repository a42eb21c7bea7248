#include "engine/graph/builder.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/graph/loss.h"

namespace psgd {

NetworkBuilder::NetworkBuilder(Mode mode, int batch, const SampleShape& shape)
    : mode_(mode), shape_(shape) {
  const bool whole = shape.IsSequence() || shape.IsSparse();
  const Shape input = shape.IsSparse() ? Shape{batch, shape.entries}
                      : shape.IsSequence()
                          ? Shape{batch, shape.length}
                          : Shape{batch, shape.channels, shape.height, shape.width};
  if (TooLarge(input) || shape.classes < 1 || (whole && shape.vocabulary < 1)) {
    status_ = InvalidArgumentError("a batch of ", ShapeText(input), " with ", shape.classes,
                                   " classes is empty or too large");
    return;
  }
  model_.input = model_.graph.AddTensor({.name = shape.IsSparse() ? "indices"
                                                 : whole          ? "tokens"
                                                                  : "image",
                                         .shape = input,
                                         .element = whole ? Element::kInt32 : Element::kReal,
                                         .external = true});
  if (shape.IsSparse()) {
    model_.values = model_.graph.AddTensor({.name = "values", .shape = input, .external = true});
  }
}

TensorId NetworkBuilder::Input(bool right, const char* wanted) {
  if (status_.ok() && !right) {
    const char* given = shape_.IsPair()        ? "pairs of sequences"
                        : shape_.HasOneLabel() ? "texts with one label"
                        : shape_.IsSequence()  ? "sequences of tokens"
                        : shape_.IsSparse()    ? "sparse vectors"
                                               : "images";
    status_ = InvalidArgumentError("the network takes ", wanted, ", but samples are ", given);
  }
  return model_.input;
}

TensorId NetworkBuilder::image() {
  return Input(!shape_.IsSequence() && !shape_.IsSparse(), "images");
}
TensorId NetworkBuilder::tokens() {
  return Input(shape_.IsSequence() && shape_.source == 0, "sequences of tokens");
}
TensorId NetworkBuilder::pair() { return Input(shape_.IsPair(), "pairs of sequences"); }
TensorId NetworkBuilder::text() { return Input(shape_.HasOneLabel(), "texts with one label"); }
TensorId NetworkBuilder::indices() { return Input(shape_.IsSparse(), "sparse vectors"); }

void NetworkBuilder::Refuse(const std::string& why) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(why);
}

TensorId NetworkBuilder::Layer(const std::function<absl::StatusOr<TensorId>()>& make) {
  if (!status_.ok()) return kNoTensor;
  absl::StatusOr<TensorId> made = make();
  if (made.ok() && status_.ok() && TooLarge(model_.graph.shape(*made))) {
    made =
        InvalidArgumentError(model_.graph.tensors[*made].name, ": ",
                             ShapeText(model_.graph.shape(*made)), " is too large for one tensor");
  }
  if (status_.ok()) status_ = made.status();
  return status_.ok() ? *made : kNoTensor;
}

TensorId NetworkBuilder::NewParameter(const std::string& name, Shape shape, Parameter parameter) {
  if (TooLarge(shape)) {
    status_ = InvalidArgumentError(name, ": ", ShapeText(shape), " is too large for one tensor");
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

// Fans are counted as in PyTorch: fan_in by the second size of the weights, fan_out by the first,
// also in a transposed convolution. Groups do not matter.
TensorId NetworkBuilder::NewConvWeight(const std::string& name, const Shape& shape) {
  const int64_t area = shape[2] * shape[3];
  if (!he_initial_) return NewWeight(name + ".weight", shape, shape[1] * area, true);
  const double deviation = std::sqrt(2.0 / static_cast<double>(shape[0] * area));
  return NewParameter(name + ".weight", shape,
                      {.decay = true, .initial = {Initial::Kind::kNormal, 0, deviation}});
}

TensorId NetworkBuilder::NewConvBias(const std::string& name, int channels, const Shape& weight) {
  if (he_initial_) return NewParameter(name + ".bias", {channels}, {});
  return NewWeight(name + ".bias", {channels}, weight[1] * weight[2] * weight[3], false);
}

TensorId NetworkBuilder::Conv2d(const std::string& name, TensorId x, const ConvLayer& layer) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    const Shape in = model_.graph.shape(x);
    if (in.size() != 4 || layer.groups < 1 || in[1] % layer.groups != 0) {
      return InvalidArgumentError(name, ": cannot convolve ", ShapeText(in), " in ", layer.groups,
                                  " groups");
    }
    const psgd::Conv2d op = {{layer.kernel, layer.stride, layer.pad, layer.dilation}, layer.groups};
    const Shape shape = {layer.channels, in[1] / layer.groups, layer.kernel.height,
                         layer.kernel.width};
    const TensorId weight = NewConvWeight(name, shape);
    const TensorId bias = layer.bias ? NewConvBias(name, layer.channels, shape) : kNoTensor;
    return AddConv2d(&model_.graph, name, op, x, weight, bias);
  });
}

TensorId NetworkBuilder::ConvTranspose2d(const std::string& name, TensorId x,
                                         const ConvLayer& layer) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    const Shape in = model_.graph.shape(x);
    if (in.size() != 4 || layer.groups < 1 || layer.channels % layer.groups != 0) {
      return InvalidArgumentError(name, ": cannot convolve ", ShapeText(in), " in ", layer.groups,
                                  " groups");
    }
    const psgd::Conv2d op = {{layer.kernel, layer.stride, layer.pad, layer.dilation}, layer.groups};
    const Shape shape = {in[1], layer.channels / layer.groups, layer.kernel.height,
                         layer.kernel.width};
    const TensorId weight = NewConvWeight(name, shape);
    const TensorId bias = layer.bias ? NewConvBias(name, layer.channels, shape) : kNoTensor;
    return AddConvTranspose2d(&model_.graph, name, op, 0, x, weight, bias);
  });
}

TensorId NetworkBuilder::Pool(Pool::Kind kind, const std::string& name, TensorId x,
                              const PoolLayer& layer) {
  return Layer([&] {
    return AddPool(&model_.graph, name, {kind, {layer.kernel, layer.stride, layer.pad}, layer.ceil},
                   x);
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

TensorId NetworkBuilder::AdaptiveAveragePool(const std::string& name, TensorId x, Extent size) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    const Shape& in = model_.graph.shape(x);
    if (in.size() == 4 && in[2] == size.height && in[3] == size.width) return x;
    return AddAdaptiveAveragePool(&model_.graph, name, size, x);
  });
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

TensorId NetworkBuilder::BatchNorm(const std::string& name, TensorId x, float epsilon) {
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
    if (mode_ == Mode::kEvaluate)
      return AddBatchNormInference(&model_.graph, name, {epsilon}, x, p);
    PSGD_ASSIGN_OR_RETURN(const BatchNormOutputs outputs,
                          AddBatchNorm(&model_.graph, name, {epsilon}, x, p));
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

TensorId NetworkBuilder::Gelu(TensorId x) {
  return Layer([&] {
    return AddActivation(&model_.graph, NextName("gelu"), {psgd::Activation::Kind::kGelu}, x);
  });
}

TensorId NetworkBuilder::Dropout(TensorId x, float rate) {
  const uint32_t layer = dropouts_++;
  if (mode_ == Mode::kEvaluate || rate == 0) return x;
  return Layer([&] { return AddDropout(&model_.graph, NextName("dropout"), {rate, layer}, x); });
}

TensorId NetworkBuilder::Add(const std::string& name, TensorId a, TensorId b) {
  return Layer([&] { return AddSum(&model_.graph, name, {a, b}); });
}

TensorId NetworkBuilder::Mul(const std::string& name, TensorId a, TensorId b) {
  return Layer([&] { return AddMul(&model_.graph, name, a, b); });
}

TensorId NetworkBuilder::Scale(const std::string& name, TensorId x, float factor) {
  if (!status_.ok()) return kNoTensor;
  const Shape shape = model_.graph.shape(x);
  const auto factors = [&] {
    return std::vector<float>(static_cast<size_t>(ElementCount(shape)), factor);
  };
  return Mul(name, x, Constant(name + ".factor", shape, factors));
}

TensorId NetworkBuilder::Constant(const std::string& name, const Shape& shape,
                                  const std::function<std::vector<float>()>& values) {
  return Layer([&] {
    auto kept = std::make_shared<const std::vector<float>>(values());
    return AddConstant(&model_.graph, name, {std::move(kept)}, shape);
  });
}

TensorId NetworkBuilder::Concat(const std::string& name, const std::vector<TensorId>& parts) {
  return Layer([&] { return AddConcat(&model_.graph, name, {}, parts); });
}

TensorId NetworkBuilder::Slice(const std::string& name, TensorId x, const psgd::Slice& op,
                               int64_t length) {
  return Layer([&] { return AddSlice(&model_.graph, name, op, length, x); });
}

TensorId NetworkBuilder::Pad(const std::string& name, TensorId x, const psgd::Pad& op,
                             const Shape& after) {
  return Layer([&] { return AddPad(&model_.graph, name, op, after, x); });
}

TensorId NetworkBuilder::Flatten(TensorId x) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    const Shape in = model_.graph.shape(x);
    if (in.size() == 2) return x;
    return AddReshape(&model_.graph, NextName("flatten"), x, {in[0], ElementCount(in) / in[0]});
  });
}

absl::StatusOr<ModelGraph> NetworkBuilder::Finish(TensorId logits, const ModelConfig& config) {
  if (status_.ok()) status_ = AddLoss(config, shape_, mode_, logits, &model_);
  PSGD_RETURN_IF_ERROR(status_);
  return std::move(model_);
}

std::string NetworkBuilder::NextName(const std::string& kind) {
  return absl::StrCat(kind, ++unnamed_);
}

TensorId NetworkBuilder::Table(const std::string& name, int64_t rows, int64_t width, double stddev,
                               bool sparse) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    return NewParameter(
        name + ".weight", {rows, width},
        {.decay = true, .sparse = sparse, .initial = {Initial::Kind::kNormal, 0, stddev}});
  });
}

TensorId NetworkBuilder::SparseLinear(const std::string& name, int64_t outputs) {
  const TensorId in = indices();
  return Layer([&]() -> absl::StatusOr<TensorId> {
    const TensorId weight =
        NewParameter(name + ".weight", {vocabulary(), outputs}, {.decay = true, .sparse = true});
    const TensorId bias = NewParameter(name + ".bias", {outputs}, {.decay = true});
    PSGD_ASSIGN_OR_RETURN(const TensorId sum,
                          AddEmbeddingBag(&model_.graph, name + ".sum", in, model_.values, weight));
    return AddRowBias(&model_.graph, name, sum, bias);
  });
}

TensorId NetworkBuilder::AgainstZero(const std::string& name, TensorId x) {
  return Pad(name, x, {.before = {0, 1}}, {0, 0});
}

TensorId NetworkBuilder::Embed(const std::string& name, TensorId index, TensorId table) {
  return Layer([&] { return AddEmbedding(&model_.graph, name, index, table); });
}

TensorId NetworkBuilder::AddRows(const std::string& name, TensorId x, TensorId rows) {
  return Layer([&] { return AddRowBias(&model_.graph, name, x, rows); });
}

TensorId NetworkBuilder::Reshape(const std::string& name, TensorId x, Shape shape) {
  return Layer([&] { return AddReshape(&model_.graph, name, x, std::move(shape)); });
}

TensorId NetworkBuilder::Linear(const std::string& name, TensorId x, const LinearLayer& layer) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    Shape shape = model_.graph.shape(x);
    const int64_t inputs = shape.back();
    const Initial normal = {Initial::Kind::kNormal, 0, layer.stddev};
    const TensorId weight =
        layer.stddev > 0 ? NewParameter(name + ".weight", {layer.outputs, inputs},
                                        {.decay = true, .initial = normal})
                         : NewWeight(name + ".weight", {layer.outputs, inputs}, inputs, true);
    TensorId bias = kNoTensor;
    if (layer.bias) {
      bias = layer.stddev > 0 ? NewParameter(name + ".bias", {layer.outputs}, {})
                              : NewWeight(name + ".bias", {layer.outputs}, inputs, false);
    }
    const Shape rows = {ElementCount(shape) / inputs, inputs};
    PSGD_ASSIGN_OR_RETURN(const TensorId flat, AddReshape(&model_.graph, name + ".rows", x, rows));
    PSGD_ASSIGN_OR_RETURN(const TensorId y, AddDense(&model_.graph, name, flat, weight, bias));
    shape.back() = layer.outputs;
    return AddReshape(&model_.graph, name + ".out", y, std::move(shape));
  });
}

TensorId NetworkBuilder::LinearByTable(const std::string& name, TensorId x, TensorId table) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    Shape shape = model_.graph.shape(x);
    const Shape rows = {ElementCount(shape) / shape.back(), shape.back()};
    PSGD_ASSIGN_OR_RETURN(const TensorId flat, AddReshape(&model_.graph, name + ".rows", x, rows));
    PSGD_ASSIGN_OR_RETURN(const TensorId y, AddDense(&model_.graph, name, flat, table, kNoTensor));
    shape.back() = model_.graph.shape(table)[0];
    return AddReshape(&model_.graph, name + ".out", y, std::move(shape));
  });
}

TensorId NetworkBuilder::LayerNorm(const std::string& name, TensorId x) {
  return Layer([&] {
    const Shape width = {model_.graph.shape(x).back()};
    const TensorId gamma = NewParameter(name + ".weight", width, {.initial = {.center = 1}});
    const TensorId beta = NewParameter(name + ".bias", width, {});
    return AddLayerNorm(&model_.graph, name, {}, x, gamma, beta);
  });
}

TensorId NetworkBuilder::Attention(const std::string& name, TensorId x, TensorId other,
                                   const AttentionLayer& layer) {
  if (!status_.ok()) return kNoTensor;
  const Shape in = model_.graph.shape(x);
  if (in.size() != 3 || in[2] % layer.heads != 0) {
    status_ = InvalidArgumentError(name, ": ", layer.heads, " heads do not share ", ShapeText(in),
                                   " evenly");
    return kNoTensor;
  }
  const auto transpose = [&](const std::string& of, TensorId heads) {
    return Layer([&] { return AddTranspose(&model_.graph, of, {{0, 2, 1, 3}}, heads); });
  };
  // N T C to N H T C/H
  const auto project = [&](const std::string& to, TensorId from) {
    const int64_t places = model_.graph.shape(from)[1];
    const TensorId all = Linear(to, from, {.outputs = in[2], .stddev = layer.stddev});
    return transpose(to + ".heads", Reshape(to + ".split", all,
                                            {in[0], places, layer.heads, in[2] / layer.heads}));
  };
  const TensorId q = project(name + ".q_proj", x), k = project(name + ".k_proj", other);
  const TensorId v = project(name + ".v_proj", other);
  const TensorId attended = Layer([&] {
    return AddAttention(&model_.graph, name, {.causal = layer.causal}, q, k, v, layer.lengths);
  });
  const TensorId joined = Reshape(name + ".joined", transpose(name + ".places", attended), in);
  return Linear(name + ".out_proj", joined, {.outputs = in[2], .stddev = layer.out_stddev});
}

TensorId NetworkBuilder::SourceLengths(const std::string& name) {
  return Layer([&] { return AddLengths(&model_.graph, name, {.places = source()}, model_.input); });
}

// Equal scores at every token make a softmax of 1 / length before the padding and 0 in it.
TensorId NetworkBuilder::MeanOverTokens(const std::string& name, TensorId x, TensorId lengths) {
  const auto zeros = [this] { return std::vector<float>(static_cast<size_t>(vocabulary())); };
  const TensorId table = Constant(name + ".zeros", {vocabulary(), 1}, zeros);
  const TensorId scores = Embed(name + ".scores", model_.input, table);
  return Flatten(Layer([&]() -> absl::StatusOr<TensorId> {
    const Shape& in = model_.graph.shape(x);
    PSGD_ASSIGN_OR_RETURN(const TensorId row,
                          AddReshape(&model_.graph, name + ".row", scores, {in[0], 1, in[1]}));
    PSGD_ASSIGN_OR_RETURN(const TensorId weights,
                          AddSoftmax(&model_.graph, name + ".weights", {}, row, lengths));
    return AddMatMul(&model_.graph, name, {}, weights, x);
  }));
}

TensorId NetworkBuilder::Recurrent(const std::string& name, TensorId x,
                                   const RecurrentLayer& layer) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    const Shape in = model_.graph.shape(x);
    const psgd::Recurrent op = {layer.kind};
    const int64_t rows = op.gates() * layer.width;
    const auto weight = [&](const char* kind, Shape shape) {
      const bool decay = shape.size() > 1;
      return NewWeight(absl::StrCat(name, ".", kind, "_l", layer.index), std::move(shape),
                       layer.width, decay);
    };
    RecurrentParameters p;
    p.weight_ih = weight("weight_ih", {rows, in.back()});
    p.weight_hh = weight("weight_hh", {rows, layer.width});
    p.bias_ih = weight("bias_ih", {rows});
    p.bias_hh = weight("bias_hh", {rows});
    return AddRecurrent(&model_.graph, absl::StrCat(name, ".", layer.index), op, x, p);
  });
}

}  // namespace psgd
