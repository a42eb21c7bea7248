// Activations, softmax, and arithmetic with broadcasting, in the cases that networks use.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/fold.h"
#include "engine/onnx/importer.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

constexpr float kMasked = -9999;  // exp of this or less is zero beside any score

Shape WithoutLeadingOnes(Shape shape) {
  while (shape.size() > 1 && shape[0] == 1) shape.erase(shape.begin());
  return shape;
}

bool EndsWith(const Shape& shape, const Shape& end) {
  return end.size() <= shape.size() && std::equal(end.rbegin(), end.rend(), shape.rbegin());
}

bool IsNumber(const Value& value) {
  return value.known() && value.array->real() && value.array->count() == 1;
}

// Broadcasts the value to `shape`. `shape` is a copy, because shapes in the graph move when it
// grows.
absl::StatusOr<TensorId> Spread(const OpContext& c, const Value& value, Shape shape) {
  Graph* g = c.graph();
  if (value.known()) {
    const auto same = BroadcastShape(value.array->shape, shape);
    if (!value.array->real() || !same.ok() || *same != shape) {
      return c.Unsupported(
          absl::StrCat("spreading ", ShapeText(value.array->shape), " to ", ShapeText(shape)));
    }
    PSGD_RETURN_IF_ERROR(c.importer.Spend(ElementCount(shape)));
    const ArrayPtr all = Pick(*value.array, BroadcastSource(value.array->shape, shape), shape);
    return c.importer.MakeConstant(c.name + ".constant", shape, all->reals);
  }
  PSGD_ASSIGN_OR_RETURN(TensorId tensor, c.importer.Tensor(value));
  if (g->shape(tensor) == shape) return tensor;
  const Shape in = WithoutLeadingOnes(g->shape(tensor));
  PSGD_ASSIGN_OR_RETURN(tensor, AddReshape(g, c.name + ".spread", tensor, in));
  if (EndsWith(shape, in)) {
    PSGD_RETURN_IF_ERROR(c.importer.Spend(ElementCount(shape)));
    std::vector<float> zeros(static_cast<size_t>(ElementCount(shape)));
    PSGD_ASSIGN_OR_RETURN(const TensorId zero,
                          c.importer.MakeConstant(c.name + ".zero", shape, std::move(zeros)));
    return AddRowBias(g, c.name + ".rows", zero, tensor);
  }
  // If values vary only along the first axes, a product with a row of ones broadcasts them.
  size_t equal = 0;
  while (equal < in.size() && in.size() == shape.size() && in[equal] == shape[equal]) ++equal;
  const int64_t first =
      ElementCount(Shape(shape.begin(), shape.begin() + static_cast<int64_t>(equal)));
  if (ElementCount(in) != first) {
    return c.Unsupported(absl::StrCat("spreading ", ShapeText(in), " to ", ShapeText(shape)));
  }
  const int64_t each = ElementCount(shape) / first;
  PSGD_RETURN_IF_ERROR(c.importer.Spend(each));
  PSGD_ASSIGN_OR_RETURN(const TensorId column,
                        AddReshape(g, c.name + ".column", tensor, {first, 1}));
  PSGD_ASSIGN_OR_RETURN(const TensorId ones,
                        c.importer.MakeConstant(c.name + ".ones", {1, each},
                                                std::vector<float>(static_cast<size_t>(each), 1)));
  PSGD_ASSIGN_OR_RETURN(const TensorId all, AddMatMul(g, c.name + ".all", {}, column, ones));
  return AddReshape(g, c.name + ".whole", all, shape);
}

struct Pair {
  Value large, small;  // `large` has the shape of the result
};
absl::StatusOr<Pair> InOrder(const OpContext& c, const Value& a, const Value& b) {
  const Shape left = c.importer.ShapeOf(a), right = c.importer.ShapeOf(b);
  const bool larger = right.size() > left.size() ||
                      (right.size() == left.size() && ElementCount(right) > ElementCount(left));
  const bool one_known = (a.tensor == kNoTensor) != (b.tensor == kNoTensor);
  const bool swap = one_known ? a.tensor == kNoTensor : larger;
  Pair pair = swap ? Pair{b, a} : Pair{a, b};
  if (pair.large.tensor == kNoTensor) {
    PSGD_ASSIGN_OR_RETURN(const TensorId tensor, c.importer.Tensor(pair.large));
    pair.large = {.tensor = tensor};
  }
  return pair;
}

}  // namespace

Imported AddTwo(const OpContext& c, const Value& a, const Value& b) {
  PSGD_ASSIGN_OR_RETURN(const Pair pair, InOrder(c, a, b));
  const Shape shape = c.importer.ShapeOf(pair.large);
  const Shape small = WithoutLeadingOnes(c.importer.ShapeOf(pair.small));
  Graph* g = c.graph();
  if (pair.small.known() && pair.small.array->real() && pair.large.mask == nullptr &&
      !pair.large.flipped && pair.small.array->count() > 1 && EndsWith(shape, small) &&
      std::any_of(pair.small.array->reals.begin(), pair.small.array->reals.end(),
                  [](float value) { return value <= kMasked; })) {
    Value masked = pair.large;
    masked.mask = pair.small.array;
    if (masked.mask->shape != small) {
      PSGD_RETURN_IF_ERROR(c.importer.Spend(masked.mask->count()));
      masked.mask = MakeReals(small, pair.small.array->reals);
    }
    return std::vector<Value>{masked};
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.importer.Tensor(pair.large));
  const auto made = [&](absl::StatusOr<TensorId> y) -> Imported {
    PSGD_RETURN_IF_ERROR(y.status());
    const int64_t outer = pair.large.outer != kNoBatch ? pair.large.outer : pair.small.outer;
    return std::vector<Value>{{.tensor = *y, .outer = outer}};
  };
  if (!pair.small.known() || pair.small.array->count() > 1) {
    if (c.importer.ShapeOf(pair.small) == shape || !EndsWith(shape, small)) {
      // One value a channel of images, or another value that broadcasts.
      if (small.size() == 3 && shape.size() == 4 && small == Shape{shape[1], 1, 1}) {
        PSGD_ASSIGN_OR_RETURN(const TensorId b_small, c.importer.Tensor(pair.small));
        PSGD_ASSIGN_OR_RETURN(const TensorId flat,
                              AddReshape(g, c.name + ".bias", b_small, {shape[1]}));
        return made(AddBias(g, c.name, x, flat));
      }
      PSGD_ASSIGN_OR_RETURN(const TensorId y, Spread(c, pair.small, shape));
      return made(AddSum(g, c.name, {x, y}));
    }
    PSGD_ASSIGN_OR_RETURN(TensorId rows, c.importer.Tensor(pair.small));
    if (g->shape(rows) != small) {
      PSGD_ASSIGN_OR_RETURN(rows, AddReshape(g, c.name + ".bias", rows, small));
    }
    return made(AddRowBias(g, c.name, x, rows));
  }
  if (!pair.small.array->real()) return c.Unsupported("adds whole numbers");
  PSGD_RETURN_IF_ERROR(c.importer.Spend(shape.back()));
  const std::vector<float> row(static_cast<size_t>(shape.back()), pair.small.array->reals[0]);
  PSGD_ASSIGN_OR_RETURN(const TensorId number,
                        c.importer.MakeConstant(c.name + ".constant", {shape.back()}, row));
  return made(AddRowBias(g, c.name, x, number));
}

namespace {

Imported MulTwo(const OpContext& c, const Value& a, const Value& b) {
  PSGD_ASSIGN_OR_RETURN(const Pair pair, InOrder(c, a, b));
  if (IsNumber(pair.small) && pair.large.mask == nullptr) {
    Value scaled = pair.large;
    scaled.scale *= pair.small.array->reals[0];
    return std::vector<Value>{scaled};
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.importer.Tensor(pair.large));
  PSGD_ASSIGN_OR_RETURN(const TensorId y, Spread(c, pair.small, c.graph()->shape(x)));
  PSGD_ASSIGN_OR_RETURN(const TensorId product, AddMul(c.graph(), c.name, x, y));
  const int64_t outer = pair.large.outer != kNoBatch ? pair.large.outer : pair.small.outer;
  return std::vector<Value>{{.tensor = product, .outer = outer}};
}

Value Negated(Value value) {
  if (!value.known()) {
    value.scale = -value.scale;
    return value;
  }
  auto array = std::make_shared<Array>(*value.array);
  for (float& number : array->reals) number = -number;
  value.array = std::move(array);
  return value;
}

Imported ImportAdd(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks an input");
  return AddTwo(c, c.in(0), c.in(1));
}

Imported ImportSum(const OpContext& c) {
  Value sum = c.in(0);
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return absl::InvalidArgumentError("lacks an input");
    PSGD_ASSIGN_OR_RETURN(const std::vector<Value> made, AddTwo(c, sum, c.in(i)));
    sum = made[0];
  }
  return std::vector<Value>{sum};
}

Imported ImportSub(const OpContext& c) {
  if (!c.has(1) || c.in(1).mask != nullptr) return c.Unsupported("takes a mask away");
  if (c.in(1).known()) PSGD_RETURN_IF_ERROR(c.importer.Spend(c.in(1).array->count()));
  return AddTwo(c, c.in(0), Negated(c.in(1)));
}

Imported ImportMul(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks an input");
  return MulTwo(c, c.in(0), c.in(1));
}

Imported ImportDiv(const OpContext& c) {
  if (!c.has(1) || !c.in(1).known() || !c.in(1).array->real()) {
    return c.Unsupported("divides by what depends on the input or is trained");
  }
  Value inverse = c.in(1);
  PSGD_RETURN_IF_ERROR(c.importer.Spend(inverse.array->count()));
  auto array = std::make_shared<Array>(*inverse.array);
  for (float& number : array->reals) number = 1 / number;
  inverse.array = std::move(array);
  return MulTwo(c, c.in(0), inverse);
}

Imported ImportNeg(const OpContext& c) {
  if (c.in(0).mask != nullptr) return c.Unsupported("negates a mask");
  return std::vector<Value>{Negated(c.in(0))};
}

Imported ImportPow(const OpContext& c) {
  const bool number = c.has(1) && c.in(1).known() && c.in(1).array->count() == 1;
  const double power = !number                 ? 0
                       : c.in(1).array->real() ? c.in(1).array->reals[0]
                                               : static_cast<double>(c.in(1).array->ints[0]);
  if (power != 2 && power != 3) return c.Unsupported("powers but 2 and 3");
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(TensorId y, AddMul(c.graph(), c.name, x, x));
  if (power == 3) {
    PSGD_ASSIGN_OR_RETURN(y, AddMul(c.graph(), c.name + ".cube", y, x));
  }
  return std::vector<Value>{c.Like(y)};
}

// A mask: a known condition replaces values by a large negative number.
Imported ImportWhere(const OpContext& c) {
  if (!c.has(2) || !c.in(0).known() || c.in(0).array->real()) {
    return c.Unsupported("its condition depends on the input");
  }
  const bool replaced_where = IsNumber(c.in(1));
  const Value& x = replaced_where ? c.in(2) : c.in(1);
  const Value& number = replaced_where ? c.in(1) : c.in(2);
  const Shape where = WithoutLeadingOnes(c.in(0).array->shape);
  if (!IsNumber(number) || number.array->reals[0] > kMasked || x.tensor == kNoTensor ||
      x.mask != nullptr || x.flipped || where.empty() || !EndsWith(c.importer.ShapeOf(x), where)) {
    return c.Unsupported("only masks values by a large negative number, before a softmax");
  }
  PSGD_RETURN_IF_ERROR(c.importer.Spend(c.in(0).array->count()));
  std::vector<float> mask;
  for (int64_t truth : c.in(0).array->ints) {
    mask.push_back((truth != 0) == replaced_where ? number.array->reals[0] : 0);
  }
  for (size_t row = 0; row < mask.size(); row += static_cast<size_t>(where.back())) {
    const auto begin = mask.begin() + static_cast<int64_t>(row);
    if (std::find(begin, begin + where.back(), 0.0f) == begin + where.back()) {
      return c.Unsupported("masks a whole row");
    }
  }
  Value masked = x;
  masked.mask = MakeReals(where, std::move(mask));
  return std::vector<Value>{masked};
}

bool IsCausal(const Array& mask, const Shape& scores) {
  if (mask.shape.size() != 2 || scores.size() < 2 || !EndsWith(scores, mask.shape)) return false;
  const int64_t queries = mask.shape[0], keys = mask.shape[1];
  for (int64_t i = 0; i < mask.count(); ++i) {
    const bool open = i % keys <= i / keys + keys - queries;
    if (open ? mask.reals[i] != 0 : mask.reals[i] > kMasked) return false;
  }
  return true;
}

Imported SoftmaxOf(const OpContext& c, TensorId lengths) {
  Value x = c.in(0);
  const Shape in = c.shape(0);
  PSGD_ASSIGN_OR_RETURN(
      const auto axes,
      CheckedAxes({IntAttribute(c.node, "axis", c.importer.opset() < 13 ? 1 : -1)}, in.size()));
  if (axes[0] != static_cast<int>(in.size()) - 1)
    return c.Unsupported("is taken over the last axis only");
  Softmax op;
  if (x.mask != nullptr && IsCausal(*x.mask, in)) {
    op.causal = true;
    x.mask = nullptr;
  }
  if (x.mask == nullptr && x.scale > 0) {
    op.scale = x.scale;
    x.scale = 1;
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId scores, c.importer.Tensor(x));
  return c.Made(AddSoftmax(c.graph(), c.name, op, scores, lengths));
}

Imported ImportSoftmax(const OpContext& c) { return SoftmaxOf(c, kNoTensor); }

// A softmax with padding masks; see fuse.cc.
Imported ImportPaddedSoftmax(const OpContext& c) {
  if (!c.has(2)) return absl::InvalidArgumentError("lacks an input");
  const Shape scores = c.shape(0), tokens = c.shape(1);
  const int64_t places = IntAttribute(c.node, "places", tokens.back());
  Shape spread(scores.size(), 1);
  spread.front() = -1;
  spread.back() = places;
  PSGD_ASSIGN_OR_RETURN(auto shape, c.Ints("shape", 2));
  if (shape && !shape->empty() && shape->front() == c.importer.file_batch()) shape->front() = -1;
  if (!c.importer.IsTokens(c.in(1)) || tokens.size() != 2 || scores.size() < 3 ||
      scores.back() != places || places > tokens[1] || c.in(0).outer != 1 || c.in(1).outer != 1 ||
      !shape || *shape != spread) {
    return c.Unsupported("leaves out other padding than that of a key for each token");
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(1));
  const Lengths op = {.places = places,
                      .padding = static_cast<int32_t>(IntAttribute(c.node, "padding", 0))};
  PSGD_ASSIGN_OR_RETURN(const TensorId lengths, AddLengths(c.graph(), c.name + ".lengths", op, x));
  return SoftmaxOf(c, lengths);
}

Imported ImportActivation(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  const std::string& kind = c.node.op_type();
  using Kind = Activation::Kind;
  absl::StatusOr<TensorId> y;
  if (kind == "Relu") {
    y = AddRelu(c.graph(), c.name, x);
  } else if (kind == "LeakyRelu") {
    const float slope = FloatAttribute(c.node, "alpha", 0.01f);
    if (!(slope >= 0)) return c.Unsupported("a negative slope");
    y = AddActivation(c.graph(), c.name, {Kind::kLeakyRelu, slope}, x);
  } else {
    const Kind made = kind == "Sigmoid" ? Kind::kSigmoid
                      : kind == "Tanh"  ? Kind::kTanh
                                        : Kind::kGelu;
    y = AddActivation(c.graph(), c.name, {made}, x);
  }
  return c.Made(y);
}

Imported ImportExpand(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const auto to, c.Ints("shape", 1));
  if (!to || c.in(0).outer != kNoBatch) return c.Unsupported("spreads what depends on the input");
  PSGD_ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(c.shape(0), *to));
  PSGD_ASSIGN_OR_RETURN(const TensorId y, Spread(c, c.in(0), shape));
  return std::vector<Value>{{.tensor = y}};
}

Imported ImportSame(const OpContext& c) { return std::vector<Value>{c.in(0)}; }

// Weights are single precision, whatever type a file has.
Imported ImportCast(const OpContext& c) {
  const int64_t to = IntAttribute(c.node, "to", 0);
  const bool tokens = c.importer.IsTokens(c.in(0));
  const bool same = tokens ? to == TensorProto::INT64 || to == TensorProto::INT32
                           : to == TensorProto::FLOAT || to == TensorProto::DOUBLE ||
                                 (to == TensorProto::FLOAT16 && c.in(0).outer == kNoBatch);
  if (!same) return c.Unsupported(absl::StrCat("casts to type ", to));
  return std::vector<Value>{c.in(0)};
}

}  // namespace

void AddElementOps(OpTable* table) {
  for (const char* name : {"Relu", "LeakyRelu", "Sigmoid", "Tanh", "Gelu"}) {
    (*table)[name] = ImportActivation;
  }
  (*table)["Add"] = ImportAdd;
  (*table)["Sum"] = ImportSum;
  (*table)["Sub"] = ImportSub;
  (*table)["Mul"] = ImportMul;
  (*table)["Div"] = ImportDiv;
  (*table)["Neg"] = ImportNeg;
  (*table)["Pow"] = ImportPow;
  (*table)["Where"] = ImportWhere;
  (*table)["Softmax"] = ImportSoftmax;
  (*table)["PaddedSoftmax"] = ImportPaddedSoftmax;
  (*table)["Expand"] = ImportExpand;
  (*table)["Identity"] = ImportSame;
  (*table)["Cast"] = ImportCast;
}

}  // namespace psgd::onnx
