// Ops element by element, and ops that only move elements.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/onnx/exporter.h"

namespace psgd::onnx {

absl::Status Exporter::Emit(const RowBias&, const Node& node) {
  Add("Add", node, Ins(node));
  return absl::OkStatus();
}

absl::Status Exporter::Emit(const Mul&, const Node& node) {
  Add("Mul", node, Ins(node));
  return absl::OkStatus();
}

absl::Status Exporter::Emit(const Relu&, const Node& node) {
  Add("Relu", node, Ins(node));
  return absl::OkStatus();
}

absl::Status Exporter::Emit(const Sum&, const Node& node) {
  Add(node.inputs.size() == 2 ? "Add" : "Sum", node, Ins(node));
  return absl::OkStatus();
}

// ONNX has Gelu only from opset 20 on.
absl::Status Exporter::Emit(const Activation& op, const Node& node) {
  using Kind = Activation::Kind;
  switch (op.kind) {
    case Kind::kLeakyRelu:
      SetFloat(Add("LeakyRelu", node, Ins(node)), "alpha", op.slope);
      return absl::OkStatus();
    case Kind::kSigmoid:
      Add("Sigmoid", node, Ins(node));
      return absl::OkStatus();
    case Kind::kTanh:
      Add("Tanh", node, Ins(node));
      return absl::OkStatus();
    case Kind::kGelu:
      break;
  }
  const std::string x = In(node, 0), divided = Between(node, "divided"), erf = Between(node, "erf"),
                    sum = Between(node, "sum"), product = Between(node, "product");
  Add("Div", divided, {x, Numbers(node, "root", {}, {std::sqrt(2.0f)})}, divided);
  Add("Erf", erf, {divided}, erf);
  Add("Add", sum, {erf, Numbers(node, "one", {}, {1})}, sum);
  Add("Mul", product, {x, sum}, product);
  Add("Mul", node, {product, Numbers(node, "half", {}, {0.5f})});
  return absl::OkStatus();
}

absl::Status Exporter::Emit(const Concat& op, const Node& node) {
  SetInt(Add("Concat", node, Ins(node)), "axis", op.axis);
  return absl::OkStatus();
}

// A constant with an axis of the batch is written for one sample and broadcasts.
absl::Status Exporter::Emit(const Constant& op, const Node& node) {
  Shape shape = model_.graph.shape(node.outputs[0]);
  std::vector<float> values = *op.values;
  if (const int axis = BatchAxisOf(node.outputs[0]); axis >= 0) {
    const int64_t batch = model_.graph.shape(model_.input)[0];
    if (axis != 0 || shape[0] % batch != 0) {
      return absl::UnimplementedError("has the constant " + node.name +
                                      ", whose size the batch decides");
    }
    shape[0] /= batch;
    values.resize(static_cast<size_t>(ElementCount(shape)));
  }
  names_[node.outputs[0]] = Numbers(node, "values", shape, values);
  return absl::OkStatus();
}

absl::Status Exporter::Emit(const Pad& op, const Node& node) {
  const Shape &in = model_.graph.shape(node.inputs[0]), &out = model_.graph.shape(node.outputs[0]);
  Shape pads = op.before;
  for (size_t i = 0; i < in.size(); ++i) pads.push_back(out[i] - in[i] - op.before[i]);
  Add("Pad", node,
      {In(node, 0), Ints(node, "pads", pads), Numbers(node, "outside", {}, {op.value})});
  return absl::OkStatus();
}

absl::Status Exporter::Emit(const Reshape&, const Node& node) {
  Shape shape = model_.graph.shape(node.outputs[0]);
  if (const int axis = BatchAxisOf(node.outputs[0]); axis >= 0) shape[axis] = -1;
  Add("Reshape", node, {In(node, 0), Ints(node, "shape", shape)});
  return absl::OkStatus();
}

absl::Status Exporter::Emit(const Slice& op, const Node& node) {
  const int64_t length = model_.graph.shape(node.outputs[0])[op.axis];
  Add("Slice", node,
      {In(node, 0), Ints(node, "starts", {op.begin}), Ints(node, "ends", {op.begin + length}),
       Ints(node, "axes", {op.axis})});
  return absl::OkStatus();
}

absl::Status Exporter::Emit(const Transpose& op, const Node& node) {
  SetInts(Add("Transpose", node, {In(node, 0)}), "perm",
          Shape(op.permutation.begin(), op.permutation.end()));
  return absl::OkStatus();
}

absl::Status Exporter::Emit(const Upsample& op, const Node& node) {
  const float factor = static_cast<float>(op.factor);
  NodeProto* made =
      Add("Resize", node, {In(node, 0), "", Numbers(node, "scales", {4}, {1, 1, factor, factor})});
  SetText(made, "mode", "nearest");
  SetText(made, "coordinate_transformation_mode", "asymmetric");
  SetText(made, "nearest_mode", "floor");
  return absl::OkStatus();
}

}  // namespace psgd::onnx
