// LSTM, GRU and RNN, one layer in one or two directions. ONNX puts time first and has another order
// of gates (i o f c, and z r h). The graph reorders the weights, so that parameters stay as in the
// file.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/importer.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

using CellKind = Recurrent::Kind;

// Gates of `hidden` rows each, in the engine's order, from row `begin` on.
absl::StatusOr<TensorId> Gates(const OpContext& c, const Recurrent& op, TensorId from,
                               int64_t begin, int64_t hidden) {
  if (op.gates() == 1) return AddSlice(c.graph(), c.name + ".gate", {0, begin}, hidden, from);
  const std::vector<int> order =
      op.kind == CellKind::kLstm ? std::vector<int>{0, 2, 3, 1} : std::vector<int>{1, 0, 2};
  std::vector<TensorId> parts;
  for (int gate : order) {
    PSGD_ASSIGN_OR_RETURN(const TensorId part, AddSlice(c.graph(), c.name + ".gate",
                                                        {0, begin + gate * hidden}, hidden, from));
    parts.push_back(part);
  }
  return AddConcat(c.graph(), c.name + ".gates", {0}, parts);
}

// The number of directions.
absl::StatusOr<int64_t> Directions(const OpContext& c) {
  const std::string direction = TextAttribute(c.node, "direction", "forward");
  if (direction == "forward" || direction == "reverse") return 1;
  if (direction == "bidirectional") return 2;
  return c.Unsupported("runs in the direction " + SafeName(direction));
}

// The weights of one direction, without the axis of directions.
absl::StatusOr<TensorId> WeightOf(const OpContext& c, size_t i, size_t axes, int64_t direction) {
  PSGD_ASSIGN_OR_RETURN(TensorId weight, c.Tensor(i));
  PSGD_ASSIGN_OR_RETURN(const int64_t directions, Directions(c));
  Shape shape = c.graph()->shape(weight);
  if (shape.size() != axes + 1 || shape[0] != directions) {
    return InvalidArgumentError("has weights of ", ShapeText(shape), " for ", directions,
                                " directions");
  }
  if (directions > 1) {
    PSGD_ASSIGN_OR_RETURN(weight,
                          AddSlice(c.graph(), c.name + ".direction", {0, direction}, 1, weight));
  }
  shape.erase(shape.begin());
  return AddReshape(c.graph(), c.name + ".weight", weight, shape);
}

// Whether this run of a node goes backwards in time.
bool ReversedRun(const OpContext& c, size_t run) {
  return run > 0 || TextAttribute(c.node, "direction", "forward") == "reverse";
}

// The kind of cells, whose activations must be the standard's, or (RNN) one for all directions.
absl::StatusOr<CellKind> CellKindOf(const OpContext& c) {
  const std::string& op = c.node.op_type();
  const AttributeProto* given = FindAttribute(c.node, "activations");
  const std::vector<std::string> usual = op == "LSTM"
                                             ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                         : op == "GRU" ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                       : std::vector<std::string>{"Tanh"};
  bool as_usual = true, relu = op == "RNN" && given != nullptr && given->strings_size() > 0;
  for (int i = 0; given != nullptr && i < given->strings_size(); ++i) {
    as_usual = as_usual && given->strings(i) == usual[static_cast<size_t>(i) % usual.size()];
    relu = relu && given->strings(i) == "Relu";
  }
  if (!as_usual && !relu) return c.Unsupported("other activations than PyTorch's");
  if (relu) return CellKind::kRelu;
  return op == "LSTM" ? CellKind::kLstm : op == "GRU" ? CellKind::kGru : CellKind::kTanh;
}

absl::Status CheckRecurrent(const OpContext& c, bool gru) {
  const NodeProto& node = c.node;
  if (FindAttribute(node, "clip") != nullptr || IntAttribute(node, "input_forget", 0) != 0) {
    return c.Unsupported("clip and input_forget");
  }
  if (gru && IntAttribute(node, "linear_before_reset", 0) == 0) {
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

// The outputs in ONNX's order of axes: all states, the last ones. `runs` has the states of each
// direction, N T H, in the order of time.
Imported Outputs(const OpContext& c, const std::vector<TensorId>& runs, bool samples_first) {
  Graph* g = c.graph();
  const Shape shape = g->shape(runs[0]);
  const int64_t n = shape[0], t = shape[1], h = shape[2];
  const auto directions = static_cast<int64_t>(runs.size());
  std::vector<Value> values(3, Value{.missing = true});
  if (c.importer.Needs(c.node, 0)) {
    TensorId all = runs[0];
    if (directions > 1) {
      PSGD_ASSIGN_OR_RETURN(all, AddConcat(g, c.name + ".both", {2}, runs));
    }
    PSGD_ASSIGN_OR_RETURN(all, AddReshape(g, c.name + ".all", all, {n, t, directions, h}));
    if (!samples_first) {
      PSGD_ASSIGN_OR_RETURN(all, AddTranspose(g, c.name + ".steps", {{1, 2, 0, 3}}, all));
    }
    values[0] = {.tensor = all, .outer = samples_first ? 1 : t * directions};
  }
  if (c.importer.Needs(c.node, 1)) {
    std::vector<TensorId> ends;
    for (TensorId run : runs) {
      const bool reversed = ReversedRun(c, ends.size());
      PSGD_ASSIGN_OR_RETURN(const TensorId end,
                            AddSlice(g, c.name + ".last", {1, reversed ? 0 : t - 1}, 1, run));
      ends.push_back(end);
    }
    TensorId last = ends[0];
    if (directions > 1) {
      PSGD_ASSIGN_OR_RETURN(last, AddConcat(g, c.name + ".ends", {1}, ends));
    }
    if (!samples_first) {
      PSGD_ASSIGN_OR_RETURN(last, AddTranspose(g, c.name + ".state", {{1, 0, 2}}, last));
    }
    values[1] = {.tensor = last, .outer = samples_first ? 1 : directions};
  }
  if (c.importer.Needs(c.node, 2)) return c.Unsupported("its last cell (third output) is used");
  return values;
}

absl::StatusOr<RecurrentParameters> Weights(const OpContext& c, const Recurrent& op,
                                            int64_t direction) {
  Graph* g = c.graph();
  PSGD_ASSIGN_OR_RETURN(const TensorId w, WeightOf(c, 1, 2, direction));
  PSGD_ASSIGN_OR_RETURN(const TensorId r, WeightOf(c, 2, 2, direction));
  const int64_t hidden = g->shape(r)[1], rows = op.gates() * hidden;
  if (g->shape(w)[0] != rows || g->shape(r)[0] != rows) {
    return InvalidArgumentError("weights of ", ShapeText(g->shape(w)), " and ",
                                ShapeText(g->shape(r)), " do not belong together");
  }
  if (const int64_t said = IntAttribute(c.node, "hidden_size", hidden); said != hidden) {
    return InvalidArgumentError("says hidden_size ", said, ", but its weights are for ", hidden);
  }
  RecurrentParameters p;
  PSGD_ASSIGN_OR_RETURN(p.weight_ih, Gates(c, op, w, 0, hidden));
  PSGD_ASSIGN_OR_RETURN(p.weight_hh, Gates(c, op, r, 0, hidden));
  TensorId bias = kNoTensor;
  if (c.has(3)) {
    PSGD_ASSIGN_OR_RETURN(bias, WeightOf(c, 3, 1, direction));
  } else {
    PSGD_ASSIGN_OR_RETURN(
        bias, c.importer.MakeConstant(c.name + ".bias", {2 * rows},
                                      std::vector<float>(static_cast<size_t>(2 * rows))));
  }
  if (g->shape(bias) != Shape{2 * rows}) {
    return InvalidArgumentError("has a bias of ", ShapeText(g->shape(bias)));
  }
  PSGD_ASSIGN_OR_RETURN(p.bias_ih, Gates(c, op, bias, 0, hidden));
  PSGD_ASSIGN_OR_RETURN(p.bias_hh, Gates(c, op, bias, rows, hidden));
  return p;
}

// N T ... with time backwards.
absl::StatusOr<TensorId> Backwards(const OpContext& c, TensorId x) {
  const int64_t steps = c.graph()->shape(x)[1];
  PSGD_RETURN_IF_ERROR(c.importer.Spend(steps));
  std::vector<int64_t> index;
  for (int64_t t = steps; t-- > 0;) index.push_back(t);
  return AddAxisMap(c.graph(), c.name + ".backwards", 1, TakingRows(index, steps), x);
}

Imported ImportRecurrent(const OpContext& c) {
  PSGD_RETURN_IF_ERROR(CheckRecurrent(c, c.node.op_type() == "GRU"));
  if (!c.has(2)) return absl::InvalidArgumentError("lacks weights");
  PSGD_ASSIGN_OR_RETURN(const CellKind kind, CellKindOf(c));
  PSGD_ASSIGN_OR_RETURN(const int64_t directions, Directions(c));
  const Recurrent op = {kind};
  Graph* g = c.graph();
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
  std::vector<TensorId> runs;
  for (int64_t direction = 0; direction < directions; ++direction) {
    const bool reversed = ReversedRun(c, runs.size());
    TensorId in = x;
    if (reversed) {
      PSGD_ASSIGN_OR_RETURN(in, Backwards(c, x));
    }
    PSGD_ASSIGN_OR_RETURN(const RecurrentParameters p, Weights(c, op, direction));
    PSGD_ASSIGN_OR_RETURN(TensorId y, AddRecurrent(g, c.name, op, in, p));
    if (reversed) {
      PSGD_ASSIGN_OR_RETURN(y, Backwards(c, y));
    }
    runs.push_back(y);
  }
  return Outputs(c, runs, samples_first);
}

}  // namespace

void AddRecurrentOps(OpTable* table) {
  (*table)["LSTM"] = ImportRecurrent;
  (*table)["GRU"] = ImportRecurrent;
  (*table)["RNN"] = ImportRecurrent;
}

}  // namespace psgd::onnx
