#include "tests/unit/engine/op_cases.h"

#include <functional>
#include <utility>

#include <gtest/gtest.h>

#include "common/philox.h"
#include "engine/ops/rules.h"
#include "tests/unit/engine/case_builder.h"

namespace psgd::testing {
namespace {

OpCase ConvCase(const char* name, Shape x, int channels, Window window, int groups = 1,
                bool bias = true, bool relu = false) {
  CaseBuilder b(name, 2e-6);
  const TensorId in = b.Input(x);
  const TensorId weight =
      b.Input({channels, x[1] / groups, window.kernel.height, window.kernel.width});
  const TensorId offset = bias ? b.Input({channels}) : kNoTensor;
  const Conv2d op = {window, groups};
  const auto y = AddConv2d(b.graph(), "conv", op, in, weight, offset);
  return b.Finish(relu ? AddRelu(b.graph(), "relu", b.Check(y)) : y);
}

OpCase PoolCase(const char* name, Pool::Kind kind, Shape x, Window window) {
  CaseBuilder b(name, 1e-6);
  const TensorId in = b.Input(std::move(x));
  return b.Finish(AddPool(b.graph(), "pool", {kind, window}, in));
}

OpCase DenseCase(const char* name, int batch, int inputs, int outputs, bool bias, bool relu) {
  CaseBuilder b(name, 2e-6);
  const TensorId in = b.Input({batch, inputs}), weight = b.Input({outputs, inputs});
  const TensorId offset = bias ? b.Input({outputs}) : kNoTensor;
  const auto y = AddDense(b.graph(), "dense", in, weight, offset);
  return b.Finish(relu ? AddRelu(b.graph(), "relu", b.Check(y)) : y);
}

OpCase BatchNormCase(const char* name, Shape x, bool training) {
  CaseBuilder b(name, 2e-5);
  const Shape channels = {x[1]};
  const TensorId in = b.Input(x, training);
  BatchNormParameters p;
  p.gamma = b.Input(channels, training);
  p.beta = b.Input(channels, training);
  p.running_mean = b.Input(channels, false);
  p.running_var = b.Positive(channels);
  if (!training) return b.Finish(AddBatchNormInference(b.graph(), "bn", {}, in, p));
  const auto made = AddBatchNorm(b.graph(), "bn", {}, in, p);
  EXPECT_TRUE(made.ok()) << made.status();
  return b.Finish(made->y);
}

OpCase LossCase(const char* name, int batch, int classes) {
  CaseBuilder b(name, 2e-6);
  const TensorId x = b.Input({batch, classes});
  return b.Finish(AddSoftmaxCrossEntropy(b.graph(), "loss", {}, x, b.Labels({batch}, classes)));
}

OpCase UnaryCase(const char* name, Shape x,
                 const std::function<absl::StatusOr<TensorId>(Graph*, TensorId)>& op) {
  CaseBuilder b(name, 1e-6);
  const TensorId in = b.Input(std::move(x));
  return b.Finish(op(b.graph(), in));
}

OpCase SumCase(const char* name, const Shape& x, int terms) {
  CaseBuilder b(name, 1e-6);
  std::vector<TensorId> all;
  for (int i = 0; i < terms; ++i) all.push_back(b.Input(x));
  return b.Finish(AddSum(b.graph(), "sum", all));
}

// relu(conv(x)) pooled: equal values (zeros) meet in a window, and layouts change hands.
OpCase ChainCase() {
  CaseBuilder b("ChainConvReluMaxPoolFlattenDense", 5e-6);
  Graph* g = b.graph();
  TensorId x = b.Check(AddConv2d(g, "conv", {{3, 1, 1}}, b.Input({2, 3, 9, 7}),
                                 b.Input({17, 3, 3, 3}), b.Input({17})));
  x = b.Check(AddRelu(g, "relu", x));
  x = b.Check(AddPool(g, "pool", {Pool::Kind::kMax, {2, 2}}, x));
  x = b.Check(AddReshape(g, "flatten", x, {2, 17 * 4 * 3}));
  x = b.Check(AddRelu(g, "relu2", x));
  return b.Finish(AddDense(g, "dense", x, b.Input({5, 17 * 4 * 3}), b.Input({5})));
}

// y = relu(bn(conv(x)) + x) + x: one tensor read in three places.
OpCase ResidualCase() {
  CaseBuilder b("ResidualBlock", 2e-5);
  Graph* g = b.graph();
  const TensorId x = b.Input({3, 5, 6, 7});
  TensorId y = b.Check(AddConv2d(g, "conv", {{3, 1, 1}}, x, b.Input({5, 5, 3, 3}), kNoTensor));
  const BatchNormParameters p = {b.Input({5}), b.Input({5}), b.Input({5}, false), b.Positive({5})};
  const auto bn = AddBatchNorm(g, "bn", {}, y, p);
  EXPECT_TRUE(bn.ok()) << bn.status();
  y = b.Check(AddRelu(g, "relu", b.Check(AddSum(g, "sum", {bn->y, x}))));
  return b.Finish(AddSum(g, "sum2", {y, x}));
}

// Weights that two layers share: their gradients add up.
OpCase SharedWeightsCase() {
  CaseBuilder b("SharedWeights", 5e-6);
  const TensorId weight = b.Input({7, 7}), x = b.Input({3, 7});
  const TensorId hidden = b.Check(AddDense(b.graph(), "first", x, weight, kNoTensor));
  return b.Finish(AddDense(b.graph(), "second", hidden, weight, kNoTensor));
}

}  // namespace

std::vector<OpCase> AllOpCases() {
  constexpr auto kMax = Pool::Kind::kMax, kAverage = Pool::Kind::kAverage;
  std::vector<OpCase> cases;
  cases.push_back(ConvCase("Conv1x1OfOnePixel", {1, 1, 1, 1}, 1, {1}));
  cases.push_back(ConvCase("ConvPadded", {2, 3, 7, 5}, 4, {3, 1, 1}));
  cases.push_back(ConvCase("ConvStrided", {2, 3, 11, 7}, 5, {3, 2, 1}));
  cases.push_back(ConvCase("ConvDilated", {1, 2, 9, 9}, 3, {3, 1, 2, 2}));
  cases.push_back(ConvCase("ConvUneven", {2, 2, 8, 9}, 3, {{5, 2}, {1, 2}, {2, 0}}));
  cases.push_back(ConvCase("ConvGroups", {2, 6, 5, 5}, 4, {3, 1, 1}, 2));
  cases.push_back(ConvCase("ConvDepthwise", {2, 5, 6, 6}, 5, {3, 1, 1}, 5, false));
  cases.push_back(ConvCase("ConvPrimeChannels", {3, 17, 6, 7}, 19, {3, 1, 1}));
  cases.push_back(ConvCase("ConvVectorChannels", {2, 16, 8, 8}, 32, {3, 1, 1}, 1, false));
  cases.push_back(ConvCase("ConvFirstLayer", {2, 1, 12, 12}, 20, {5}));
  cases.push_back(ConvCase("ConvRelu", {2, 3, 7, 5}, 4, {3, 1, 1}, 1, true, true));
  cases.push_back(PoolCase("MaxPool", kMax, {2, 3, 8, 8}, {2, 2}));
  cases.push_back(PoolCase("MaxPoolOverlappingPadded", kMax, {2, 17, 7, 5}, {3, 2, 1}));
  cases.push_back(PoolCase("MaxPoolOfOnePixel", kMax, {1, 1, 1, 1}, {1}));
  cases.push_back(PoolCase("AveragePool", kAverage, {2, 3, 9, 7}, {{3, 2}, {2, 1}}));
  cases.push_back(PoolCase("AveragePoolPadded", kAverage, {1, 5, 7, 7}, {3, 2, 1}));
  cases.push_back(PoolCase("AveragePoolGlobal", kAverage, {3, 19, 5, 7}, {{5, 7}}));
  cases.push_back(DenseCase("DenseOfOne", 1, 1, 1, true, false));
  cases.push_back(DenseCase("DensePrimes", 7, 13, 5, true, false));
  cases.push_back(DenseCase("DenseRelu", 3, 33, 31, true, true));
  cases.push_back(DenseCase("DenseNoBias", 4, 64, 16, false, false));
  cases.push_back(UnaryCase("ReluImages", {2, 5, 3, 7},
                            [](Graph* g, TensorId x) { return AddRelu(g, "relu", x); }));
  cases.push_back(
      UnaryCase("ReluRows", {3, 17}, [](Graph* g, TensorId x) { return AddRelu(g, "relu", x); }));
  cases.push_back(BatchNormCase("BatchNorm", {3, 4, 5, 3}, true));
  cases.push_back(BatchNormCase("BatchNormOneChannel", {2, 1, 1, 1}, true));
  cases.push_back(BatchNormCase("BatchNormPrimes", {5, 17, 3, 7}, true));
  cases.push_back(BatchNormCase("BatchNormInference", {2, 17, 3, 5}, false));
  cases.push_back(UnaryCase("Dropout", {7, 13}, [](Graph* g, TensorId x) {
    return AddDropout(g, "dropout", {.rate = 0.3f, .layer = 2}, x);
  }));
  cases.push_back(UnaryCase("DropoutImages", {2, 3, 5, 7}, [](Graph* g, TensorId x) {
    return AddDropout(g, "dropout", {.rate = 0.5f}, x);
  }));
  cases.push_back(UnaryCase("Reshape", {2, 3, 5, 7}, [](Graph* g, TensorId x) {
    return AddReshape(g, "flatten", x, {2, 105});
  }));
  cases.push_back(UnaryCase("ReluOfReshape", {2, 3, 5, 7}, [](Graph* g, TensorId x) {
    const auto flat = AddReshape(g, "flatten", x, {2, 105});
    return flat.ok() ? AddRelu(g, "relu", *flat) : flat;
  }));
  cases.push_back(UnaryCase("SumOfItself", {3, 7}, [](Graph* g, TensorId x) {
    return AddSum(g, "sum", {x, x});
  }));
  cases.push_back(SumCase("SumOfTwo", {2, 3, 5, 7}, 2));
  cases.push_back(SumCase("SumOfThree", {1, 1}, 3));
  cases.push_back(LossCase("SoftmaxCrossEntropy", 7, 10));
  cases.push_back(LossCase("SoftmaxCrossEntropyOneClass", 2, 1));
  cases.push_back(ChainCase());
  cases.push_back(ResidualCase());
  cases.push_back(SharedWeightsCase());
  AddSequenceCases(&cases);
  return cases;
}

std::vector<double> RandomValues(const Graph& graph, TensorId tensor, uint32_t stream) {
  RandomStream random(MakeKey(7, RandomPurpose::kSynthetic), stream);
  std::vector<double> values(ElementCount(graph.shape(tensor)));
  const bool positive = graph.tensors[tensor].name == "positive";
  for (double& value : values) {
    if (graph.tensors[tensor].element == Element::kInt32) {
      value = random.NextBelow(kIndexLimit);
      continue;
    }
    value = 2.0f * random.NextUnit() - 1.0f;
    if (positive) value = 1.5 + value;
  }
  return values;
}

}  // namespace psgd::testing
