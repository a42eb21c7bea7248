// Ops element by element, reductions, and ranges of numbers.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/onnx/attributes.h"
#include "engine/onnx/fold.h"

namespace psgd::onnx {
namespace {

using OfReals = double (*)(double, double);
using OfInts = int64_t (*)(int64_t, int64_t);

// Overflow by a hostile file wraps around. Sizes are checked at their use.
int64_t Wrapped(uint64_t value) { return static_cast<int64_t>(value); }

struct Binary {
  OfReals reals;
  OfInts ints;
  bool truth = false;  // a comparison
};

int64_t Quotient(int64_t a, int64_t b) { return b == 0 || b == -1 ? Wrapped(-uint64_t(a)) : a / b; }

const std::map<std::string, Binary>& Binaries() {
  static const auto* const kBinaries = new std::map<std::string, Binary>{
      {"Add",
       {[](double a, double b) { return a + b; },
        [](int64_t a, int64_t b) { return Wrapped(uint64_t(a) + uint64_t(b)); }}},
      {"Sub",
       {[](double a, double b) { return a - b; },
        [](int64_t a, int64_t b) { return Wrapped(uint64_t(a) - uint64_t(b)); }}},
      {"Mul",
       {[](double a, double b) { return a * b; },
        [](int64_t a, int64_t b) { return Wrapped(uint64_t(a) * uint64_t(b)); }}},
      {"Div", {[](double a, double b) { return a / b; }, Quotient}},
      {"Pow",
       {[](double a, double b) { return std::pow(a, b); },
        [](int64_t a, int64_t b) {
          return static_cast<int64_t>(std::llround(
              std::min(1e18, std::pow(static_cast<double>(a), static_cast<double>(b)))));
        }}},
      {"Equal",
       {[](double a, double b) -> double { return a == b; },
        [](int64_t a, int64_t b) -> int64_t { return a == b; }, true}},
      {"Less",
       {[](double a, double b) -> double { return a < b; },
        [](int64_t a, int64_t b) -> int64_t { return a < b; }, true}},
      {"LessOrEqual",
       {[](double a, double b) -> double { return a <= b; },
        [](int64_t a, int64_t b) -> int64_t { return a <= b; }, true}},
      {"Greater",
       {[](double a, double b) -> double { return a > b; },
        [](int64_t a, int64_t b) -> int64_t { return a > b; }, true}},
      {"GreaterOrEqual",
       {[](double a, double b) -> double { return a >= b; },
        [](int64_t a, int64_t b) -> int64_t { return a >= b; }, true}},
      {"Max",
       {[](double a, double b) { return std::max(a, b); },
        [](int64_t a, int64_t b) { return std::max(a, b); }}},
      {"Min",
       {[](double a, double b) { return std::min(a, b); },
        [](int64_t a, int64_t b) { return std::min(a, b); }}},
      {"And", {nullptr, [](int64_t a, int64_t b) -> int64_t { return a && b; }, true}},
      {"Or", {nullptr, [](int64_t a, int64_t b) -> int64_t { return a || b; }, true}},
  };
  return *kBinaries;
}

const std::map<std::string, float (*)(float)>& Unaries() {
  static const auto* const kUnaries = new std::map<std::string, float (*)(float)>{
      {"Neg", [](float x) { return -x; }},
      {"Sqrt", [](float x) { return std::sqrt(x); }},
      {"Exp", [](float x) { return std::exp(x); }},
      {"Log", [](float x) { return std::log(x); }},
      {"Sin", [](float x) { return std::sin(x); }},
      {"Cos", [](float x) { return std::cos(x); }},
      {"Floor", [](float x) { return std::floor(x); }},
      {"Ceil", [](float x) { return std::ceil(x); }},
      {"Abs", [](float x) { return std::fabs(x); }},
      {"Reciprocal", [](float x) { return 1 / x; }},
      {"Round", [](float x) { return std::nearbyint(x); }},
      {"Sign", [](float x) { return x > 0   ? 1.0f
                                    : x < 0 ? -1.0f
                                            : x; }},
  };
  return *kUnaries;
}

// How a reduction joins the elements. Without `each` and `last` it takes whole numbers, too.
struct KnownReduction {
  Binary join;
  double (*each)(double) = nullptr;                       // of an element, first
  double (*last)(double joined, double count) = nullptr;  // of the joined elements
};

// log(exp(a) + exp(b)) without overflow.
double LogOfSum(double a, double b) {
  return a == b ? a + std::log(2.0) : std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
}

const std::map<std::string, KnownReduction>& Reductions() {
  const auto square = [](double x) { return x * x; };
  static const auto* const kReductions = new std::map<std::string, KnownReduction>{
      {"ReduceSum", {Binaries().at("Add")}},
      {"ReduceProd", {Binaries().at("Mul")}},
      {"ReduceMax", {Binaries().at("Max")}},
      {"ReduceMin", {Binaries().at("Min")}},
      {"ReduceMean", {Binaries().at("Add"), nullptr, [](double x, double n) { return x / n; }}},
      {"ReduceL1", {Binaries().at("Add"), [](double x) { return std::fabs(x); }}},
      {"ReduceL2", {Binaries().at("Add"), square, [](double x, double) { return std::sqrt(x); }}},
      {"ReduceSumSquare", {Binaries().at("Add"), square}},
      {"ReduceLogSum",
       {Binaries().at("Add"), nullptr, [](double x, double) { return std::log(x); }}},
      {"ReduceLogSumExp", {{LogOfSum, nullptr}}},
  };
  return *kReductions;
}

// Joins the elements that have equal places.
template <typename Elements, typename Element = typename Elements::value_type>
Elements Joined(const Elements& elements, const std::vector<int64_t>& places, int64_t count,
                Element (*join)(Element, Element)) {
  Elements joined(static_cast<size_t>(count));
  std::vector<bool> begun(joined.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    Element& so_far = joined[places[i]];
    so_far = begun[places[i]] ? join(so_far, elements[i]) : elements[i];
    begun[places[i]] = true;
  }
  return joined;
}

// The sign of the result is the divisor's, or (fmod) the dividend's.
Folded FoldMod(const FoldContext& c) {
  if (!c.has(1) || c.in(0).real() || c.in(1).real()) {
    return absl::UnimplementedError("is taken of whole numbers only");
  }
  const bool fmod = IntAttribute(c.node, "fmod", 0) != 0;
  PSGD_ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(c.in(0).shape, c.in(1).shape));
  const auto left = BroadcastSource(c.in(0).shape, shape),
             right = BroadcastSource(c.in(1).shape, shape);
  std::vector<int64_t> values;
  for (size_t i = 0; i < left.size(); ++i) {
    const int64_t a = c.in(0).ints[left[i]], b = c.in(1).ints[right[i]];
    const int64_t rest = b == 0 || b == -1 ? 0 : a % b;
    values.push_back(!fmod && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
  }
  return std::vector<ArrayPtr>{MakeInts(shape, std::move(values))};
}

// Rows of updates replace the elements that the last axis of the indices names.
Folded FoldScatter(const FoldContext& c) {
  if (!c.has(2) || c.in(1).real() || c.in(1).shape.empty() || c.in(0).kind != c.in(2).kind ||
      TextAttribute(c.node, "reduction", "none") != "none") {
    return absl::UnimplementedError("its inputs do not fit, or it reduces");
  }
  const Shape& in = c.in(0).shape;
  const int64_t depth = c.in(1).shape.back();
  if (depth < 1 || depth > static_cast<int64_t>(in.size())) {
    return absl::InvalidArgumentError("its indices have too many axes");
  }
  const int64_t places = c.in(1).count() / depth;
  const int64_t row = ElementCount(Shape(in.begin() + depth, in.end()));
  if (c.in(2).count() != places * row) return absl::InvalidArgumentError("its updates do not fit");
  auto made = std::make_shared<Array>(c.in(0));
  for (int64_t place = 0; place < places; ++place) {
    int64_t at = 0;
    for (int64_t axis = 0; axis < depth; ++axis) {
      int64_t index = c.in(1).ints[place * depth + axis];
      if (index < 0) index += in[axis];
      if (index < 0 || index >= in[axis])
        return absl::InvalidArgumentError("writes beyond the end");
      at = at * in[axis] + index;
    }
    const auto copy = [&](const auto& from, auto* to) {
      std::copy_n(from.begin() + place * row, row, to->begin() + at * row);
    };
    if (made->real()) copy(c.in(2).reals, &made->reals);
    if (!made->real()) copy(c.in(2).ints, &made->ints);
  }
  return std::vector<ArrayPtr>{ArrayPtr(std::move(made))};
}

Folded FoldBinary(const FoldContext& c, const Binary& op) {
  if (c.inputs.size() > 2) return absl::InvalidArgumentError("has more than two known inputs");
  if (!c.has(1) || c.in(0).real() != c.in(1).real() || (c.in(0).real() && op.reals == nullptr)) {
    return absl::InvalidArgumentError("its inputs are of different types");
  }
  PSGD_ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(c.in(0).shape, c.in(1).shape));
  const auto left = BroadcastSource(c.in(0).shape, shape),
             right = BroadcastSource(c.in(1).shape, shape);
  auto made = std::make_shared<Array>();
  made->shape = shape;
  made->kind = op.truth ? Array::Kind::kBool : c.in(0).kind;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!c.in(0).real()) {
      made->ints.push_back(op.ints(c.in(0).ints[left[i]], c.in(1).ints[right[i]]));
    } else if (op.truth) {
      made->ints.push_back(op.reals(c.in(0).reals[left[i]], c.in(1).reals[right[i]]) != 0);
    } else {
      made->reals.push_back(
          static_cast<float>(op.reals(c.in(0).reals[left[i]], c.in(1).reals[right[i]])));
    }
  }
  return std::vector<ArrayPtr>{ArrayPtr(std::move(made))};
}

Folded FoldWhere(const FoldContext& c) {
  if (!c.has(2) || c.in(0).real() || c.in(1).kind != c.in(2).kind) {
    return absl::InvalidArgumentError("its inputs do not fit");
  }
  PSGD_ASSIGN_OR_RETURN(Shape shape, BroadcastShape(c.in(1).shape, c.in(2).shape));
  PSGD_ASSIGN_OR_RETURN(shape, BroadcastShape(shape, c.in(0).shape));
  const ArrayPtr mask = Pick(c.in(0), BroadcastSource(c.in(0).shape, shape), shape);
  const ArrayPtr yes = Pick(c.in(1), BroadcastSource(c.in(1).shape, shape), shape);
  auto made = std::make_shared<Array>(*Pick(c.in(2), BroadcastSource(c.in(2).shape, shape), shape));
  for (size_t i = 0; i < mask->ints.size(); ++i) {
    if (mask->ints[i] == 0) continue;
    if (made->real()) made->reals[i] = yes->reals[i];
    if (!made->real()) made->ints[i] = yes->ints[i];
  }
  return std::vector<ArrayPtr>{ArrayPtr(std::move(made))};
}

Folded CastTo(const Array& array, Array::Kind kind) {
  auto made = std::make_shared<Array>();
  made->shape = array.shape;
  made->kind = kind;
  for (int64_t i = 0; i < array.count(); ++i) {
    const double value = array.real() ? array.reals[i] : static_cast<double>(array.ints[i]);
    if (made->real()) {
      made->reals.push_back(static_cast<float>(value));
    } else if (kind == Array::Kind::kBool) {
      made->ints.push_back(value != 0);
    } else {
      const double bounded = std::isnan(value) ? 0 : std::clamp(value, -9e18, 9e18);
      made->ints.push_back(array.real() ? static_cast<int64_t>(bounded) : array.ints[i]);
    }
  }
  return std::vector<ArrayPtr>{ArrayPtr(std::move(made))};
}

Folded FoldCast(const FoldContext& c) {
  const int64_t to = IntAttribute(c.node, "to", 0);
  const bool real =
      to == TensorProto::FLOAT || to == TensorProto::DOUBLE || to == TensorProto::FLOAT16;
  return CastTo(c.in(0), real                      ? Array::Kind::kReal
                         : to == TensorProto::BOOL ? Array::Kind::kBool
                                                   : Array::Kind::kInt);
}

Folded FoldCastLike(const FoldContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks an input");
  return CastTo(c.in(0), c.in(1).kind);
}

Folded FoldRange(const FoldContext& c) {
  for (size_t i = 0; i < 3; ++i) {
    if (!c.has(i) || c.in(i).count() != 1 || c.in(i).real()) {
      return absl::UnimplementedError("is taken of whole numbers only");
    }
  }
  const int64_t start = c.in(0).ints[0], limit = c.in(1).ints[0], step = c.in(2).ints[0];
  if (step < 1 || limit < start || limit > kLargestFolded || start < -kLargestFolded) {
    return absl::InvalidArgumentError("is empty, falls or is too long");
  }
  std::vector<int64_t> values;
  for (int64_t value = start; value < limit; value += step) values.push_back(value);
  const int64_t count = static_cast<int64_t>(values.size());
  return std::vector<ArrayPtr>{MakeInts({count}, std::move(values))};
}

Folded FoldTrilu(const FoldContext& c) {
  auto made = std::make_shared<Array>(c.in(0));
  const Shape& in = made->shape;
  if (in.size() < 2) return absl::InvalidArgumentError("needs two axes");
  const bool upper = IntAttribute(c.node, "upper", 1) != 0;
  const int64_t k = c.has(1) && c.in(1).count() == 1 && !c.in(1).real() ? c.in(1).ints[0] : 0;
  const int64_t columns = in.back(), rows = in[in.size() - 2];
  for (int64_t i = 0; i < made->count(); ++i) {
    const int64_t ahead = i % columns - i / columns % rows;
    if (upper ? ahead >= k : ahead <= k) continue;
    if (made->real()) made->reals[i] = 0;
    if (!made->real()) made->ints[i] = 0;
  }
  return std::vector<ArrayPtr>{ArrayPtr(std::move(made))};
}

Folded FoldNot(const FoldContext& c) {
  auto made = std::make_shared<Array>(c.in(0));
  for (int64_t& value : made->ints) value = value == 0;
  return std::vector<ArrayPtr>{ArrayPtr(std::move(made))};
}

Folded FoldUnary(const FoldContext& c, float (*op)(float)) {
  auto made = std::make_shared<Array>(c.in(0));
  for (float& value : made->reals) value = op(value);
  if (!made->real() && c.node.op_type() != "Neg") {
    return absl::UnimplementedError("is taken of real numbers only");
  }
  for (int64_t& value : made->ints) value = Wrapped(-static_cast<uint64_t>(value));
  return std::vector<ArrayPtr>{ArrayPtr(std::move(made))};
}

const std::map<std::string, Folded (*)(const FoldContext&)>& Others() {
  static const auto* const kOthers = new std::map<std::string, Folded (*)(const FoldContext&)>{
      {"Where", FoldWhere}, {"Cast", FoldCast},        {"CastLike", FoldCastLike},
      {"Range", FoldRange}, {"Trilu", FoldTrilu},      {"Mod", FoldMod},
      {"Not", FoldNot},     {"ScatterND", FoldScatter}};
  return *kOthers;
}

}  // namespace

bool FoldsElements(const NodeProto& node) {
  const std::string& op = node.op_type();
  return Binaries().count(op) > 0 || Unaries().count(op) > 0 || Others().count(op) > 0;
}

bool FoldsReduction(const NodeProto& node) { return Reductions().count(node.op_type()) > 0; }

Folded FoldElements(const FoldContext& c) {
  const std::string& op = c.node.op_type();
  if (const auto found = Binaries().find(op); found != Binaries().end()) {
    return FoldBinary(c, found->second);
  }
  if (const auto found = Unaries().find(op); found != Unaries().end()) {
    return FoldUnary(c, found->second);
  }
  return Others().at(op)(c);
}

Folded FoldReduction(const FoldContext& c) {
  const KnownReduction& op = Reductions().at(c.node.op_type());
  const Array& in = c.in(0);
  PSGD_ASSIGN_OR_RETURN(const auto given, c.Ints("axes", 1));
  PSGD_ASSIGN_OR_RETURN(const auto axes, ReducedAxes(c.node, given, in.shape.size()));
  if (axes.empty() && !in.shape.empty()) return std::vector<ArrayPtr>{c.inputs[0]};
  const bool real_only = op.each != nullptr || op.last != nullptr || op.join.ints == nullptr;
  if (in.kind == Array::Kind::kBool || (real_only && !in.real())) {
    return absl::UnimplementedError("is taken of real numbers only");
  }
  if (in.count() == 0) return absl::InvalidArgumentError("has no elements to join");
  auto made = std::make_shared<Array>();
  made->kind = in.kind;
  Shape whole = in.shape;
  for (int axis = 0; axis < static_cast<int>(in.shape.size()); ++axis) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), axis);
    if (reduced) whole[axis] = 1;
    if (!reduced || IntAttribute(c.node, "keepdims", 1) != 0) made->shape.push_back(whole[axis]);
  }
  const std::vector<int64_t> places = BroadcastSource(whole, in.shape);
  const int64_t count = ElementCount(whole);
  if (!in.real()) {
    made->ints = Joined(in.ints, places, count, op.join.ints);
    return std::vector<ArrayPtr>{ArrayPtr(std::move(made))};
  }
  std::vector<double> elements(in.reals.begin(), in.reals.end());
  for (double& element : elements) element = op.each != nullptr ? op.each(element) : element;
  const double each = static_cast<double>(in.count() / count);
  for (const double joined : Joined(elements, places, count, op.join.reals)) {
    made->reals.push_back(static_cast<float>(op.last != nullptr ? op.last(joined, each) : joined));
  }
  return std::vector<ArrayPtr>{ArrayPtr(std::move(made))};
}

}  // namespace psgd::onnx
