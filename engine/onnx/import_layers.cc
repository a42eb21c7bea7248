// Layers with weights that do not work on images: products, normalized rows, tables. Also dropout.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/fold.h"
#include "engine/onnx/importer.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

// The value without the transpose and scale that the product itself can apply.
absl::StatusOr<TensorId> Bare(const OpContext& c, const Value& value) {
  Value bare = value;
  bare.flipped = false;
  bare.scale = value.mask == nullptr ? 1 : value.scale;
  return c.importer.Tensor(bare);
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

Imported ImportMatMul(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks an input");
  const Value &left = c.in(0), &right = c.in(1);
  const Shape a = c.shape(0), b = c.shape(1);
  if (left.mask != nullptr || right.mask != nullptr || a.size() < 2 || b.size() < 2) {
    return c.Unsupported(absl::StrCat("products of ", ShapeText(a), " and ", ShapeText(b)));
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId x, Bare(c, left));
  PSGD_ASSIGN_OR_RETURN(const TensorId y, Bare(c, right));
  TensorId product = kNoTensor;
  float scale = left.scale * right.scale;
  if (b.size() == 2 && !left.flipped) {
    PSGD_ASSIGN_OR_RETURN(product, RowsTimes(c, x, y, right.flipped));
  } else if (a.size() == b.size()) {
    const MatMul op = {left.flipped, right.flipped, std::exchange(scale, 1)};
    PSGD_ASSIGN_OR_RETURN(product, AddMatMul(c.graph(), c.name, op, x, y));
  } else {
    return c.Unsupported(absl::StrCat("products of ", ShapeText(a), " and ", ShapeText(b)));
  }
  const size_t from = left.outer != kNoBatch ? 0 : 1;
  Value made = c.Like(product, from);
  made.scale = scale;
  return std::vector<Value>{made};
}

// Value::outer of a product of matrices. The batch is in the rows of `a` or the columns of `b`.
absl::StatusOr<int64_t> OuterOfProduct(const OpContext& c, bool flip_a, bool flip_b) {
  const Shape a = c.shape(0), b = c.shape(1);
  const int64_t batch = c.importer.batch();
  const auto summed = [&] { return c.Unsupported("sums over the batch"); };
  if (const int64_t outer = c.in(0).outer; outer != kNoBatch) {
    if (!flip_a) return outer;
    return BatchAxis(a, outer, batch) == 1 ? absl::StatusOr<int64_t>(outer / a[0]) : summed();
  }
  const int64_t outer = c.in(1).outer;
  if (outer == kNoBatch) return kNoBatch;
  if (BatchAxis(b, outer, batch) != (flip_b ? 0 : 1)) return summed();
  const int64_t rows = a[flip_a != c.in(0).flipped ? 1 : 0];
  return rows * (flip_b ? outer : outer / b[0]);
}

Imported ImportGemm(const OpContext& c) {
  if (!c.has(1) || c.shape(0).size() != 2 || c.shape(1).size() != 2) {
    return absl::InvalidArgumentError("its inputs are not matrices");
  }
  const bool flip_a = (IntAttribute(c.node, "transA", 0) != 0) != c.in(0).flipped;
  const bool flip_b = (IntAttribute(c.node, "transB", 0) != 0) != c.in(1).flipped;
  PSGD_ASSIGN_OR_RETURN(const int64_t outer, OuterOfProduct(c, flip_a, flip_b));
  PSGD_ASSIGN_OR_RETURN(const TensorId a, Bare(c, c.in(0)));
  PSGD_ASSIGN_OR_RETURN(const TensorId b, Bare(c, c.in(1)));
  const float alpha = FloatAttribute(c.node, "alpha", 1), beta = FloatAttribute(c.node, "beta", 1);
  Value product = {
      .outer = outer,
      .scale = alpha * (c.in(0).mask ? 1 : c.in(0).scale) * (c.in(1).mask ? 1 : c.in(1).scale)};
  const Shape left = c.graph()->shape(a), right = c.graph()->shape(b);
  const Shape shape = {left[flip_a ? 1 : 0], right[flip_b ? 0 : 1]};
  TensorId bias = kNoTensor;
  if (c.has(2)) {
    Value scaled = c.in(2);
    scaled.scale *= beta;
    PSGD_ASSIGN_OR_RETURN(bias, c.importer.Tensor(scaled));
    const Shape given = c.graph()->shape(bias);
    if (const auto spread = BroadcastShape(given, shape); !spread.ok() || *spread != shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("has a bias of ", ShapeText(given), " for a product of ", ShapeText(shape)));
    }
    if (given == Shape{1, shape[1]}) {
      PSGD_ASSIGN_OR_RETURN(bias, AddReshape(c.graph(), c.name + ".bias", bias, {shape[1]}));
    }
  }
  const bool dense = !flip_a && flip_b && product.scale == 1;
  if (dense && (bias == kNoTensor || c.graph()->shape(bias) == Shape{shape[1]})) {
    PSGD_ASSIGN_OR_RETURN(product.tensor, AddDense(c.graph(), c.name, a, b, bias));
    return std::vector<Value>{product};
  }
  PSGD_ASSIGN_OR_RETURN(product.tensor, AddMatMul(c.graph(), c.name, {flip_a, flip_b}, a, b));
  if (bias == kNoTensor) return std::vector<Value>{product};
  OpContext biased = c;
  biased.name += ".biased";
  return AddTwo(biased, product, {.tensor = bias, .outer = c.in(2).outer});
}

Imported ImportLayerNorm(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  const Shape in = c.graph()->shape(x);
  PSGD_ASSIGN_OR_RETURN(const auto axes,
                        CheckedAxes({IntAttribute(c.node, "axis", -1)}, in.size()));
  if (axes[0] != static_cast<int>(in.size()) - 1)
    return c.Unsupported("only the last axis is normalised");
  const Shape width = {in.back()};
  const auto weight = [&](size_t i, float otherwise) -> absl::StatusOr<TensorId> {
    if (c.has(i)) return c.Tensor(i);
    return c.importer.MakeConstant(c.name + ".plain", width,
                                   std::vector<float>(static_cast<size_t>(in.back()), otherwise));
  };
  PSGD_ASSIGN_OR_RETURN(const TensorId gamma, weight(1, 1));
  PSGD_ASSIGN_OR_RETURN(const TensorId beta, weight(2, 0));
  const float epsilon = FloatAttribute(c.node, "epsilon", 1e-5f);
  if (!(epsilon >= 0)) return absl::InvalidArgumentError("epsilon is out of range");
  return c.Made(AddLayerNorm(c.graph(), c.name, {epsilon}, x, gamma, beta));
}

Imported ImportDropout(const OpContext& c) {
  float rate = FloatAttribute(c.node, "ratio", 0.5f);
  if (c.has(1)) {
    if (!c.in(1).known() || c.in(1).array->reals.size() != 1)
      return c.Unsupported("its rate is not one number");
    rate = c.in(1).array->reals[0];
  }
  if (!(rate >= 0 && rate < 1))
    return absl::InvalidArgumentError(absl::StrCat("drops a share of ", rate));
  const uint32_t layer = c.importer.NextDropout();
  if (!c.importer.training() || rate == 0) return std::vector<Value>{c.in(0)};
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  return c.Made(AddDropout(c.graph(), c.name, {rate, layer}, x));
}

// Tokens are checked only against the data's vocabulary, so each table must be that large.
absl::Status CheckTable(const OpContext& c, const Shape& table) {
  if (table[0] >= c.importer.vocabulary()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("its table has ", table[0],
                                                 " rows, but the data have ",
                                                 c.importer.vocabulary(), " different tokens"));
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

// Rows of a table by the input's tokens, or a known range of an axis.
Imported ImportGather(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks indices");
  const Shape in = c.shape(0);
  PSGD_ASSIGN_OR_RETURN(const auto axes, CheckedAxes({IntAttribute(c.node, "axis", 0)}, in.size()));
  const int axis = axes[0];
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  Graph* g = c.graph();
  if (!c.in(1).known()) {
    if (axis != 0 || c.in(0).outer != kNoBatch)
      return c.Unsupported("tokens index the rows of a table");
    if (!c.importer.IsTokens(c.in(1)) || in.size() != 2) {
      return c.Unsupported("tokens index the rows of a table");
    }
    PSGD_RETURN_IF_ERROR(CheckTable(c, in));
    PSGD_ASSIGN_OR_RETURN(const TensorId index, c.Tensor(1));
    PSGD_ASSIGN_OR_RETURN(const TensorId y, AddEmbedding(g, c.name, index, x));
    return std::vector<Value>{c.Like(y, 1)};
  }
  const Array& index = *c.in(1).array;
  const int64_t count = index.count();
  bool range = !index.real() && count > 0;
  int64_t first = range ? index.ints[0] : 0;
  if (first < 0) first += in[axis];
  range = range && first >= 0 && first < in[axis];
  for (int64_t i = 0; range && i < count; ++i) {
    const int64_t at = index.ints[i] < 0 ? index.ints[i] + in[axis] : index.ints[i];
    range = at == first + i;
  }
  const bool batch = BatchAxis(in, c.in(0).outer, c.importer.batch()) == axis;
  if (!range || batch || first < 0 || first + count > in[axis]) {
    return c.Unsupported("known indices must be a range of an axis other than the batch");
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId part, AddSlice(g, c.name, {axis, first}, count, x));
  Value made = c.Like(part);
  Shape shape(in.begin(), in.begin() + axis);
  shape.insert(shape.end(), index.shape.begin(), index.shape.end());
  shape.insert(shape.end(), in.begin() + axis + 1, in.end());
  PSGD_ASSIGN_OR_RETURN(made.tensor, AddReshape(g, c.name + ".rows", part, shape));
  return std::vector<Value>{made};
}

}  // namespace

void AddLayerOps(OpTable* table) {
  (*table)["MatMul"] = ImportMatMul;
  (*table)["Gemm"] = ImportGemm;
  (*table)["LayerNormalization"] = ImportLayerNorm;
  (*table)["Dropout"] = ImportDropout;
  (*table)["Gather"] = ImportGather;
  (*table)["EmbeddingBag"] = ImportEmbeddingBag;
}

}  // namespace psgd::onnx
