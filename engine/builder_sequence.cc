// The layers of sequence models.
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/builder.h"

namespace psgd {

TensorId NetworkBuilder::Table(const std::string& name, int64_t rows, int64_t width,
                               double stddev, bool sparse) {
  return Layer([&]() -> absl::StatusOr<TensorId> {
    return NewParameter(
        name + ".weight", {rows, width},
        {.decay = true, .sparse = sparse, .initial = {Initial::Kind::kNormal, 0, stddev}});
  });
}

TensorId NetworkBuilder::SparseLinear(const std::string& name, int64_t outputs) {
  const TensorId in = indices();
  return Layer([&]() -> absl::StatusOr<TensorId> {
    const TensorId weight = NewParameter(name + ".weight", {vocabulary(), outputs},
                                         {.decay = true, .sparse = true});
    const TensorId bias = NewParameter(name + ".bias", {outputs}, {.decay = true});
    PSGD_ASSIGN_OR_RETURN(const TensorId sum, AddEmbeddingBag(&model_.graph, name + ".sum", in,
                                                              model_.values, weight));
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
    status_ = absl::InvalidArgumentError(
        absl::StrCat(name, ": ", layer.heads, " heads do not share ", ShapeText(in), " evenly"));
    return kNoTensor;
  }
  const auto transpose = [&](const std::string& of, TensorId heads) {
    return Layer([&] { return AddTranspose(&model_.graph, of, {{0, 2, 1, 3}}, heads); });
  };
  // N T C to N H T C/H
  const auto project = [&](const std::string& to, TensorId from) {
    const int64_t places = model_.graph.shape(from)[1];
    const TensorId all = Linear(to, from, {.outputs = in[2], .stddev = layer.stddev});
    return transpose(to + ".heads",
                     Reshape(to + ".split", all, {in[0], places, layer.heads, in[2] / layer.heads}));
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
