// LSTM and GRU, one layer in one direction. ONNX puts time first and has another order of gates
// (i o f c, and z r h). The graph reorders the weights, so that parameters stay as in the file.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/importer.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

// Gates of `hidden` rows each, in the engine's order, from row `begin` on.
absl::StatusOr<TensorId> Gates(const OpContext& c, const Recurrent& op, TensorId from,
                               int64_t begin, int64_t hidden) {
  const std::vector<int> order =
      op.kind == Recurrent::Kind::kLstm ? std::vector<int>{0, 2, 3, 1} : std::vector<int>{1, 0, 2};
  std::vector<TensorId> parts;
  for (int gate : order) {
    PSGD_ASSIGN_OR_RETURN(const TensorId part, AddSlice(c.graph(), c.name + ".gate",
                                                        {0, begin + gate * hidden}, hidden, from));
    parts.push_back(part);
  }
  return AddConcat(c.graph(), c.name + ".gates", {0}, parts);
}

// The weights of the only direction, without the axis of directions.
absl::StatusOr<TensorId> OneDirection(const OpContext& c, size_t i, size_t axes) {
  PSGD_ASSIGN_OR_RETURN(const TensorId weight, c.Tensor(i));
  Shape shape = c.graph()->shape(weight);
  if (shape.size() != axes + 1 || shape[0] != 1) {
    return c.Unsupported(
        absl::StrCat("has weights of ", ShapeText(shape), "; psgd takes one direction"));
  }
  shape.erase(shape.begin());
  return AddReshape(c.graph(), c.name + ".weight", weight, shape);
}

absl::Status CheckRecurrent(const OpContext& c, bool lstm) {
  const NodeProto& node = c.node;
  if (TextAttribute(node, "direction", "forward") != "forward") {
    return c.Unsupported("only runs forward (direction)");
  }
  if (FindAttribute(node, "activations") != nullptr || FindAttribute(node, "clip") != nullptr ||
      IntAttribute(node, "input_forget", 0) != 0) {
    return c.Unsupported("other activations, clip and input_forget");
  }
  if (!lstm && IntAttribute(node, "linear_before_reset", 0) == 0) {
    return c.Unsupported(
        "a GRU that resets before its product (linear_before_reset 0); PyTorch's has 1");
  }
  if (c.has(4)) return c.Unsupported("sequences of their own lengths");
  if (c.has(7)) return c.Unsupported("peepholes");
  for (size_t i : {5, 6}) {
    if (!c.has(i)) continue;
    const Value& state = c.in(i);
    const bool zero = state.known() && state.array->real() &&
                      std::all_of(state.array->reals.begin(), state.array->reals.end(),
                                  [](float value) { return value == 0; });
    if (!zero) return c.Unsupported("starts from another state than zeros");
  }
  return absl::OkStatus();
}

// The outputs in ONNX's order of axes: all states, the last one.
Imported Outputs(const OpContext& c, TensorId y, bool samples_first) {
  Graph* g = c.graph();
  const Shape shape = g->shape(y);  // N T H
  const int64_t n = shape[0], t = shape[1], h = shape[2];
  std::vector<Value> values(3, Value{.missing = true});
  if (c.importer.Needs(c.node, 0)) {
    TensorId all = y;
    if (!samples_first) {
      PSGD_ASSIGN_OR_RETURN(all, AddTranspose(g, c.name + ".steps", {{1, 0, 2}}, y));
    }
    const Shape axes = samples_first ? Shape{n, t, 1, h} : Shape{t, 1, n, h};
    PSGD_ASSIGN_OR_RETURN(all, AddReshape(g, c.name + ".all", all, axes));
    values[0] = {.tensor = all, .outer = samples_first ? 1 : t};
  }
  if (c.importer.Needs(c.node, 1)) {
    PSGD_ASSIGN_OR_RETURN(TensorId last, AddSlice(g, c.name + ".last", {1, t - 1}, 1, y));
    const Shape axes = samples_first ? Shape{n, 1, h} : Shape{1, n, h};
    PSGD_ASSIGN_OR_RETURN(last, AddReshape(g, c.name + ".state", last, axes));
    values[1] = {.tensor = last, .outer = 1};
  }
  if (c.importer.Needs(c.node, 2)) return c.Unsupported("its last cell (third output) is used");
  return values;
}

Imported ImportRecurrent(const OpContext& c) {
  const bool lstm = c.node.op_type() == "LSTM";
  PSGD_RETURN_IF_ERROR(CheckRecurrent(c, lstm));
  if (!c.has(2)) return absl::InvalidArgumentError("lacks weights");
  const Recurrent op = {lstm ? Recurrent::Kind::kLstm : Recurrent::Kind::kGru};
  Graph* g = c.graph();
  PSGD_ASSIGN_OR_RETURN(const TensorId w, OneDirection(c, 1, 2));
  PSGD_ASSIGN_OR_RETURN(const TensorId r, OneDirection(c, 2, 2));
  const int64_t hidden = g->shape(r)[1], rows = op.gates() * hidden;
  if (g->shape(w)[0] != rows || g->shape(r)[0] != rows) {
    return absl::InvalidArgumentError(absl::StrCat("weights of ", ShapeText(g->shape(w)), " and ",
                                                   ShapeText(g->shape(r)),
                                                   " do not belong together"));
  }
  if (const int64_t said = IntAttribute(c.node, "hidden_size", hidden); said != hidden) {
    return absl::InvalidArgumentError(
        absl::StrCat("says hidden_size ", said, ", but its weights are for ", hidden));
  }
  RecurrentParameters p;
  PSGD_ASSIGN_OR_RETURN(p.weight_ih, Gates(c, op, w, 0, hidden));
  PSGD_ASSIGN_OR_RETURN(p.weight_hh, Gates(c, op, r, 0, hidden));
  TensorId bias = kNoTensor;
  if (c.has(3)) {
    PSGD_ASSIGN_OR_RETURN(bias, OneDirection(c, 3, 1));
  } else {
    PSGD_ASSIGN_OR_RETURN(
        bias, c.importer.MakeConstant(c.name + ".bias", {2 * rows},
                                      std::vector<float>(static_cast<size_t>(2 * rows))));
  }
  if (g->shape(bias) != Shape{2 * rows}) {
    return absl::InvalidArgumentError(absl::StrCat("has a bias of ", ShapeText(g->shape(bias))));
  }
  PSGD_ASSIGN_OR_RETURN(p.bias_ih, Gates(c, op, bias, 0, hidden));
  PSGD_ASSIGN_OR_RETURN(p.bias_hh, Gates(c, op, bias, rows, hidden));
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  if (g->shape(x).size() != 3)
    return c.Unsupported(absl::StrCat("works on ", ShapeText(g->shape(x))));
  const bool samples_first = IntAttribute(c.node, "layout", 0) != 0;
  if (!samples_first) {
    PSGD_ASSIGN_OR_RETURN(x, AddTranspose(g, c.name + ".samples", {{1, 0, 2}}, x));
  }
  if (g->shape(x)[0] != c.importer.batch()) {
    return c.Unsupported("runs along the batch; time comes first in ONNX (layout 0)");
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId y, AddRecurrent(g, c.name, op, x, p));
  return Outputs(c, y, samples_first);
}

}  // namespace

void AddRecurrentOps(OpTable* table) {
  (*table)["LSTM"] = ImportRecurrent;
  (*table)["GRU"] = ImportRecurrent;
}

}  // namespace psgd::onnx
