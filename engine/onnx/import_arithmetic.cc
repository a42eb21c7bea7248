// Arithmetic with broadcasting, comparisons, masks, and reductions.
#include <algorithm>
#include <array>
#include <limits>

#include "engine/onnx/attributes.h"
#include "engine/onnx/broadcast.h"
#include "engine/onnx/fold.h"
#include "engine/onnx/importer.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

using Act = Activation::Kind;

Shape WithoutLeadingOnes(Shape shape) {
  while (shape.size() > 1 && shape[0] == 1) shape.erase(shape.begin());
  return shape;
}

bool IsNumber(const Value& value) {
  return value.known() && value.array->real() && value.array->count() == 1;
}

Imported Lacking() { return absl::InvalidArgumentError("lacks an input"); }

// The operands in the order in which a small one is added to a large one.
struct Ordered {
  Value large, small;
};
absl::StatusOr<Ordered> InOrder(const OpContext& c, const Value& a, const Value& b) {
  const Shape left = c.importer.ShapeOf(a), right = c.importer.ShapeOf(b);
  const bool larger = right.size() > left.size() ||
                      (right.size() == left.size() && ElementCount(right) > ElementCount(left));
  const bool one_known = (a.tensor == kNoTensor) != (b.tensor == kNoTensor);
  const bool swap = one_known ? a.tensor == kNoTensor : larger;
  Ordered ordered = swap ? Ordered{b, a} : Ordered{a, b};
  if (ordered.large.tensor == kNoTensor) {
    PSGD_ASSIGN_OR_RETURN(const TensorId tensor, c.importer.Tensor(ordered.large));
    ordered.large = {.tensor = tensor};
  }
  return ordered;
}

// The array without leading axes along which it repeats, as a mask for all samples and heads.
ArrayPtr WithoutRepeats(const ArrayPtr& array) {
  const auto begin = array->reals.begin();
  int64_t count = array->count();
  auto axis = array->shape.begin();
  for (; array->shape.end() - axis > 1; ++axis) {
    const int64_t each = count / *axis;
    if (!std::equal(begin + each, begin + count, begin)) break;
    count = each;
  }
  return MakeReals({axis, array->shape.end()}, {begin, begin + count});
}

// The sum with a known array that masks elements of a softmax, as work to do later. The sum with
// zeros, as of a mask of no padding, is no work.
std::optional<Value> Masked(const OpContext& c, const Value& large, const Value& known) {
  if (!known.known() || !known.array->real() || known.array->count() < 2) return std::nullopt;
  const Shape shape = c.importer.FileShapeOf(large);
  const auto sum = TogetherShape(shape, known.array->shape);
  if (!sum.ok() || *sum != shape) return std::nullopt;
  const std::vector<float>& reals = known.array->reals;
  if (std::ranges::all_of(reals, [](float value) { return value == 0; })) return large;
  const bool masks = std::ranges::any_of(reals, [](float value) { return value <= kMasked; });
  if (!masks || large.mask != nullptr) return std::nullopt;
  Value masked = large;
  masked.mask = WithoutRepeats(known.array);
  if (!EndsWith(c.importer.ShapeOf(large), masked.mask->shape)) return std::nullopt;
  return masked;
}

// The sum with one known number.
Imported AddNumber(const OpContext& c, Value value, float number) {
  Activation op = {Act::kLinear, 1, number};
  if (value.mask == nullptr) std::swap(op.alpha, value.scale);
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.importer.Tensor(value));
  PSGD_ASSIGN_OR_RETURN(const TensorId y, AddActivation(c.graph(), c.name, op, x));
  return std::vector<Value>{{.tensor = y, .outer = value.outer}};
}

}  // namespace

Imported AddTwo(const OpContext& c, const Value& a, const Value& b) {
  PSGD_RETURN_IF_ERROR(SamplesStayApart(c, a, b));
  PSGD_ASSIGN_OR_RETURN(const Ordered ordered, InOrder(c, a, b));
  const Shape shape = c.importer.ShapeOf(ordered.large);
  const Shape small = WithoutLeadingOnes(c.importer.ShapeOf(ordered.small));
  Graph* g = c.graph();
  if (const auto masked = Masked(c, ordered.large, ordered.small)) {
    PSGD_RETURN_IF_ERROR(c.importer.Spend(ordered.small.array->count()));
    return std::vector<Value>{*masked};
  }
  if (ordered.small.known() && !ordered.small.array->real()) {
    return c.Unsupported("adds whole numbers");
  }
  if (IsNumber(ordered.small) && ordered.small.array->shape.size() <= shape.size()) {
    return AddNumber(c, ordered.large, ordered.small.array->reals[0]);
  }
  const auto made = [&](absl::StatusOr<TensorId> y) -> Imported {
    PSGD_RETURN_IF_ERROR(y.status());
    const Value& of = ordered.large.outer != kNoBatch ? ordered.large : ordered.small;
    return std::vector<Value>{{.tensor = *y, .outer = OuterAfterSpread(c, of, shape)}};
  };
  // One value a channel of images, or the same row of values each time.
  const bool channels = small.size() == 3 && shape.size() == 4 && small == Shape{shape[1], 1, 1};
  const bool rows = !small.empty() && small != shape && EndsWith(shape, small);
  if (channels || rows) {
    PSGD_ASSIGN_OR_RETURN(const TensorId x, c.importer.Tensor(ordered.large));
    PSGD_ASSIGN_OR_RETURN(TensorId row, c.importer.Tensor(ordered.small));
    const Shape flat = channels ? Shape{shape[1]} : small;
    if (g->shape(row) != flat) {
      PSGD_ASSIGN_OR_RETURN(row, AddReshape(g, c.name + ".bias", row, flat));
    }
    return made(channels ? AddBias(g, c.name, x, row) : AddRowBias(g, c.name, x, row));
  }
  PSGD_ASSIGN_OR_RETURN(const Pair pair, SpreadTogether(c, ordered.large, ordered.small));
  PSGD_ASSIGN_OR_RETURN(const TensorId sum, AddSum(g, c.name, {pair.a, pair.b}));
  return std::vector<Value>{{.tensor = sum, .outer = pair.outer}};
}

namespace {

Imported MulTwo(const OpContext& c, const Value& a, const Value& b) {
  PSGD_RETURN_IF_ERROR(SamplesStayApart(c, a, b));
  PSGD_ASSIGN_OR_RETURN(const Ordered ordered, InOrder(c, a, b));
  if (IsNumber(ordered.small) && ordered.large.mask == nullptr &&
      ordered.small.array->shape.size() <= c.importer.ShapeOf(ordered.large).size()) {
    Value scaled = ordered.large;
    scaled.scale *= ordered.small.array->reals[0];
    return std::vector<Value>{scaled};
  }
  PSGD_ASSIGN_OR_RETURN(const Pair pair, SpreadTogether(c, ordered.large, ordered.small));
  PSGD_ASSIGN_OR_RETURN(const TensorId product, AddMul(c.graph(), c.name, pair.a, pair.b));
  return std::vector<Value>{{.tensor = product, .outer = pair.outer}};
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

// The activation of a value.
absl::StatusOr<Value> Activated(const OpContext& c, const Activation& op, const Value& value) {
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.importer.Tensor(value));
  PSGD_ASSIGN_OR_RETURN(const TensorId y, AddActivation(c.graph(), c.name + ".value", op, x));
  return Value{.tensor = y, .outer = value.outer};
}

absl::StatusOr<Value> Difference(const OpContext& c, const Value& a, const Value& b) {
  if (b.known()) PSGD_RETURN_IF_ERROR(c.importer.Spend(b.array->count()));
  if (b.mask != nullptr) return c.Unsupported("takes a mask away");
  PSGD_ASSIGN_OR_RETURN(const std::vector<Value> made, AddTwo(c, a, Negated(b)));
  return made[0];
}

// 1 - value
Imported Not(const OpContext& c, const Value& value) { return AddNumber(c, Negated(value), 1); }

Imported ImportAdd(const OpContext& c) {
  if (!c.has(1)) return Lacking();
  return AddTwo(c, c.in(0), c.in(1));
}

Imported ImportSum(const OpContext& c) {
  Value sum = c.in(0);
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return Lacking();
    PSGD_ASSIGN_OR_RETURN(const std::vector<Value> made, AddTwo(c, sum, c.in(i)));
    sum = made[0];
  }
  return std::vector<Value>{sum};
}

Imported ImportSub(const OpContext& c) {
  if (!c.has(1)) return Lacking();
  PSGD_ASSIGN_OR_RETURN(const Value made, Difference(c, c.in(0), c.in(1)));
  return std::vector<Value>{made};
}

Imported ImportMul(const OpContext& c) {
  if (!c.has(1)) return Lacking();
  return MulTwo(c, c.in(0), c.in(1));
}

Imported ImportDiv(const OpContext& c) {
  if (!c.has(1)) return Lacking();
  const Value& divisor = c.in(1);
  if (!divisor.known()) {
    PSGD_ASSIGN_OR_RETURN(const Value inverse, Activated(c, {Act::kPower, -1}, divisor));
    return MulTwo(c, c.in(0), inverse);
  }
  if (!divisor.array->real()) return c.Unsupported("divides by whole numbers");
  PSGD_RETURN_IF_ERROR(c.importer.Spend(divisor.array->count()));
  auto array = std::make_shared<Array>(*divisor.array);
  for (float& number : array->reals) number = 1 / number;
  return MulTwo(c, c.in(0), {.array = std::move(array)});
}

Imported ImportNeg(const OpContext& c) {
  if (c.in(0).mask != nullptr) return c.Unsupported("negates a mask");
  return std::vector<Value>{Negated(c.in(0))};
}

Imported ImportPow(const OpContext& c) {
  const bool number = c.has(1) && c.in(1).known() && c.in(1).array->count() == 1;
  if (!number) return c.Unsupported("its power is not one known number");
  const float power =
      c.in(1).array->real() ? c.in(1).array->reals[0] : static_cast<float>(c.in(1).array->ints[0]);
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  if (power != 2 && power != 3) {
    return c.Made(AddActivation(c.graph(), c.name, {Act::kPower, power}, x));
  }
  PSGD_ASSIGN_OR_RETURN(TensorId y, AddMul(c.graph(), c.name, x, x));
  if (power == 3) {
    PSGD_ASSIGN_OR_RETURN(y, AddMul(c.graph(), c.name + ".cube", y, x));
  }
  return std::vector<Value>{c.Like(y)};
}

// Chooses element by element, with broadcasting: `a` where the condition is positive, else `b`.
absl::StatusOr<Value> Choose(const OpContext& c, const Value& condition, const Value& a,
                             const Value& b) {
  Select op;
  Shape shape;
  std::vector<TensorId> read;
  const Value* of = nullptr;                                        // holds the batch
  const std::array<const Value*, 3> values = {&condition, &a, &b};  // a and b may be one
  for (size_t i = 0; i < values.size(); ++i) {
    const Value* const value = values[i];
    if (value->outer != kNoBatch) {
      if (of != nullptr) PSGD_RETURN_IF_ERROR(SamplesStayApart(c, *of, *value));
      if (of == nullptr) of = value;
    }
    PSGD_ASSIGN_OR_RETURN(shape, TogetherShape(shape, c.importer.ShapeOf(*value)));
    TensorId tensor = kNoTensor;
    if (i > 0 && IsNumber(*value)) {
      (i == 1 ? op.a : op.b) = value->array->reals[0];
    } else {
      PSGD_ASSIGN_OR_RETURN(tensor, c.importer.Tensor(*value));
    }
    read.push_back(tensor);
  }
  for (TensorId& tensor : read) {
    if (tensor == kNoTensor) continue;
    PSGD_ASSIGN_OR_RETURN(tensor, Spread(c, tensor, shape));
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId y,
                        AddSelect(c.graph(), c.name, op, read[0], read[1], read[2]));
  return Value{.tensor = y, .outer = of == nullptr ? kNoBatch : OuterAfterSpread(c, *of, shape)};
}

// The larger or the smaller of two.
absl::StatusOr<Value> Extreme(const OpContext& c, const Value& a, const Value& b, bool largest) {
  for (const auto& [number, other] : {std::pair{a, b}, {b, a}}) {
    if (!IsNumber(number)) continue;
    constexpr float kInfinite = std::numeric_limits<float>::infinity();
    const float bound = number.array->reals[0];
    return Activated(c, {Act::kClip, largest ? bound : -kInfinite, largest ? kInfinite : bound},
                     other);
  }
  PSGD_ASSIGN_OR_RETURN(const Value more, Difference(c, largest ? a : b, largest ? b : a));
  return Choose(c, more, a, b);
}

// Max and Min of any number of inputs.
Imported ImportExtreme(const OpContext& c) {
  // The work that is left to do on a value is done once.
  const auto whole = [&](const Value& value) -> absl::StatusOr<Value> {
    if (value.known()) {
      PSGD_RETURN_IF_ERROR(c.importer.Spend(value.array->count()));
      return value;
    }
    PSGD_ASSIGN_OR_RETURN(const TensorId tensor, c.importer.Tensor(value));
    return Value{.tensor = tensor, .outer = value.outer};
  };
  PSGD_ASSIGN_OR_RETURN(Value most, whole(c.in(0)));
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return Lacking();
    PSGD_ASSIGN_OR_RETURN(const Value next, whole(c.in(i)));
    PSGD_ASSIGN_OR_RETURN(most, Extreme(c, most, next, c.node.op_type() == "Max"));
  }
  return std::vector<Value>{most};
}

// Truth values are 1 and 0. a > b is a step of a - b; equal numbers have no distance.
Imported ImportComparison(const OpContext& c) {
  if (!c.has(1)) return Lacking();
  const std::string& op = c.node.op_type();
  const bool less = op.starts_with("Less");
  PSGD_ASSIGN_OR_RETURN(Value apart, Difference(c, c.in(less ? 1 : 0), c.in(less ? 0 : 1)));
  if (op == "Equal") {
    PSGD_ASSIGN_OR_RETURN(apart, Activated(c, {Act::kAbsolute}, apart));
  } else if (op.ends_with("OrEqual")) {
    apart = Negated(apart);
  }
  PSGD_ASSIGN_OR_RETURN(const Value step, Activated(c, {Act::kStep}, apart));
  if (op == "Equal" || op.ends_with("OrEqual")) return Not(c, step);
  return std::vector<Value>{step};
}

// A known array of truth values as numbers.
Value AsNumbers(const Value& value) {
  if (!value.known() || value.array->real()) return value;
  return {.array =
              MakeReals(value.array->shape, {value.array->ints.begin(), value.array->ints.end()})};
}

Imported ImportLogic(const OpContext& c) {
  const std::string& op = c.node.op_type();
  if (op == "Not") return Not(c, AsNumbers(c.in(0)));
  if (!c.has(1)) return Lacking();
  const Value a = AsNumbers(c.in(0)), b = AsNumbers(c.in(1));
  if (op == "And") return MulTwo(c, a, b);
  PSGD_ASSIGN_OR_RETURN(const Value either, Extreme(c, a, b, /*largest=*/true));
  return std::vector<Value>{either};
}

// A softmax's mask: a known condition replaces values by a large negative number.
std::optional<Value> MaskedWhere(const OpContext& c) {
  const bool replaced_where = IsNumber(c.in(1));
  const Value& x = replaced_where ? c.in(2) : c.in(1);
  const Value& number = replaced_where ? c.in(1) : c.in(2);
  if (!c.in(0).known() || c.in(0).array->real()) return std::nullopt;
  if (!IsNumber(number) || number.array->reals[0] > kMasked || x.tensor == kNoTensor) {
    return std::nullopt;
  }
  std::vector<float> mask;
  for (int64_t truth : c.in(0).array->ints) {
    mask.push_back((truth != 0) == replaced_where ? number.array->reals[0] : 0);
  }
  return Masked(c, x, {.array = MakeReals(c.in(0).array->shape, std::move(mask))});
}

bool MasksAWholeRow(const Array& mask) {
  const int64_t width = mask.shape.back();
  for (auto row = mask.reals.begin(); row != mask.reals.end(); row += width) {
    if (std::find(row, row + width, 0.0f) == row + width) return true;
  }
  return false;
}

Imported ImportWhere(const OpContext& c) {
  if (!c.has(2)) return Lacking();
  for (size_t i : {0, 1, 2}) {
    if (c.in(i).known()) PSGD_RETURN_IF_ERROR(c.importer.Spend(c.in(i).array->count()));
  }
  if (const std::optional<Value> masked = MaskedWhere(c)) {
    // An earlier mask may do so, and another layer's addition may undo it.
    const bool is_new =
        masked->mask != nullptr && masked->mask != c.in(1).mask && masked->mask != c.in(2).mask;
    if (is_new && MasksAWholeRow(*masked->mask)) return c.Unsupported("masks a whole row");
    return std::vector<Value>{*masked};
  }
  PSGD_ASSIGN_OR_RETURN(const Value chosen, Choose(c, AsNumbers(c.in(0)), c.in(1), c.in(2)));
  c.importer.AddChoice(c.node, chosen.tensor);
  return std::vector<Value>{chosen};
}

absl::Status NotOverTheBatch(const OpContext& c, const std::vector<int>& axes) {
  const int batch = BatchAxis(c.shape(0), c.in(0).outer, c.importer.batch());
  if (std::find(axes.begin(), axes.end(), batch) == axes.end()) return absl::OkStatus();
  return c.CombinesSamples();
}

// Logarithm of a sum of exponentials, below the largest so that none overflows.
absl::StatusOr<TensorId> LogSumExp(const OpContext& c, const std::vector<int>& axes, TensorId x) {
  Graph* g = c.graph();
  const Shape in = g->shape(x);
  PSGD_ASSIGN_OR_RETURN(const TensorId most, Reduce(c, Reduction::kMax, axes, x));
  PSGD_ASSIGN_OR_RETURN(TensorId less, AddActivation(g, c.name, {Act::kLinear, -1}, most));
  PSGD_ASSIGN_OR_RETURN(less, Spread(c, less, in));
  PSGD_ASSIGN_OR_RETURN(less, AddSum(g, c.name + ".less", {x, less}));
  PSGD_ASSIGN_OR_RETURN(less, AddActivation(g, c.name + ".exp", {Act::kExp}, less));
  PSGD_ASSIGN_OR_RETURN(TensorId sum, Reduce(c, Reduction::kSum, axes, less));
  PSGD_ASSIGN_OR_RETURN(sum, AddActivation(g, c.name + ".log", {Act::kLog}, sum));
  return AddSum(g, c.name + ".sum", {sum, most});
}

absl::StatusOr<TensorId> Reduced(const OpContext& c, const std::vector<int>& axes, TensorId x) {
  const std::string& op = c.node.op_type();
  Graph* g = c.graph();
  const auto act = [&](const Activation& activation, TensorId of) {
    return AddActivation(g, c.name, activation, of);
  };
  const Shape in = g->shape(x);
  if (op == "ReduceMean" && in.size() == 4 && axes == std::vector<int>{2, 3}) {
    const Extent whole(static_cast<int>(in[2]), static_cast<int>(in[3]));
    return AddPool(g, c.name, {Pool::Kind::kAverage, {whole}}, x);
  }
  if (op == "ReduceMean") return Reduce(c, Reduction::kMean, axes, x);
  if (op == "ReduceMax") return Reduce(c, Reduction::kMax, axes, x);
  if (op == "ReduceMin") {
    PSGD_ASSIGN_OR_RETURN(const TensorId less, act({Act::kLinear, -1}, x));
    PSGD_ASSIGN_OR_RETURN(const TensorId most, Reduce(c, Reduction::kMax, axes, less));
    return act({Act::kLinear, -1}, most);
  }
  if (op == "ReduceLogSumExp") return LogSumExp(c, axes, x);
  if (op == "ReduceL1") {
    PSGD_ASSIGN_OR_RETURN(x, act({Act::kAbsolute}, x));
  } else if (op == "ReduceL2" || op == "ReduceSumSquare") {
    PSGD_ASSIGN_OR_RETURN(x, AddMul(g, c.name, x, x));
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId sum, Reduce(c, Reduction::kSum, axes, x));
  if (op == "ReduceL2") return act({Act::kPower, 0.5f}, sum);
  return op == "ReduceLogSum" ? act({Act::kLog}, sum) : absl::StatusOr<TensorId>(sum);
}

Imported ImportReduce(const OpContext& c) {
  const Shape in = c.shape(0);
  PSGD_ASSIGN_OR_RETURN(const auto given, c.Ints("axes", 1));
  PSGD_ASSIGN_OR_RETURN(const std::vector<int> axes,
                        ReducedAxes(c.node, given.value_or(std::vector<int64_t>()), in.size()));
  if (axes.empty() && !in.empty()) return std::vector<Value>{c.in(0)};
  PSGD_RETURN_IF_ERROR(NotOverTheBatch(c, axes));
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(TensorId y, Reduced(c, axes, x));
  Value made = c.Like(y);
  made.scalar = in.empty();
  if (IntAttribute(c.node, "keepdims", 1) != 0) return std::vector<Value>{made};
  Shape shape;
  for (int axis = 0; axis < static_cast<int>(in.size()); ++axis) {
    if (!std::binary_search(axes.begin(), axes.end(), axis)) shape.push_back(in[axis]);
  }
  PSGD_ASSIGN_OR_RETURN(made.tensor,
                        AddReshape(c.graph(), c.name + ".flat", y, made.WithAxis(shape)));
  return std::vector<Value>{made};
}

}  // namespace

void AddArithmeticOps(OpTable* table) {
  (*table)["Add"] = ImportAdd;
  (*table)["Sum"] = ImportSum;
  (*table)["Sub"] = ImportSub;
  (*table)["Mul"] = ImportMul;
  (*table)["Div"] = ImportDiv;
  (*table)["Neg"] = ImportNeg;
  (*table)["Pow"] = ImportPow;
  (*table)["Max"] = ImportExtreme;
  (*table)["Min"] = ImportExtreme;
  (*table)["Where"] = ImportWhere;
  for (const char* name : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
    (*table)[name] = ImportComparison;
  }
  for (const char* name : {"And", "Or", "Not"}) (*table)[name] = ImportLogic;
  for (const char* name : {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1",
                           "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
    (*table)[name] = ImportReduce;
  }
}

}  // namespace psgd::onnx
