// Layers with weights, losses, and combinations of several ops.
#include <gtest/gtest.h>

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

// `op`: the convolution to transpose.
OpCase ConvTransposeCase(const char* name, Shape x, int channels, Conv2d op, Extent output_pad = 0,
                         bool bias = true) {
  CaseBuilder b(name, 2e-6);
  const TensorId in = b.Input(x);
  const Window& window = op.window;
  const TensorId weight =
      b.Input({x[1], channels / op.groups, window.kernel.height, window.kernel.width});
  const TensorId offset = bias ? b.Input({channels}) : kNoTensor;
  return b.Finish(AddConvTranspose2d(b.graph(), "up", op, output_pad, in, weight, offset));
}

// Two parameters make the filter, so the gradient of one is also read in the graph.
OpCase SharedFilterCase() {
  CaseBuilder b("ConvSharedFilter", 2e-6);
  const TensorId in = b.Input({2, 3, 7, 5}), one = b.Input({4, 3, 3, 3});
  const TensorId filter = b.Check(AddSum(b.graph(), "filter", {one, b.Input({4, 3, 3, 3})}));
  return b.Finish(AddConv2d(b.graph(), "conv", {{3, 1, 1}}, in, filter, kNoTensor));
}

OpCase DenseCase(const char* name, int batch, int inputs, int outputs, bool bias, bool relu) {
  CaseBuilder b(name, 2e-6);
  const TensorId in = b.Input({batch, inputs}), weight = b.Input({outputs, inputs});
  const TensorId offset = bias ? b.Input({outputs}) : kNoTensor;
  const auto y = AddDense(b.graph(), "dense", in, weight, offset);
  return b.Finish(relu ? AddRelu(b.graph(), "relu", b.Check(y)) : y);
}

OpCase LossCase(const char* name, const Shape& labels, int classes) {
  CaseBuilder b(name, 2e-6);
  Shape logits = labels;
  logits.insert(logits.begin() + 1, classes);
  const TensorId x = b.Input(std::move(logits));
  return b.Finish(AddSoftmaxCrossEntropy(b.graph(), "loss", {}, x, b.Labels(labels, classes)));
}

// Pools relu(conv(x)): windows contain equal values (zeros), and ops pass on each other's layouts.
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

// y = relu(bn(conv(x)) + x) + x reads one tensor in three places.
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

// Batch norm of a new input.
TensorId NormOfInput(CaseBuilder* b, const Shape& x, bool training) {
  const Shape channels = {x[1]};
  const TensorId in = b->Input(x, training);
  const BatchNormParameters p = {b->Input(channels, training), b->Input(channels, training),
                                 b->Input(channels, false), b->Positive(channels)};
  if (!training) return b->Check(AddBatchNormInference(b->graph(), "bn", {}, in, p));
  const auto made = AddBatchNorm(b->graph(), "bn", {}, in, p);
  EXPECT_TRUE(made.ok()) << made.status();
  return made->y;
}

OpCase BatchNormCase(const char* name, const Shape& x, bool training) {
  CaseBuilder b(name, 2e-5);
  return b.Finish(NormOfInput(&b, x, training));
}

// Batch norm, then what a kernel may compute with it: a sum, relu, both.
enum class Term { kNone, kInput, kNorm };
OpCase NormChainCase(const char* name, const Shape& x, bool training, Term term, bool relu) {
  CaseBuilder b(name, 2e-5);
  TensorId y = NormOfInput(&b, x, training);
  if (term != Term::kNone) {
    const TensorId other = term == Term::kInput ? b.Input(x) : NormOfInput(&b, x, training);
    y = b.Check(AddSum(b.graph(), "sum", {other, y}));
  }
  return b.Finish(relu ? AddRelu(b.graph(), "relu", y) : y);
}

// Two ops read a relu, so its gradient is a sum.
OpCase ReluOfTwoReadersCase(const char* name, const Shape& x, bool sum) {
  CaseBuilder b(name, 2e-6);
  Graph* g = b.graph();
  TensorId y = b.Input(x);
  if (sum) y = b.Check(AddSum(g, "sum", {y, b.Input(x)}));
  y = b.Check(AddRelu(g, "relu", y));
  const TensorId left = b.Check(AddMul(g, "left", y, b.Input(x)));
  const TensorId right = b.Check(AddMul(g, "right", b.Input(x), y));
  return b.Finish(AddSum(g, "both", {left, right}));
}

// As in a transformer, three dense layers read one input. The first is added to it before the
// others read it, so the gradient of the input is a sum of a residual and three products.
OpCase SumsOfProductsCase(const char* name, const Shape& x, bool bias) {
  CaseBuilder b(name, 2e-5);
  Graph* g = b.graph();
  const int64_t width = x.back(), rows = ElementCount(x) / width;
  const TensorId in =
      b.Check(AddLayerNorm(g, "norm", {}, b.Input(x), b.Input({width}), b.Input({width})));
  const auto dense = [&](const char* of) {
    const TensorId flat = b.Check(AddReshape(g, "rows", in, {rows, width}));
    const TensorId weight = b.Input({width, width}), offset = bias ? b.Input({width}) : kNoTensor;
    return b.Check(AddReshape(g, "out", b.Check(AddDense(g, of, flat, weight, offset)), x));
  };
  const TensorId first = dense("a"), second = dense("b"), third = dense("c");
  const TensorId residual = b.Check(AddSum(g, "residual", {in, first}));
  const TensorId both = b.Check(AddSum(g, "both", {second, third}));
  return b.Finish(AddMul(g, "mul", residual, both));
}

// Two layers share weights, so their gradients add up.
OpCase SharedWeightsCase() {
  CaseBuilder b("SharedWeights", 5e-6);
  const TensorId weight = b.Input({7, 7}), x = b.Input({3, 7});
  const TensorId hidden = b.Check(AddDense(b.graph(), "first", x, weight, kNoTensor));
  return b.Finish(AddDense(b.graph(), "second", hidden, weight, kNoTensor));
}

// The upward path and the skip connection of U-Net.
OpCase UpAndConcatCase() {
  CaseBuilder b("ChainConvTransposeConcatConv", 5e-6);
  Graph* g = b.graph();
  const TensorId skip = b.Input({2, 16, 6, 8});
  const TensorId up = b.Check(AddConvTranspose2d(g, "up", {{2, 2}}, 0, b.Input({2, 32, 3, 4}),
                                                 b.Input({32, 16, 2, 2}), b.Input({16})));
  const TensorId both = b.Check(AddConcat(g, "concat", {}, {skip, up}));
  return b.Finish(AddConv2d(g, "conv", {{3, 1, 1}}, both, b.Input({8, 32, 3, 3}), b.Input({8})));
}

}  // namespace

void AddLayerCases(std::vector<OpCase>* cases) {
  cases->push_back(ConvCase("Conv1x1OfOnePixel", {1, 1, 1, 1}, 1, {1}));
  cases->push_back(ConvCase("ConvPadded", {2, 3, 7, 5}, 4, {3, 1, 1}));
  cases->push_back(ConvCase("ConvFewChannels", {3, 6, 5, 9}, 9, {{3, 2}, {2, 1}, {1, 1}}));
  cases->push_back(SharedFilterCase());
  cases->push_back(ConvCase("ConvStrided", {2, 3, 11, 7}, 5, {3, 2, 1}));
  cases->push_back(ConvCase("ConvDilated", {1, 2, 9, 9}, 3, {3, 1, 2, 2}));
  cases->push_back(ConvCase("ConvUneven", {2, 2, 8, 9}, 3, {{5, 2}, {1, 2}, {2, 0}}));
  cases->push_back(ConvCase("ConvGroups", {2, 6, 5, 5}, 4, {3, 1, 1}, 2));
  cases->push_back(ConvCase("ConvDepthwise", {2, 5, 6, 6}, 5, {3, 1, 1}, 5, false));
  cases->push_back(
      ConvCase("ConvDepthwiseUneven", {2, 4, 9, 8}, 8, {{3, 2}, {2, 1}, {1, 0}, {2, 1}}, 4));
  cases->push_back(ConvCase("ConvPrimeChannels", {3, 17, 6, 7}, 19, {3, 1, 1}));
  cases->push_back(ConvCase("ConvVectorChannels", {2, 16, 8, 8}, 32, {3, 1, 1}, 1, false));
  cases->push_back(ConvCase("ConvFirstLayer", {2, 1, 12, 12}, 20, {5}));
  cases->push_back(ConvCase("ConvRelu", {2, 3, 7, 5}, 4, {3, 1, 1}, 1, true, true));
  cases->push_back(ConvTransposeCase("ConvTransposeOfOnePixel", {1, 1, 1, 1}, 1, {{1}}));
  cases->push_back(ConvTransposeCase("ConvTranspose", {2, 16, 5, 7}, 8, {{2, 2}}));
  cases->push_back(ConvTransposeCase("ConvTransposePadded", {2, 3, 5, 4}, 7, {{3, 2, 1}}, 1));
  cases->push_back(ConvTransposeCase("ConvTransposeUneven", {1, 5, 3, 4}, 2,
                                     {{{4, 3}, {3, 2}, {1, 0}}}, {2, 0}, false));
  cases->push_back(ConvTransposeCase("ConvTransposeGroups", {2, 6, 4, 5}, 4, {{3, 2, 1, 2}, 2}));
  cases->push_back(DenseCase("DenseOfOne", 1, 1, 1, true, false));
  cases->push_back(DenseCase("DensePrimes", 7, 13, 5, true, false));
  cases->push_back(DenseCase("DenseRelu", 3, 33, 31, true, true));
  cases->push_back(DenseCase("DenseNoBias", 4, 64, 16, false, false));
  cases->push_back(BatchNormCase("BatchNorm", {3, 4, 5, 3}, true));
  cases->push_back(BatchNormCase("BatchNormOneChannel", {2, 1, 1, 1}, true));
  cases->push_back(BatchNormCase("BatchNormPrimes", {5, 17, 3, 7}, true));
  cases->push_back(BatchNormCase("BatchNormVectorChannels", {4, 16, 12, 12}, true));
  cases->push_back(BatchNormCase("BatchNormInference", {2, 17, 3, 5}, false));
  cases->push_back(LossCase("SoftmaxCrossEntropy", {7}, 10));
  cases->push_back(LossCase("SoftmaxCrossEntropyOneClass", {2}, 1));
  cases->push_back(LossCase("SoftmaxCrossEntropyOfPixels", {2, 3, 5}, 7));
  cases->push_back(LossCase("SoftmaxCrossEntropyOfOnePixel", {3, 1, 1}, 2));
  cases->push_back(LossCase("SoftmaxCrossEntropyVectorClasses", {3, 2, 2}, 40));
  cases->push_back(LossCase("SoftmaxCrossEntropyManyClasses", {3}, 2051));
  cases->push_back(ChainCase());
  cases->push_back(ResidualCase());
  cases->push_back(NormChainCase("BatchNormRelu", {3, 5, 3, 7}, true, Term::kNone, true));
  cases->push_back(NormChainCase("BatchNormReluVector", {2, 16, 5, 3}, true, Term::kNone, true));
  cases->push_back(NormChainCase("BatchNormSum", {2, 17, 3, 5}, true, Term::kInput, false));
  cases->push_back(NormChainCase("BatchNormSumRelu", {2, 17, 3, 5}, true, Term::kInput, true));
  cases->push_back(NormChainCase("BatchNormSumReluVector", {2, 8, 5, 3}, true, Term::kInput, true));
  cases->push_back(
      NormChainCase("BatchNormInferenceRelu", {2, 16, 3, 5}, false, Term::kNone, true));
  cases->push_back(
      NormChainCase("BatchNormInferenceSumRelu", {2, 5, 7, 3}, false, Term::kInput, true));
  cases->push_back(NormChainCase("BatchNormsSumRelu", {2, 5, 7, 3}, true, Term::kNorm, true));
  cases->push_back(NormChainCase("BatchNormsSumReluVector", {2, 8, 3, 5}, true, Term::kNorm, true));
  cases->push_back(
      NormChainCase("BatchNormsInferenceSum", {2, 8, 3, 5}, false, Term::kNorm, false));
  cases->push_back(ReluOfTwoReadersCase("ReluOfTwoReaders", {2, 5, 3, 7}, false));
  cases->push_back(ReluOfTwoReadersCase("SumReluOfTwoReaders", {2, 16, 3, 3}, true));
  cases->push_back(ReluOfTwoReadersCase("SumReluOfTwoReadersRows", {3, 17}, true));
  cases->push_back(SharedWeightsCase());
  cases->push_back(SumsOfProductsCase("ProductsAdded", {2, 3, 16}, true));
  cases->push_back(SumsOfProductsCase("ProductsAddedUneven", {5, 13}, true));
  cases->push_back(SumsOfProductsCase("ProductsAddedNoBias", {3, 2, 2, 7}, false));
  cases->push_back(UpAndConcatCase());
}

}  // namespace psgd::testing
