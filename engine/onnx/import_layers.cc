// Layers with weights that do not work on images: products, normalized rows, tables. Also dropout.
#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/onnx/attributes.h"
#include "engine/onnx/broadcast.h"
#include "engine/onnx/fold.h"
#include "engine/onnx/fuse.h"
#include "engine/onnx/import.h"
#include "engine/onnx/importer.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

// A factor of a product, which itself multiplies by the scale and exchanges the last two axes.
struct MatrixFactor {
  TensorId tensor = kNoTensor;
  bool flipped = false;
  float scale = 1;
};
absl::StatusOr<MatrixFactor> FactorOf(const OpContext& c, Value value, bool may_flip = true) {
  MatrixFactor factor;
  if (value.mask == nullptr) {
    factor.scale = std::exchange(value.scale, 1);
    const auto axes = value.order.rbegin();
    factor.flipped = may_flip && value.order.size() > 1 && axes[1] > axes[0];
    // So keys get the transpose that queries and values have: heads before places.
    if (factor.flipped) value.Transpose(LastTwoExchanged(value.order.size()));
  }
  PSGD_ASSIGN_OR_RETURN(factor.tensor, c.importer.Tensor(value));
  return factor;
}

// The rows of x (... K) times the matrix. A matrix stored as out x in becomes a dense layer.
absl::StatusOr<TensorId> RowsTimes(const OpContext& c, TensorId x, TensorId matrix,
                                   bool out_by_in) {
  Graph* g = c.graph();
  Shape shape = g->shape(x);
  const Shape rows = {ElementCount(shape) / shape.back(), shape.back()};
  TensorId flat = x;
  if (shape.size() != 2) {
    PSGD_ASSIGN_OR_RETURN(flat, AddReshape(g, c.name + ".rows", x, rows));
  }
  absl::StatusOr<TensorId> y = out_by_in ? AddDense(g, c.name, flat, matrix, kNoTensor)
                                         : AddMatMul(g, c.name, {}, flat, matrix);
  if (!y.ok() || shape.size() == 2) return y;
  shape.back() = g->shape(*y)[1];
  return AddReshape(g, c.name + ".out", *y, shape);
}

// Vectors become matrices for the product, and the leading axes broadcast.
Imported ProductOfAll(const OpContext& c) {
  Graph* g = c.graph();
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(TensorId y, c.Tensor(1));
  Shape a = g->shape(x), b = g->shape(y);
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2]) {
    return InvalidArgumentError("cannot multiply ", ShapeText(a), " and ", ShapeText(b));
  }
  PSGD_ASSIGN_OR_RETURN(const Shape leading, TogetherShape(Shape(a.begin(), a.end() - 2),
                                                           Shape(b.begin(), b.end() - 2)));
  const auto spread = [&](TensorId of, const Shape& matrix) -> absl::StatusOr<TensorId> {
    PSGD_ASSIGN_OR_RETURN(const TensorId shaped, AddReshape(g, c.name + ".matrix", of, matrix));
    Shape all = leading;
    all.insert(all.end(), matrix.end() - 2, matrix.end());
    return Spread(c, shaped, all);
  };
  PSGD_ASSIGN_OR_RETURN(x, spread(x, a));
  PSGD_ASSIGN_OR_RETURN(y, spread(y, b));
  PSGD_ASSIGN_OR_RETURN(const TensorId product, AddMatMul(g, c.name, {}, x, y));
  Shape shape = g->shape(product);
  const Value& of = c.in(0).outer != kNoBatch ? c.in(0) : c.in(1);
  const int64_t outer = OuterAfterSpread(c, of, shape);
  if (column) shape.pop_back();
  if (row) shape.erase(shape.end() - (column ? 1 : 2));
  Value made = {.outer = outer};
  PSGD_ASSIGN_OR_RETURN(made.tensor,
                        AddReshape(g, c.name + ".product", product, made.WithAxis(shape)));
  return std::vector<Value>{made};
}

// A product must neither sum over the batch nor take each sample with each other.
absl::Status CheckSamplesOfProduct(const OpContext& c) {
  const int64_t batch = c.importer.batch();
  const Shape a = c.shape(0), b = c.shape(1);
  if (batch == 1) return absl::OkStatus();
  const int left = BatchAxis(a, c.in(0).outer, batch), right = BatchAxis(b, c.in(1).outer, batch);
  const int columns = static_cast<int>(a.size()) - 1;
  const int rows = std::max(static_cast<int>(b.size()) - 2, 0);
  const bool apart =
      left < 0 || right < 0 ||
      (static_cast<int>(a.size()) - left == static_cast<int>(b.size()) - right && right < rows);
  if (left != columns && right != rows && apart) return absl::OkStatus();
  return c.CombinesSamples();
}

Imported ImportMatMul(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks an input");
  PSGD_RETURN_IF_ERROR(CheckSamplesOfProduct(c));
  const Value &left = c.in(0), &right = c.in(1);
  const Shape a = c.shape(0), b = c.shape(1);
  if (left.mask != nullptr || right.mask != nullptr || a.size() < 2 || b.size() < 2) {
    return ProductOfAll(c);
  }
  const bool pairs = a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin());
  if (!pairs && b.size() > 2) return ProductOfAll(c);
  PSGD_ASSIGN_OR_RETURN(const MatrixFactor x, FactorOf(c, left, /*may_flip=*/pairs));
  PSGD_ASSIGN_OR_RETURN(const MatrixFactor y, FactorOf(c, right));
  TensorId product = kNoTensor;
  float scale = x.scale * y.scale;
  if (b.size() == 2 && !x.flipped) {
    PSGD_ASSIGN_OR_RETURN(product, RowsTimes(c, x.tensor, y.tensor, y.flipped));
  } else {
    const MatMul op = {x.flipped, y.flipped, std::exchange(scale, 1)};
    PSGD_ASSIGN_OR_RETURN(product, AddMatMul(c.graph(), c.name, op, x.tensor, y.tensor));
  }
  const size_t from = left.outer != kNoBatch ? 0 : 1;
  Value made = c.Like(product, from);
  made.scale = scale;
  return std::vector<Value>{made};
}

// Value::outer of a product of matrices. The batch is in the rows of `a` or the columns of `b`.
absl::StatusOr<int64_t> OuterOfProduct(const OpContext& c, bool transpose_a, bool transpose_b) {
  const Shape a = c.shape(0), b = c.shape(1);
  const int64_t batch = c.importer.batch();
  const auto summed = [&] { return c.Unsupported("sums over the batch"); };
  if (const int64_t outer = c.in(0).outer; outer != kNoBatch) {
    if (!transpose_a) return outer;
    return BatchAxis(a, outer, batch) == 1 ? absl::StatusOr<int64_t>(outer / a[0]) : summed();
  }
  const int64_t outer = c.in(1).outer;
  if (outer == kNoBatch) return kNoBatch;
  if (BatchAxis(b, outer, batch) != (transpose_b ? 0 : 1)) return summed();
  const int64_t rows = a[transpose_a ? 1 : 0];
  return rows * (transpose_b ? outer : outer / b[0]);
}

Imported ImportGemm(const OpContext& c) {
  if (!c.has(1) || c.shape(0).size() != 2 || c.shape(1).size() != 2) {
    return absl::InvalidArgumentError("its inputs are not matrices");
  }
  const bool transpose_a = IntAttribute(c.node, "transA", 0) != 0;
  const bool transpose_b = IntAttribute(c.node, "transB", 0) != 0;
  PSGD_ASSIGN_OR_RETURN(const int64_t outer, OuterOfProduct(c, transpose_a, transpose_b));
  PSGD_ASSIGN_OR_RETURN(const MatrixFactor a, FactorOf(c, c.in(0)));
  PSGD_ASSIGN_OR_RETURN(const MatrixFactor b, FactorOf(c, c.in(1)));
  const bool flip_a = transpose_a != a.flipped, flip_b = transpose_b != b.flipped;
  const float alpha = FloatAttribute(c.node, "alpha", 1), beta = FloatAttribute(c.node, "beta", 1);
  Value product = {.outer = outer, .scale = alpha * a.scale * b.scale};
  const Shape shape = {c.shape(0)[transpose_a ? 1 : 0], c.shape(1)[transpose_b ? 0 : 1]};
  TensorId bias = kNoTensor;
  if (c.has(2)) {
    Value scaled = c.in(2);
    scaled.scale *= beta;
    PSGD_ASSIGN_OR_RETURN(bias, c.importer.Tensor(scaled));
    const Shape given = c.graph()->shape(bias);
    if (const auto spread = BroadcastShape(given, shape); !spread.ok() || *spread != shape) {
      return InvalidArgumentError("has a bias of ", ShapeText(given), " for a product of ",
                                  ShapeText(shape));
    }
    if (given == Shape{1, shape[1]}) {
      PSGD_ASSIGN_OR_RETURN(bias, AddReshape(c.graph(), c.name + ".bias", bias, {shape[1]}));
    }
  }
  const bool dense = !flip_a && flip_b && product.scale == 1;
  if (dense && (bias == kNoTensor || c.graph()->shape(bias) == Shape{shape[1]})) {
    PSGD_ASSIGN_OR_RETURN(product.tensor, AddDense(c.graph(), c.name, a.tensor, b.tensor, bias));
    return std::vector<Value>{product};
  }
  const MatMul op = {flip_a, flip_b};
  PSGD_ASSIGN_OR_RETURN(product.tensor, AddMatMul(c.graph(), c.name, op, a.tensor, b.tensor));
  if (bias == kNoTensor) return std::vector<Value>{product};
  OpContext biased = c;
  biased.name += ".biased";
  return AddTwo(biased, product, {.tensor = bias, .outer = c.in(2).outer});
}

// Normalizes each of the rows into which x is cut. The weights may be null.
absl::StatusOr<TensorId> NormalizedRows(const OpContext& c, TensorId x, int64_t width,
                                        const Value* gamma, const Value* beta) {
  Graph* g = c.graph();
  const Shape in = g->shape(x), rows = {ElementCount(in) / width, width};
  const bool whole = in.back() == width;
  const float epsilon = FloatAttribute(c.node, "epsilon", 1e-5f);
  if (!(epsilon >= 0)) return absl::InvalidArgumentError("epsilon is out of range");
  const auto weight = [&](const Value* value, float otherwise) -> absl::StatusOr<TensorId> {
    if (value == nullptr) {
      PSGD_RETURN_IF_ERROR(c.importer.Spend(width));
      return c.importer.MakeConstant(c.name + ".plain", {width},
                                     std::vector<float>(static_cast<size_t>(width), otherwise));
    }
    PSGD_ASSIGN_OR_RETURN(const TensorId given, c.importer.Tensor(*value));
    if (g->shape(given) == Shape{width}) return given;
    return AddReshape(g, c.name + ".weight", given, {width});
  };
  PSGD_ASSIGN_OR_RETURN(const TensorId scale, weight(gamma, 1));
  PSGD_ASSIGN_OR_RETURN(const TensorId shift, weight(beta, 0));
  if (!whole) {
    PSGD_ASSIGN_OR_RETURN(x, AddReshape(g, c.name + ".rows", x, rows));
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId y, AddLayerNorm(g, c.name, {epsilon}, x, scale, shift));
  return whole ? absl::StatusOr<TensorId>(y) : AddReshape(g, c.name + ".whole", y, in);
}

// The standard's norm is over all axes from one on. A fused one (fuse.cc) is over one axis alone,
// which becomes the last for the norm.
Imported ImportLayerNorm(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  const Shape in = c.graph()->shape(x);
  PSGD_ASSIGN_OR_RETURN(const auto axes,
                        CheckedAxes({IntAttribute(c.node, "axis", -1)}, in.size()));
  const int axis = axes[0], last = static_cast<int>(in.size()) - 1;
  const bool alone = c.node.domain() == kOwnDomain;
  if (const int batch = BatchAxis(in, c.in(0).outer, c.importer.batch());
      batch == axis || (!alone && batch > axis)) {
    return c.CombinesSamples();
  }
  if (alone && axis != last) {  // has no weights
    std::vector<int> order(in.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[axis], order[last]);
    PSGD_ASSIGN_OR_RETURN(x, AddTranspose(c.graph(), c.name + ".last", {order}, x));
    PSGD_ASSIGN_OR_RETURN(x, NormalizedRows(c, x, in[axis], nullptr, nullptr));
    return c.Made(AddTranspose(c.graph(), c.name + ".back", {order}, x));
  }
  const int64_t width = ElementCount(Shape(in.begin() + axis, in.end()));
  return c.Made(
      NormalizedRows(c, x, width, c.has(1) ? &c.in(1) : nullptr, c.has(2) ? &c.in(2) : nullptr));
}

// A known array that changes nothing as a factor or as a term.
bool ChangesNothing(const Value& value, float neutral) {
  return value.known() && std::all_of(value.array->reals.begin(), value.array->reals.end(),
                                      [=](float number) { return number == neutral; });
}

// Normalizes each sample's groups of channels, then scales and shifts each channel. Instance
// normalization has a group for each channel.
Imported ImportGroupNorm(const OpContext& c) {
  if (!c.has(2)) return absl::InvalidArgumentError("lacks weights");
  Graph* g = c.graph();
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  const Shape in = g->shape(x);
  if (in.size() < 2 || c.in(0).outer != 1) return c.Unsupported("works on N C ...");
  const int64_t channels = in[1];
  const int64_t groups = c.node.op_type() == "InstanceNormalization"
                             ? channels
                             : IntAttribute(c.node, "num_groups", 0);
  if (groups < 1 || channels % groups != 0) {
    return InvalidArgumentError("has ", groups, " groups of ", channels, " channels");
  }
  const int64_t width = ElementCount(in) / in[0] / groups;
  PSGD_ASSIGN_OR_RETURN(x, NormalizedRows(c, x, width, nullptr, nullptr));
  // One value a channel, or (opset 18) a group.
  const auto weight = [&](size_t i) -> absl::StatusOr<TensorId> {
    PSGD_ASSIGN_OR_RETURN(TensorId given, c.Tensor(i));
    if (g->shape(given) == Shape{channels}) return given;
    if (g->shape(given) != Shape{groups}) {
      return InvalidArgumentError("has weights of ", ShapeText(g->shape(given)), " for ", channels,
                                  " channels");
    }
    PSGD_ASSIGN_OR_RETURN(given, AddReshape(g, c.name + ".groups", given, {groups, 1}));
    PSGD_ASSIGN_OR_RETURN(given, Spread(c, given, {groups, channels / groups}));
    return AddReshape(g, c.name + ".channels", given, {channels});
  };
  if (!ChangesNothing(c.in(1), 1)) {
    PSGD_ASSIGN_OR_RETURN(TensorId scale, weight(1));
    Shape column(in.size() - 1, 1);
    column[0] = channels;
    PSGD_ASSIGN_OR_RETURN(scale, AddReshape(g, c.name + ".scale", scale, column));
    PSGD_ASSIGN_OR_RETURN(scale, Spread(c, scale, in));
    PSGD_ASSIGN_OR_RETURN(x, AddMul(g, c.name + ".scaled", x, scale));
  }
  if (!ChangesNothing(c.in(2), 0)) {
    PSGD_ASSIGN_OR_RETURN(const TensorId shift, weight(2));
    PSGD_ASSIGN_OR_RETURN(x, AddBias(g, c.name + ".shifted", x, shift));
  }
  return std::vector<Value>{c.Like(x)};
}

Imported ImportDropout(const OpContext& c) {
  float rate = FloatAttribute(c.node, "ratio", 0.5f);
  if (c.has(1)) {
    if (!c.in(1).known() || c.in(1).array->reals.size() != 1)
      return c.Unsupported("its rate is not one number");
    rate = c.in(1).array->reals[0];
  }
  if (!(rate >= 0 && rate < 1)) return InvalidArgumentError("drops a share of ", rate);
  const uint32_t layer = c.importer.NextDropout();
  if (!c.importer.training() || rate == 0) return std::vector<Value>{c.in(0)};
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  return c.Made(AddDropout(c.graph(), c.name, {rate, layer}, x));
}

// Tokens are checked only against the data's vocabulary, so each table must be that large.
absl::Status CheckTable(const OpContext& c, const Shape& table) {
  if (table[0] >= c.importer.vocabulary()) return absl::OkStatus();
  return InvalidArgumentError("its table has rows for the tokens 0 to ", table[0] - 1,
                              kTokensBeyondTable, c.importer.vocabulary() - 1);
}

// See fuse.cc.
Imported ImportEmbeddingBag(const OpContext& c) {
  if (!c.has(2)) return absl::InvalidArgumentError("lacks an input");
  const Shape table = c.shape(0);
  if (c.in(0).outer != kNoBatch || table.size() != 2 || !c.importer.IsTokens(c.in(1)) ||
      c.in(2).known()) {
    return c.Unsupported("only indices of the input, with its values, give sums of a table's rows");
  }
  PSGD_RETURN_IF_ERROR(CheckTable(c, table));
  PSGD_ASSIGN_OR_RETURN(const TensorId weight, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(const TensorId index, c.Tensor(1));
  PSGD_ASSIGN_OR_RETURN(const TensorId values, c.Tensor(2));
  PSGD_ASSIGN_OR_RETURN(const TensorId y,
                        AddEmbeddingBag(c.graph(), c.name, index, values, weight));
  return std::vector<Value>{{.tensor = y, .outer = c.in(1).outer}};
}

// Rows of a table by the input's tokens, or known indices of an axis.
Imported ImportGather(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks indices");
  const Shape in = c.shape(0);
  PSGD_ASSIGN_OR_RETURN(const auto axes, CheckedAxes({IntAttribute(c.node, "axis", 0)}, in.size()));
  if (c.in(1).known()) return GatherKnown(c, axes[0]);
  if (axes[0] != 0 || c.in(0).outer != kNoBatch || !c.importer.IsTokens(c.in(1)) ||
      in.size() != 2) {
    return c.Unsupported("tokens index the rows of a table");
  }
  PSGD_RETURN_IF_ERROR(CheckTable(c, in));
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  const Value& index = c.in(1);
  PSGD_ASSIGN_OR_RETURN(TensorId y, AddEmbedding(c.graph(), c.name, index.tensor, x));
  if (!index.order.empty()) {
    PSGD_ASSIGN_OR_RETURN(y, AddTranspose(c.graph(), c.name + ".turned", {{1, 0, 2}}, y));
  }
  return std::vector<Value>{c.Like(y, 1)};
}

}  // namespace

void AddLayerOps(OpTable* table) {
  (*table)["MatMul"] = ImportMatMul;
  (*table)["Gemm"] = ImportGemm;
  (*table)["LayerNormalization"] = ImportLayerNorm;
  (*table)["InstanceNormalization"] = ImportGroupNorm;
  (*table)["GroupNormalization"] = ImportGroupNorm;
  (*table)["Dropout"] = ImportDropout;
  (*table)["Gather"] = ImportGather;
  (*table)["EmbeddingBag"] = ImportEmbeddingBag;
}

}  // namespace psgd::onnx
