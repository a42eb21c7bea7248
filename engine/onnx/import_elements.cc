// Activations, softmax, and casts.
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/broadcast.h"
#include "engine/onnx/fold.h"
#include "engine/onnx/fuse.h"
#include "engine/onnx/importer.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

using Act = Activation::Kind;

bool IsCausal(const Array& mask, const Shape& scores) {
  if (mask.shape.size() != 2 || scores.size() < 2 || !EndsWith(scores, mask.shape)) return false;
  const int64_t queries = mask.shape[0], keys = mask.shape[1];
  for (int64_t i = 0; i < mask.count(); ++i) {
    const bool open = i % keys <= i / keys + keys - queries;
    if (open ? mask.reals[i] != 0 : mask.reals[i] > kMasked) return false;
  }
  return true;
}

// Over the last axis.
Imported SoftmaxOf(const OpContext& c, Value x, TensorId lengths) {
  const Shape in = c.importer.ShapeOf(x);
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
  PSGD_ASSIGN_OR_RETURN(const TensorId y, AddSoftmax(c.graph(), c.name, op, scores, lengths));
  return std::vector<Value>{{.tensor = y, .outer = x.outer}};
}

// The axis of a softmax, and whether it is over the axes behind it, too.
struct SoftmaxAxis {
  int axis = 0;
  bool rest = false;
};
absl::StatusOr<SoftmaxAxis> AxisOf(const OpContext& c, size_t rank) {
  const bool old = c.importer.opset() < 13;
  PSGD_ASSIGN_OR_RETURN(const auto axes,
                        CheckedAxes({IntAttribute(c.node, "axis", old ? 1 : -1)}, rank));
  return SoftmaxAxis{axes[0], old};
}

// An axis that is not the last becomes the last for the softmax.
Imported ImportSoftmax(const OpContext& c) {
  const Shape in = c.shape(0);
  PSGD_ASSIGN_OR_RETURN(const SoftmaxAxis over, AxisOf(c, in.size()));
  const int last = static_cast<int>(in.size()) - 1;
  if (const int batch = BatchAxis(in, c.in(0).outer, c.importer.batch());
      batch == over.axis || (over.rest && batch > over.axis)) {
    return c.CombinesSamples();
  }
  if (over.axis == last) return SoftmaxOf(c, c.in(0), kNoTensor);
  Graph* g = c.graph();
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  std::vector<int> order(in.size());
  std::iota(order.begin(), order.end(), 0);
  if (over.rest) {
    const int64_t rows = ElementCount(Shape(in.begin(), in.begin() + over.axis));
    PSGD_ASSIGN_OR_RETURN(x, AddReshape(g, c.name + ".rows", x, {rows, ElementCount(in) / rows}));
  } else {
    std::swap(order[over.axis], order[last]);
    PSGD_ASSIGN_OR_RETURN(x, AddTranspose(g, c.name + ".last", {order}, x));
  }
  PSGD_ASSIGN_OR_RETURN(const std::vector<Value> made,
                        SoftmaxOf(c, {.tensor = x, .outer = c.in(0).outer}, kNoTensor));
  if (over.rest) return c.Made(AddReshape(g, c.name + ".whole", made[0].tensor, in));
  return c.Made(AddTranspose(g, c.name + ".back", {order}, made[0].tensor));
}

// A softmax with padding masks; see fuse.cc.
Imported ImportPaddedSoftmax(const OpContext& c) {
  if (!c.has(2)) return absl::InvalidArgumentError("lacks an input");
  const Shape scores = c.shape(0), tokens = c.shape(1);
  const char* const kOther = "leaves out other padding than that of a key for each token";
  if (tokens.size() != 2 || scores.size() < 3) return c.Unsupported(kOther);
  const int64_t places = IntAttribute(c.node, "places", tokens.back());
  Shape spread(scores.size(), 1);
  spread.front() = -1;
  spread.back() = places;
  PSGD_ASSIGN_OR_RETURN(auto shape, c.Ints("shape", 2));
  if (shape && !shape->empty() && shape->front() == c.importer.file_batch()) shape->front() = -1;
  if (!c.importer.IsTokens(c.in(1)) || scores.back() != places || places > tokens[1] ||
      c.in(0).outer != 1 || c.in(1).outer != 1 || !shape || *shape != spread) {
    return c.Unsupported(kOther);
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(1));
  const Lengths op = {.places = places,
                      .padding = static_cast<int32_t>(IntAttribute(c.node, "padding", 0))};
  PSGD_ASSIGN_OR_RETURN(const TensorId lengths, AddLengths(c.graph(), c.name + ".lengths", op, x));
  return SoftmaxOf(c, c.in(0), lengths);
}

// Activations that the engine has, with the standard's defaults.
struct Known {
  Act kind = Act::kSigmoid;
  float alpha = 0, beta = 0;
};
const std::map<std::string, Known>& KnownActivations() {
  static const auto* const kKnown = new std::map<std::string, Known>{
      {"LeakyRelu", {Act::kLeakyRelu, 0.01f}},
      {"Sigmoid", {Act::kSigmoid}},
      {"Tanh", {Act::kTanh}},
      {"Elu", {Act::kElu, 1, 1}},
      {"Selu", {Act::kElu, 1.67326319f, 1.05070102f}},
      {"HardSigmoid", {Act::kHardSigmoid, 0.2f, 0.5f}},
      {"HardSwish", {Act::kHardSwish, 1.0f / 6, 0.5f}},
      {"Softplus", {Act::kSoftplus}},
      {"Mish", {Act::kMish}},
      {"Sqrt", {Act::kPower, 0.5f}},
      {"Reciprocal", {Act::kPower, -1}},
      {"Exp", {Act::kExp}},
      {"Log", {Act::kLog}},
      {"Sin", {Act::kSin}},
      {"Cos", {Act::kCos}},
      {"Abs", {Act::kAbsolute}},
  };
  return *kKnown;
}

Imported ImportActivation(const OpContext& c) {
  const Known& known = KnownActivations().at(c.node.op_type());
  Activation op = {known.kind, FloatAttribute(c.node, "alpha", known.alpha), known.beta};
  op.beta = FloatAttribute(c.node, c.node.op_type() == "Selu" ? "gamma" : "beta", known.beta);
  if (op.kind == Act::kLeakyRelu && !(op.alpha >= 0)) return c.Unsupported("a negative slope");
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  return c.Made(AddActivation(c.graph(), c.name, op, x));
}

// elu of x / alpha, times alpha
Imported ImportCelu(const OpContext& c) {
  const float alpha = FloatAttribute(c.node, "alpha", 1);
  if (!(alpha > 0)) return c.Unsupported(absl::StrCat("an alpha of ", alpha, ", not above 0"));
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  if (alpha != 1) {
    PSGD_ASSIGN_OR_RETURN(x, AddActivation(c.graph(), c.name, {Act::kLinear, 1 / alpha}, x));
  }
  return c.Made(AddActivation(c.graph(), c.name, {Act::kElu, 1, alpha}, x));
}

// step(x) - step(-x)
Imported ImportSign(const OpContext& c) {
  Graph* g = c.graph();
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(const TensorId above, AddActivation(g, c.name, {Act::kStep}, x));
  PSGD_ASSIGN_OR_RETURN(TensorId below, AddActivation(g, c.name, {Act::kLinear, -1}, x));
  PSGD_ASSIGN_OR_RETURN(below, AddActivation(g, c.name, {Act::kStep}, below));
  PSGD_ASSIGN_OR_RETURN(below, AddActivation(g, c.name, {Act::kLinear, -1}, below));
  return c.Made(AddSum(g, c.name, {above, below}));
}

Imported ImportRelu(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  return c.Made(AddRelu(c.graph(), c.name, x));
}

// By tanh: x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2.
absl::StatusOr<TensorId> GeluByTanh(const OpContext& c, TensorId x) {
  Graph* g = c.graph();
  const auto linear = [&](float alpha, float beta, TensorId of) {
    return AddActivation(g, c.name, {Act::kLinear, alpha, beta}, of);
  };
  PSGD_ASSIGN_OR_RETURN(TensorId y, AddMul(g, c.name, x, x));
  PSGD_ASSIGN_OR_RETURN(y, linear(0.044715f, 1, y));
  PSGD_ASSIGN_OR_RETURN(y, AddMul(g, c.name, y, x));
  PSGD_ASSIGN_OR_RETURN(y, linear(static_cast<float>(std::sqrt(M_2_PI)), 0, y));
  PSGD_ASSIGN_OR_RETURN(y, AddActivation(g, c.name, {Act::kTanh}, y));
  PSGD_ASSIGN_OR_RETURN(y, linear(0.5f, 0.5f, y));
  return AddMul(g, c.name, y, x);
}

Imported ImportGelu(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  if (TextAttribute(c.node, "approximate", "none") == "tanh") return c.Made(GeluByTanh(c, x));
  return c.Made(AddActivation(c.graph(), c.name, {Act::kGelu}, x));
}

// The bounds are attributes before opset 11, then inputs.
Imported ImportClip(const OpContext& c) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Activation op = {Act::kClip, FloatAttribute(c.node, "min", -kInfinity),
                   FloatAttribute(c.node, "max", kInfinity)};
  for (size_t i : {1, 2}) {
    if (!c.has(i)) continue;
    if (!c.in(i).known() || c.in(i).array->reals.size() != 1) {
      return c.Unsupported("its bounds are not known numbers");
    }
    (i == 1 ? op.alpha : op.beta) = c.in(i).array->reals[0];
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  if (op.alpha == 0 && op.beta == kInfinity) return c.Made(AddRelu(c.graph(), c.name, x));
  return c.Made(AddActivation(c.graph(), c.name, op, x));
}

// relu(x) - slope relu(-x)
Imported ImportPRelu(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks a slope");
  Graph* g = c.graph();
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(TensorId slope, c.Tensor(1));
  PSGD_ASSIGN_OR_RETURN(slope, Spread(c, slope, g->shape(x)));
  PSGD_ASSIGN_OR_RETURN(const TensorId above, AddRelu(g, c.name + ".above", x));
  PSGD_ASSIGN_OR_RETURN(TensorId below, AddActivation(g, c.name, {Act::kLinear, -1}, x));
  PSGD_ASSIGN_OR_RETURN(below, AddRelu(g, c.name + ".below", below));
  PSGD_ASSIGN_OR_RETURN(below, AddMul(g, c.name + ".slope", below, slope));
  PSGD_ASSIGN_OR_RETURN(below, AddActivation(g, c.name, {Act::kLinear, -1}, below));
  return c.Made(AddSum(g, c.name, {above, below}));
}

Imported ImportSame(const OpContext& c) { return std::vector<Value>{c.in(0)}; }

// Weights are single precision, whatever type a file has.
// Truth values are numbers already.
Imported ImportCast(const OpContext& c) {
  const int64_t to = IntAttribute(c.node, "to", 0);
  const bool tokens = c.importer.IsTokens(c.in(0));
  if (to == TensorProto::BOOL && !tokens) {
    PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
    PSGD_ASSIGN_OR_RETURN(x, AddActivation(c.graph(), c.name, {Act::kAbsolute}, x));
    return c.Made(AddActivation(c.graph(), c.name, {Act::kStep}, x));
  }
  const bool same = tokens ? to == TensorProto::INT64 || to == TensorProto::INT32
                           : to == TensorProto::FLOAT || to == TensorProto::DOUBLE ||
                                 (to == TensorProto::FLOAT16 && c.in(0).outer == kNoBatch);
  if (!same) return c.Unsupported(absl::StrCat("casts to type ", to));
  return std::vector<Value>{c.in(0)};
}

// A cast to the type of another value, which is a real number unless it is known or tokens.
Imported ImportCastLike(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks an input");
  const Value &x = c.in(0), &other = c.in(1);
  if (c.importer.IsTokens(x) || c.importer.IsTokens(other) ||
      (other.array != nullptr && !other.array->real())) {
    return c.Unsupported("casts to whole numbers, or casts tokens");
  }
  if (!x.known() || x.array->real()) return std::vector<Value>{x};
  PSGD_RETURN_IF_ERROR(c.importer.Spend(x.array->count()));
  return std::vector<Value>{
      {.array = MakeReals(x.array->shape, {x.array->ints.begin(), x.array->ints.end()})}};
}

}  // namespace

void AddElementOps(OpTable* table) {
  for (const auto& [name, known] : KnownActivations()) (*table)[name] = ImportActivation;
  (*table)["Celu"] = ImportCelu;
  (*table)["Sign"] = ImportSign;
  (*table)["Relu"] = ImportRelu;
  (*table)["Gelu"] = ImportGelu;
  (*table)["Clip"] = ImportClip;
  (*table)["PRelu"] = ImportPRelu;
  (*table)["Softmax"] = ImportSoftmax;
  (*table)["PaddedSoftmax"] = ImportPaddedSoftmax;
  (*table)["Identity"] = ImportSame;
  (*table)["Cast"] = ImportCast;
  (*table)["CastLike"] = ImportCastLike;
}

}  // namespace psgd::onnx
