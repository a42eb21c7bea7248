// Layers with weights, and normalization.
#include <limits>

#include "engine/onnx/exporter.h"

namespace psgd::onnx {
namespace {

Shape Both(const Extent& extent) { return {extent.height, extent.width}; }

void SetWindow(NodeProto* node, const Window& window) {
  SetInts(node, "kernel_shape", Both(window.kernel));
  SetInts(node, "strides", Both(window.stride));
  SetInts(node, "pads", {window.pad.height, window.pad.width, window.pad.height, window.pad.width});
}

}  // namespace

void Exporter::Emit(const Bias&, const Node& node) {
  const std::string shape = Ints(node, "shape", {1, model_.graph.shape(node.inputs[1])[0], 1, 1});
  Add("Add", node, {In(node, 0), Via("Reshape", node, "column", {In(node, 1), shape})});
}

void Exporter::Emit(const Conv2d& op, const Node& node) {
  NodeProto* made = Add("Conv", node, Ins(node));
  SetWindow(made, op.window);
  SetInts(made, "dilations", Both(op.window.dilation));
  SetInt(made, "group", op.groups);
}

void Exporter::Emit(const Conv2dBackwardData& op, const Node& node) {
  const Window& w = op.forward.window;
  const Shape &in = model_.graph.shape(node.inputs[1]), &out = model_.graph.shape(node.outputs[0]);
  const auto more = [](int64_t from, int64_t to, int kernel, int stride, int pad, int dilation) {
    return to - ((from - 1) * stride - 2 * pad + int64_t{dilation} * (kernel - 1) + 1);
  };
  NodeProto* made = Add("ConvTranspose", node, {In(node, 1), In(node, 0)});
  SetWindow(made, w);
  SetInts(made, "dilations", Both(w.dilation));
  SetInts(made, "output_padding",
          {more(in[2], out[2], w.kernel.height, w.stride.height, w.pad.height, w.dilation.height),
           more(in[3], out[3], w.kernel.width, w.stride.width, w.pad.width, w.dilation.width)});
  SetInt(made, "group", op.forward.groups);
}

void Exporter::Emit(const Dense&, const Node& node) {
  SetInt(Add("Gemm", node, Ins(node)), "transB", 1);
}

void Exporter::Emit(const Embedding&, const Node& node) {
  if (node.inputs.size() == 2) {
    Add("Gather", node, {In(node, 1), In(node, 0)});
    return;
  }
  const std::string rows = Via("Gather", node, "rows", {In(node, 1), In(node, 0)});
  const std::string column =
      Via("Unsqueeze", node, "column", {In(node, 2), Ints(node, "width", {2})});
  const std::string weighted = Via("Mul", node, "weighted", {rows, column});
  SetInt(Add("ReduceSum", node, {weighted, Ints(node, "entries", {1})}), "keepdims", 0);
}

// Writes no length but, for each place, whether it lies before the padding, which the softmax
// needs.
void Exporter::Emit(const Lengths& op, const Node& node) {
  std::string tokens = In(node, 0);
  if (op.places < model_.graph.shape(node.inputs[0])[1]) {
    tokens = Via("Slice", node, "source",
                 {tokens, Ints(node, "starts", {0}), Ints(node, "ends", {op.places}),
                  Ints(node, "axes", {1})});
  }
  const std::string padding =
      Via("Equal", node, "padding", {tokens, Ints(node, "token", {op.padding})});
  const std::string ones = Between(node, "ones");
  SetInt(Add("Cast", ones, {padding}, ones), "to", TensorProto::INT64);
  const std::string sums = Via("CumSum", node, "sums", {ones, Ints(node, "axis", {1})});
  Add("Equal", node, {sums, Ints(node, "none", {0})});
}

void Exporter::Emit(const MatMul& op, const Node& node) {
  std::vector<std::string> inputs = Ins(node);
  const bool flips[] = {op.transpose_a, op.transpose_b};
  for (int i : {0, 1}) {
    if (!flips[i]) continue;
    Shape order;
    const int64_t rank = static_cast<int64_t>(model_.graph.shape(node.inputs[i]).size());
    for (int64_t axis = 0; axis < rank; ++axis) order.push_back(axis);
    std::swap(order[rank - 1], order[rank - 2]);
    const std::string flipped = Between(node, "transposed");
    SetInts(Add("Transpose", flipped, {inputs[i]}, flipped), "perm", order);
    inputs[i] = flipped;
  }
  if (op.scale != 1) {
    inputs[0] = Via("Mul", node, "scaled", {inputs[0], Number(node, "scale", op.scale)});
  }
  Add("MatMul", node, inputs);
}

std::string Exporter::AddGates(const Recurrent& op, const Node& node,
                               const std::vector<TensorId>& weights, const std::string& name) {
  // Changes the order from i f g o to i o f c, or from r z n to z r n.
  const std::vector<int> order = op.kind == Recurrent::Kind::kLstm  ? std::vector<int>{0, 3, 1, 2}
                                 : op.kind == Recurrent::Kind::kGru ? std::vector<int>{1, 0, 2}
                                                                    : std::vector<int>{0};
  Shape shape = model_.graph.shape(weights[0]);
  const int64_t rows = shape[0] / static_cast<int64_t>(order.size());
  shape[0] *= static_cast<int64_t>(weights.size());
  shape.insert(shape.begin(), 1);
  if (ParameterOf(weights[0]) >= 0) {
    std::vector<float> values;
    for (TensorId weight : weights) {
      const std::span<const float> all = values_(ParameterOf(weight));
      const size_t gate = all.size() / order.size();
      for (int at : order) {
        values.insert(values.end(), all.begin() + at * gate, all.begin() + (at + 1) * gate);
      }
    }
    AddWeight(name, shape, values);
    return name;
  }
  // Weights of an imported file, which the graph itself reorders.
  std::vector<std::string> gates;
  for (TensorId weight : weights) {
    for (int at : order) {
      gates.push_back(Via("Slice", node, "gate",
                          {NameOf(weight), Ints(node, "starts", {at * rows}),
                           Ints(node, "ends", {(at + 1) * rows}), Ints(node, "axes", {0})}));
    }
  }
  const std::string joined = Between(node, "gates");
  SetInt(Add("Concat", joined, gates, joined), "axis", 0);
  return Via("Reshape", node, "weight", {joined, Ints(node, "shape", shape)});
}

// ONNX puts time first and has an axis of directions.
void Exporter::Emit(const Recurrent& op, const Node& node) {
  using Kind = Recurrent::Kind;
  const std::string steps = Between(node, "steps"), all = Between(node, "all");
  SetInts(Add("Transpose", steps, {In(node, 0)}, steps), "perm", {1, 0, 2});
  const std::string w = AddGates(op, node, {node.inputs[1]}, NameOf(node.inputs[1]));
  const std::string r = AddGates(op, node, {node.inputs[2]}, NameOf(node.inputs[2]));
  const std::string b = AddGates(op, node, {node.inputs[3], node.inputs[4]}, Between(node, "bias"));
  const char* cell = op.kind == Kind::kLstm ? "LSTM" : op.kind == Kind::kGru ? "GRU" : "RNN";
  NodeProto* made = Add(cell, node.name, {steps, w, r, b}, all);
  SetInt(made, "hidden_size", model_.graph.shape(node.outputs[0])[2]);
  if (op.kind == Kind::kGru) SetInt(made, "linear_before_reset", 1);
  if (op.kind == Kind::kRelu) {
    NewAttribute(made, "activations", AttributeProto::STRINGS)->add_strings("Relu");
  }
  const std::string states = Via("Squeeze", node, "states", {all, Ints(node, "direction", {1})});
  SetInts(Add("Transpose", node, {states}), "perm", {1, 0, 2});
}

void Exporter::Emit(const Pool& op, const Node& node) {
  const bool max = op.kind == Pool::Kind::kMax;
  NodeProto* made = Add(max ? "MaxPool" : "AveragePool", node, {In(node, 0)});
  SetWindow(made, op.window);
  SetInt(made, "ceil_mode", op.ceil ? 1 : 0);
  if (!max) SetInt(made, "count_include_pad", 1);
}

void Exporter::Emit(const BatchNormInference& op, const Node& node) {
  SetFloat(Add("BatchNormalization", node, Ins(node)), "epsilon", op.epsilon);
}

void Exporter::Emit(const LayerNorm& op, const Node& node) {
  NodeProto* made = Add("LayerNormalization", node, Ins(node));
  SetFloat(made, "epsilon", op.epsilon);
  SetInt(made, "axis", -1);
}

void Exporter::Emit(const LocalResponseNorm& op, const Node& node) {
  NodeProto* made = Add("LRN", node, Ins(node));
  SetInt(made, "size", op.size);
  SetFloat(made, "alpha", op.alpha);
  SetFloat(made, "beta", op.beta);
  SetFloat(made, "bias", op.k);
}

void Exporter::Emit(const Softmax& op, const Node& node) {
  std::string x = In(node, 0);
  if (op.scale != 1) {
    x = Via("Mul", node, "scaled", {x, Number(node, "scale", op.scale)});
  }
  if (op.causal) {
    const Shape& shape = model_.graph.shape(node.inputs[0]);
    const int64_t keys = shape.back(), queries = shape[shape.size() - 2];
    std::vector<float> mask;
    for (int64_t i = 0; i < queries * keys; ++i) {
      const bool open = i % keys <= i / keys + keys - queries;
      mask.push_back(open ? 0 : -std::numeric_limits<float>::infinity());
    }
    x = Via("Add", node, "masked", {x, Numbers(node, "mask", {queries, keys}, mask)});
  }
  if (node.inputs.size() == 1) {
    SetInt(Add("Softmax", node, {x}), "axis", -1);
    return;
  }
  // Padding gets the lowest number, and zeros afterwards. So a sample without open places has
  // zeros; infinities would give NaN.
  const Shape& shape = model_.graph.shape(node.inputs[0]);
  Shape spread(shape.size(), 1);
  spread.front() = -1;
  spread.back() = shape.back();
  const std::string open = Via("Reshape", node, "open", {In(node, 1), Ints(node, "shape", spread)});
  const std::string least = Number(node, "least", std::numeric_limits<float>::lowest());
  const std::string scores = Via("Where", node, "open_scores", {open, x, least});
  const std::string weights = Between(node, "open_weights");
  SetInt(Add("Softmax", weights, {scores}, weights), "axis", -1);
  Add("Where", node, {open, weights, Number(node, "closed", 0)});
}

}  // namespace psgd::onnx
