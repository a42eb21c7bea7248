// Ops element by element, and ops that only move elements.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/onnx/exporter.h"

namespace psgd::onnx {

void Exporter::Emit(const RowBias&, const Node& node) { Add("Add", node, Ins(node)); }

void Exporter::Emit(const Mul&, const Node& node) { Add("Mul", node, Ins(node)); }

void Exporter::Emit(const Relu&, const Node& node) { Add("Relu", node, Ins(node)); }

void Exporter::Emit(const Sum&, const Node& node) {
  Add(node.inputs.size() == 2 ? "Add" : "Sum", node, Ins(node));
}

void Exporter::Emit(const Activation& op, const Node& node) {
  using Kind = Activation::Kind;
  const auto as = [&](const char* name) { Add(name, node, Ins(node)); };
  switch (op.kind) {
    case Kind::kLeakyRelu:
      SetFloat(Add("LeakyRelu", node, Ins(node)), "alpha", op.alpha);
      return;
    case Kind::kSigmoid:
      return as("Sigmoid");
    case Kind::kTanh:
      return as("Tanh");
    case Kind::kGelu:
      return EmitGelu(node);
    case Kind::kElu: {
      NodeProto* made = Add(op.beta == 1 ? "Elu" : "Selu", node, Ins(node));
      SetFloat(made, "alpha", op.alpha);
      if (op.beta != 1) SetFloat(made, "gamma", op.beta);
      return;
    }
    case Kind::kHardSigmoid:
    case Kind::kHardSwish: {
      const bool product = op.kind == Kind::kHardSwish;
      const std::string share = product ? Between(node, "share") : Out(node);
      NodeProto* made = Add("HardSigmoid", share, Ins(node), share);
      SetFloat(made, "alpha", op.alpha);
      SetFloat(made, "beta", op.beta);
      if (product) Add("Mul", node, {In(node, 0), share});
      return;
    }
    case Kind::kSilu: {
      Add("Mul", node, {In(node, 0), Via("Sigmoid", node, "share", Ins(node))});
      return;
    }
    case Kind::kSoftplus:
      return as("Softplus");
    case Kind::kMish: {
      const std::string soft = Via("Softplus", node, "soft", Ins(node));
      Add("Mul", node, {In(node, 0), Via("Tanh", node, "share", {soft})});
      return;
    }
    case Kind::kClip:
      Add("Clip", node,
          {In(node, 0), std::isfinite(op.alpha) ? Number(node, "least", op.alpha) : "",
           std::isfinite(op.beta) ? Number(node, "most", op.beta) : ""});
      return;
    case Kind::kLinear: {
      const std::string scaled = op.beta == 0 ? Out(node) : Between(node, "scaled");
      Add("Mul", scaled, {In(node, 0), Number(node, "factor", op.alpha)}, scaled);
      if (op.beta != 0) Add("Add", node, {scaled, Number(node, "term", op.beta)});
      return;
    }
    case Kind::kPower:
      Add("Pow", node, {In(node, 0), Number(node, "power", op.alpha)});
      return;
    case Kind::kExp:
      return as("Exp");
    case Kind::kLog:
      return as("Log");
    case Kind::kSin:
      return as("Sin");
    case Kind::kCos:
      return as("Cos");
    case Kind::kAbsolute:
      return as("Abs");
    case Kind::kStep: {
      const std::string above =
          Via("Greater", node, "above", {In(node, 0), Number(node, "zero", 0)});
      SetInt(Add("Cast", node, {above}), "to", TensorProto::FLOAT);
      return;
    }
  }
}

std::string Exporter::OfSamples(const Node& node, int64_t each, int axis, size_t rank) {
  const std::string sizes = Via("Shape", node, "sizes", {NameOf(model_.input)});
  const std::string samples = Via("Gather", node, "samples", {sizes, Ints(node, "first", {0})});
  const std::string rows = Via("Mul", node, "rows", {samples, Ints(node, "each", {each})});
  const Shape before(static_cast<size_t>(axis), 1), after(rank - axis - 1, 1);
  std::vector<std::string> parts = {rows};
  if (!before.empty()) parts.insert(parts.begin(), Ints(node, "before", before));
  if (!after.empty()) parts.push_back(Ints(node, "after", after));
  const std::string shape = Between(node, "shape");
  SetInt(Add("Concat", shape, parts, shape), "axis", 0);
  return shape;
}

// ONNX has Gelu only from opset 20 on.
void Exporter::EmitGelu(const Node& node) {
  const std::string x = In(node, 0), root = Number(node, "root", std::sqrt(2.0f));
  const std::string divided = Via("Div", node, "divided", {x, root});
  const std::string erf = Via("Erf", node, "erf", {divided});
  const std::string sum = Via("Add", node, "sum", {erf, Number(node, "one", 1)});
  const std::string product = Via("Mul", node, "product", {x, sum});
  Add("Mul", node, {product, Number(node, "half", 0.5f)});
}

// A Gather, a sum over the axis, or the product with the matrix. A row for each sample of the batch
// is a repeated one.
void Exporter::Emit(const AxisMap& op, const Node& node) {
  const AxisMatrix& matrix = *op.matrix;
  const bool ones = std::ranges::all_of(matrix.weight, [](float weight) { return weight == 1; });
  bool takes = ones && static_cast<int64_t>(matrix.source.size()) == matrix.rows();
  for (int64_t row = 0; row < matrix.rows(); ++row) takes = takes && matrix.first[row] == row;
  const Shape& in = model_.graph.shape(node.inputs[0]);
  if (BatchAxisOf(node.outputs[0]) == op.axis) {
    const int64_t batch = model_.graph.shape(model_.input)[0];
    if (!takes || matrix.columns != 1 || matrix.rows() % batch != 0) {
      return Refuse(absl::UnimplementedError("has " + node.name + ", which combines samples"));
    }
    Add("Expand", node, {In(node, 0), OfSamples(node, matrix.rows() / batch, op.axis, in.size())});
    return;
  }
  if (takes) {
    SetInt(Add("Gather", node,
               {In(node, 0), Ints(node, "index", {matrix.source.begin(), matrix.source.end()})}),
           "axis", op.axis);
    return;
  }
  if (ones && matrix.rows() == 1 && static_cast<int64_t>(matrix.source.size()) == matrix.columns) {
    Add("ReduceSum", node, {In(node, 0), Ints(node, "axes", {op.axis})});
    return;
  }
  constexpr int64_t kMostDense = int64_t{1} << 24;
  if (matrix.rows() * matrix.columns > kMostDense) {
    return Refuse(absl::UnimplementedError(
        absl::StrCat("has ", node.name, ", which maps ", matrix.columns, " elements to ",
                     matrix.rows(), ": too many for a matrix in the file")));
  }
  std::vector<float> dense(static_cast<size_t>(matrix.rows() * matrix.columns));
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    for (int32_t k = matrix.first[row]; k < matrix.first[row + 1]; ++k) {
      dense[row * matrix.columns + matrix.source[k]] += matrix.weight[k];
    }
  }
  std::string from, to;
  for (int axis = 0; axis < static_cast<int>(in.size()); ++axis) {
    from += static_cast<char>('a' + axis);
    to += static_cast<char>(axis == op.axis ? 'z' : 'a' + axis);
  }
  const std::string equation = absl::StrCat(from, ",z", from.substr(op.axis, 1), "->", to);
  SetText(Add("Einsum", node,
              {In(node, 0), Numbers(node, "matrix", {matrix.rows(), matrix.columns}, dense)}),
          "equation", equation.c_str());
}

void Exporter::Emit(const Concat& op, const Node& node) {
  SetInt(Add("Concat", node, Ins(node)), "axis", op.axis);
}

// A constant with an axis of the batch is written for one sample, and repeated unless it
// broadcasts.
void Exporter::Emit(const Constant& op, const Node& node) {
  Shape shape = model_.graph.shape(node.outputs[0]);
  std::vector<float> values = *op.values;
  if (const int axis = BatchAxisOf(node.outputs[0]); axis >= 0) {
    const int64_t batch = model_.graph.shape(model_.input)[0];
    if (axis != 0 || shape[0] % batch != 0) {
      return Refuse(absl::UnimplementedError("has the constant " + node.name +
                                             ", whose size the batch decides"));
    }
    shape[0] /= batch;
    values.resize(static_cast<size_t>(ElementCount(shape)));
    if (shape[0] > 1) {
      Add("Tile", node,
          {Numbers(node, "values", shape, values), OfSamples(node, 1, 0, shape.size())});
      return;
    }
  }
  names_[node.outputs[0]] = Numbers(node, "values", shape, values);
}

void Exporter::Emit(const Pad& op, const Node& node) {
  const Shape &in = model_.graph.shape(node.inputs[0]), &out = model_.graph.shape(node.outputs[0]);
  Shape pads = op.before;
  for (size_t i = 0; i < in.size(); ++i) pads.push_back(out[i] - in[i] - op.before[i]);
  Add("Pad", node,
      {In(node, 0), Ints(node, "pads", pads), Numbers(node, "outside", {}, {op.value})});
}

void Exporter::Emit(const Reshape&, const Node& node) {
  Shape shape = model_.graph.shape(node.outputs[0]);
  if (const int axis = BatchAxisOf(node.outputs[0]); axis >= 0) shape[axis] = -1;
  Add("Reshape", node, {In(node, 0), Ints(node, "shape", shape)});
}

void Exporter::Emit(const Select& op, const Node& node) {
  const std::string above = Via("Greater", node, "above", {In(node, 0), Number(node, "zero", 0)});
  Add("Where", node,
      {above, op.a ? Number(node, "number", *op.a) : In(node, op.place_of_a()),
       op.b ? Number(node, "otherwise", *op.b) : In(node, op.place_of_b())});
}

void Exporter::Emit(const Slice& op, const Node& node) {
  const int64_t length = model_.graph.shape(node.outputs[0])[op.axis];
  Add("Slice", node,
      {In(node, 0), Ints(node, "starts", {op.begin}), Ints(node, "ends", {op.begin + length}),
       Ints(node, "axes", {op.axis})});
}

void Exporter::Emit(const Transpose& op, const Node& node) {
  SetInts(Add("Transpose", node, {In(node, 0)}), "perm",
          Shape(op.permutation.begin(), op.permutation.end()));
}

void Exporter::Emit(const Upsample& op, const Node& node) {
  const float factor = static_cast<float>(op.factor);
  NodeProto* made =
      Add("Resize", node, {In(node, 0), "", Numbers(node, "scales", {4}, {1, 1, factor, factor})});
  SetText(made, "mode", "nearest");
  SetText(made, "coordinate_transformation_mode", "asymmetric");
  SetText(made, "nearest_mode", "floor");
}

}  // namespace psgd::onnx
