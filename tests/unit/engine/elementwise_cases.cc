// Ops element by element.
#include <limits>

#include "engine/ops/rules.h"
#include "tests/unit/engine/case_builder.h"

namespace psgd::testing {
namespace {

OpCase SumCase(const char* name, const Shape& x, int terms) {
  CaseBuilder b(name, 1e-6);
  std::vector<TensorId> all;
  for (int i = 0; i < terms; ++i) all.push_back(b.Input(x));
  return b.Finish(AddSum(b.graph(), "sum", all));
}

OpCase MulCase(const char* name, const Shape& x) {
  CaseBuilder b(name, 1e-6);
  const TensorId left = b.Input(x), right = b.Input(x);
  return b.Finish(AddMul(b.graph(), "mul", left, right));
}

// Random conditions are positive and negative.
OpCase SelectCase(const char* name, const Shape& x, const Select& op) {
  CaseBuilder b(name, 0);
  const TensorId condition = b.Input(x, false);
  const TensorId left = op.a ? kNoTensor : b.Input(x), right = op.b ? kNoTensor : b.Input(x);
  return b.Finish(AddSelect(b.graph(), "select", op, condition, left, right));
}

// The larger of two, in the layout of a convolution.
OpCase ConvMaximumCase() {
  CaseBuilder b("ConvMaximum", 5e-6);
  Graph* g = b.graph();
  const TensorId x = b.Check(AddConv2d(g, "conv", {{3, 1, 1}}, b.Input({2, 3, 5, 7}),
                                       b.Input({17, 3, 3, 3}), b.Input({17})));
  const TensorId y = b.Input({2, 17, 5, 7});
  const TensorId less = b.Check(AddActivation(g, "less", {Activation::Kind::kLinear, -1}, y));
  return b.Finish(AddSelect(g, "most", {}, b.Check(AddSum(g, "more", {x, less})), x, y));
}

OpCase BiasCase(const char* name, const Shape& x) {
  CaseBuilder b(name, 1e-6);
  const TensorId in = b.Input(x), bias = b.Input({x[1]});
  return b.Finish(AddBias(b.graph(), "bias", in, bias));
}

OpCase ActivationCase(const char* name, Shape x, const Activation& op) {
  return UnaryCase(
      name, std::move(x), [=](Graph* g, TensorId in) { return AddActivation(g, "act", op, in); },
      2e-6);
}
OpCase ActivationCase(const char* name, Shape x, Activation::Kind kind) {
  return ActivationCase(name, std::move(x), Activation{.kind = kind, .alpha = 0.2f});
}

// An activation of positive numbers.
OpCase PositiveCase(const char* name, Shape x, const Activation& op) {
  return UnaryCase(
      name, std::move(x),
      [=](Graph* g, TensorId in) -> absl::StatusOr<TensorId> {
        const auto y = AddActivation(g, "exp", {.kind = Activation::Kind::kExp}, in);
        return y.ok() ? AddActivation(g, "act", op, *y) : y;
      },
      4e-6);
}

// An activation that overwrites its input, in the layout of a convolution.
OpCase ConvActivationCase(const char* name, const Activation& op) {
  CaseBuilder b(name, 5e-6);
  const TensorId y = b.Check(AddConv2d(b.graph(), "conv", {{3, 1, 1}}, b.Input({2, 3, 5, 7}),
                                       b.Input({17, 3, 3, 3}), b.Input({17})));
  return b.Finish(AddActivation(b.graph(), "act", op, y));
}

// The bound is 0, because the op computes nothing.
OpCase KeepLargestCase(const char* name, const Shape& x, int64_t count) {
  CaseBuilder b(name, 0);
  const TensorId in = b.Input(x, false), y = b.graph()->AddTensor("kept", x);
  b.graph()->AddNode("keep", KeepLargest{count}, {in}, {y});
  return b.Finish(y);
}

}  // namespace

void AddElementwiseCases(std::vector<OpCase>* cases) {
  using Kind = Activation::Kind;
  cases->push_back(UnaryCase("ReluImages", {2, 5, 3, 7},
                             [](Graph* g, TensorId x) { return AddRelu(g, "relu", x); }));
  cases->push_back(
      UnaryCase("ReluRows", {3, 17}, [](Graph* g, TensorId x) { return AddRelu(g, "relu", x); }));
  // A pack more than a block's packs, and an element more than that.
  cases->push_back(UnaryCase("ReluLongRow", {1, 2057},
                             [](Graph* g, TensorId x) { return AddRelu(g, "relu", x); }));
  cases->push_back(UnaryCase("Dropout", {7, 13}, [](Graph* g, TensorId x) {
    return AddDropout(g, "dropout", {.rate = 0.3f, .layer = 2}, x);
  }));
  cases->push_back(UnaryCase("DropoutImages", {2, 3, 5, 7}, [](Graph* g, TensorId x) {
    return AddDropout(g, "dropout", {.rate = 0.5f}, x);
  }));
  cases->push_back(UnaryCase("ReluOfReshape", {2, 3, 5, 7}, [](Graph* g, TensorId x) {
    const auto flat = AddReshape(g, "flatten", x, {2, 105});
    return flat.ok() ? AddRelu(g, "relu", *flat) : flat;
  }));
  cases->push_back(UnaryCase("SumOfItself", {3, 7}, [](Graph* g, TensorId x) {
    return AddSum(g, "sum", {x, x});
  }));
  cases->push_back(SumCase("SumOfTwo", {2, 3, 5, 7}, 2));
  cases->push_back(SumCase("SumOfThree", {1, 1}, 3));
  cases->push_back(
      UnaryCase("Square", {2, 3, 5}, [](Graph* g, TensorId x) { return AddMul(g, "mul", x, x); }));
  cases->push_back(MulCase("MulImages", {2, 3, 5, 7}));
  cases->push_back(MulCase("MulRows", {3, 17}));
  cases->push_back(MulCase("MulOfOne", {1}));
  cases->push_back(MulCase("MulPacks", {2, 16, 3, 5}));
  cases->push_back(SelectCase("SelectImages", {2, 3, 5, 7}, {}));
  cases->push_back(SelectCase("SelectRows", {3, 17}, {}));
  cases->push_back(SelectCase("SelectNumberOr", {2, 16, 3, 5}, {.a = -0.5f}));
  cases->push_back(SelectCase("SelectOrNumber", {2, 7, 13}, {.b = 0.25f}));
  cases->push_back(SelectCase("SelectOneOfTwoNumbers", {3, 17}, {.a = 1.0f, .b = -1.0f}));
  cases->push_back(ConvMaximumCase());
  cases->push_back(BiasCase("BiasImages", {2, 17, 3, 5}));
  cases->push_back(BiasCase("BiasRows", {3, 7}));
  cases->push_back(BiasCase("BiasPacks", {2, 16, 4, 4}));
  cases->push_back(BiasCase("BiasOfOne", {1, 1, 1, 1}));
  cases->push_back(ActivationCase("LeakyRelu", {2, 3, 5, 7}, Kind::kLeakyRelu));
  cases->push_back(ActivationCase("Sigmoid", {2, 17, 3, 5}, Kind::kSigmoid));
  cases->push_back(ActivationCase("SigmoidRows", {3, 17}, Kind::kSigmoid));
  cases->push_back(ActivationCase("Tanh", {2, 3, 5, 7}, Kind::kTanh));
  cases->push_back(ActivationCase("TanhOfOne", {1}, Kind::kTanh));
  cases->push_back(ActivationCase("Gelu", {2, 3, 5, 7}, Kind::kGelu));
  cases->push_back(ActivationCase("GeluSequence", {2, 7, 13}, Kind::kGelu));
  cases->push_back(ActivationCase("Elu", {2, 3, 5, 7}, {Kind::kElu, 0.7f, 1}));
  cases->push_back(ActivationCase("Selu", {3, 17}, {Kind::kElu, 1.67326319f, 1.05070102f}));
  cases->push_back(ActivationCase("HardSigmoid", {2, 3, 5, 7}, {Kind::kHardSigmoid, 0.8f, 0.5f}));
  cases->push_back(ActivationCase("HardSwish", {2, 17, 3, 5}, {Kind::kHardSwish, 0.8f, 0.5f}));
  cases->push_back(ActivationCase("Silu", {2, 17, 3, 5}, Kind::kSilu));
  cases->push_back(ActivationCase("Softplus", {2, 7, 13}, Kind::kSoftplus));
  cases->push_back(ActivationCase("Mish", {2, 3, 5, 7}, Kind::kMish));
  cases->push_back(ActivationCase("Clip", {2, 17, 3, 5}, {Kind::kClip, -0.31f, 0.42f}));
  cases->push_back(ActivationCase("ClipBelow", {3, 17},
                                  {Kind::kClip, -0.31f, std::numeric_limits<float>::infinity()}));
  cases->push_back(ActivationCase("Linear", {2, 17, 3, 5}, {Kind::kLinear, -1.5f, 0.25f}));
  cases->push_back(ActivationCase("Cube", {3, 17}, {Kind::kPower, 3}));
  cases->push_back(ActivationCase("Exp", {1}, Kind::kExp));
  cases->push_back(ActivationCase("Sin", {2, 3, 5, 7}, Kind::kSin));
  cases->push_back(ActivationCase("Cos", {3, 17}, Kind::kCos));
  cases->push_back(ActivationCase("Absolute", {2, 3, 5, 7}, Kind::kAbsolute));
  cases->push_back(ActivationCase("Step", {2, 3, 5, 7}, Kind::kStep));
  cases->push_back(PositiveCase("Root", {2, 3, 5, 7}, {Kind::kPower, 0.5f}));
  cases->push_back(PositiveCase("Reciprocal", {3, 17}, {Kind::kPower, -1}));
  cases->push_back(PositiveCase("Log", {2, 3, 5, 7}, {Kind::kLog}));
  cases->push_back(ConvActivationCase("ConvClip", {Kind::kClip, -1.2f, 1.4f}));
  cases->push_back(ConvActivationCase("ConvMish", {Kind::kMish}));
  cases->push_back(ConvActivationCase("ConvLeakyRelu", {Kind::kLeakyRelu}));
  cases->push_back(ConvActivationCase("ConvSigmoid", {Kind::kSigmoid}));
  cases->push_back(ConvActivationCase("ConvTanh", {Kind::kTanh}));
  cases->push_back(ConvActivationCase("ConvGelu", {Kind::kGelu}));
  cases->push_back(KeepLargestCase("KeepLargest", {7, 33}, 5));
  cases->push_back(KeepLargestCase("KeepLargestOfTwo", {1, 2}, 1));
  cases->push_back(KeepLargestCase("KeepLargestButOne", {3, 257}, 256));
  cases->push_back(KeepLargestCase("KeepLargestOfLongRows", {2, 4099}, 409));
}

}  // namespace psgd::testing
