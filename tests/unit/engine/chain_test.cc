// Which nodes of a graph the cuDNN backend computes in one kernel.
#include "engine/cudnn/chain.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/graph/recompute.h"
#include "engine/ops/rules.h"
#include "tests/unit/engine/growing_graph.h"

namespace psgd::cudnn {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const Shape kShape = {2, 3, 4, 5};

class ChainTest : public testing::GrowingGraph {
 protected:
  TensorId Input(const char* name, Shape shape = kShape) {
    return GrowingGraph::Input(name, std::move(shape));
  }
  BatchNormParameters Parameters() {
    return {Input("gamma", {3}), Input("beta", {3}), Input("mean", {3}), Input("var", {3})};
  }
  TensorId Norm(const char* name, TensorId x) {
    return AddBatchNorm(&graph_, name, {}, x, Parameters()).value().y;
  }
  TensorId NormInference(const char* name, TensorId x) {
    return AddBatchNormInference(&graph_, name, {}, x, Parameters()).value();
  }
  TensorId Add(const char* name, std::vector<TensorId> terms) {
    return AddSum(&graph_, name, std::move(terms)).value();
  }
  TensorId Clamp(const char* name, TensorId x) { return AddRelu(&graph_, name, x).value(); }
  TensorId Product(const char* name, TensorId a, TensorId b) {
    return AddMul(&graph_, name, a, b).value();
  }
  // As wide as its input.
  TensorId Layer(const char* name, TensorId x) {
    const int64_t width = graph_.shape(x).back();
    return AddDense(&graph_, name, x, Input("w", {width, width}), Input("bias", {width})).value();
  }

  // The chains as texts, as "bn relu".
  std::vector<std::string> Chains() const {
    std::vector<std::string> texts;
    for (const Chain& chain : FindChains(graph_)) {
      std::string text;
      for (const int node : chain.nodes) {
        absl::StrAppend(&text, text.empty() ? "" : " ", graph_.nodes[node].name);
      }
      if (chain.norm >= 0) absl::StrAppend(&text, " of ", graph_.nodes[chain.norm].name);
      texts.push_back(text);
    }
    return texts;
  }
};

TEST_F(ChainTest, ANormIsClamped) {
  Clamp("relu", Norm("bn", Input("x")));
  EXPECT_THAT(Chains(), UnorderedElementsAre("bn relu"));
}

TEST_F(ChainTest, ANormIsClampedInEvaluation) {
  Clamp("relu", NormInference("bn", Input("x")));
  EXPECT_THAT(Chains(), UnorderedElementsAre("bn relu"));
}

TEST_F(ChainTest, ANormIsAddedAndClamped) {
  const TensorId x = Input("x");
  const TensorId first = Clamp("relu", Add("sum", {Norm("bn", x), x}));
  Clamp("relu2", Add("sum2", {first, NormInference("bn2", x)}));
  EXPECT_THAT(Chains(), UnorderedElementsAre("bn sum relu", "bn2 sum2 relu2"));
}

TEST_F(ChainTest, ANormIsAdded) {
  const TensorId x = Input("x");
  const TensorId sum = Add("sum", {Norm("bn", x), x});
  Product("product", Clamp("relu", sum), sum);  // reads the sum, too
  EXPECT_THAT(Chains(), UnorderedElementsAre("bn sum"));
}

TEST_F(ChainTest, AConvolutionWithABiasIsClamped) {
  const TensorId x = Input("x"), w = Input("w", {3, 3, 1, 1}), bias = Input("bias", {3});
  const auto convolve = [&](const char* name, TensorId from, TensorId added) {
    return AddConv2d(&graph_, name, {}, from, w, added).value();
  };
  const TensorId first = Clamp("relu", convolve("conv", x, bias));
  Clamp("relu2", convolve("no bias", first, kNoTensor));
  const TensorId last = convolve("conv3", first, bias);
  Product("product", Clamp("relu3", last), last);  // reads it, too
  EXPECT_THAT(Chains(), UnorderedElementsAre("conv relu"));
}

TEST_F(ChainTest, TwoNormsAreAdded) {
  const TensorId x = Input("x");
  const TensorId first = Norm("bn", x), second = NormInference("bn2", x);
  Clamp("relu", Add("sum", {second, first}));
  EXPECT_THAT(Chains(), UnorderedElementsAre("bn bn2 sum relu"));
}

TEST_F(ChainTest, OneOfTwoNormsIsAddedIfTheOtherIsRead) {
  const TensorId x = Input("x");
  const TensorId first = Norm("bn", x), second = Norm("bn2", x);
  Product("product", Clamp("relu", Add("sum", {first, second})), first);
  EXPECT_THAT(Chains(), UnorderedElementsAre("bn2 sum relu"));
}

TEST_F(ChainTest, ASumIsClamped) {
  Clamp("relu", Add("sum", {Input("a"), Input("b")}));
  const TensorId x = Input("x", {7});
  Clamp("relu2", Add("sum2", {x, x}));
  EXPECT_THAT(Chains(), UnorderedElementsAre("sum relu", "sum2 relu2"));
}

TEST_F(ChainTest, ANormWithAnotherReaderIsStored) {
  const TensorId y = Norm("bn", Input("x"));
  Product("product", Clamp("relu", y), y);
  EXPECT_THAT(Chains(), IsEmpty());
}

TEST_F(ChainTest, ANormThatIsAddedToItselfIsStored) {
  const TensorId y = Norm("bn", Input("x"));
  Clamp("relu", Add("sum", {y, y}));
  EXPECT_THAT(Chains(), UnorderedElementsAre("sum relu"));
}

TEST_F(ChainTest, WhatLeavesTheGraphIsStored) {
  const TensorId x = Input("x"), y = Norm("bn", x);
  const TensorId sum = Add("sum", {Input("a"), Input("b")});
  Clamp("relu", y);
  Clamp("relu2", sum);
  graph_.tensors[y].external = graph_.tensors[sum].external = true;
  EXPECT_THAT(Chains(), IsEmpty());
}

TEST_F(ChainTest, ALastResultMayLeaveTheGraph) {
  graph_.tensors[Clamp("relu", Norm("bn", Input("x")))].external = true;
  EXPECT_THAT(Chains(), UnorderedElementsAre("bn relu"));
}

TEST_F(ChainTest, ANormThatIsReshapedIsStored) {
  const TensorId flat = AddReshape(&graph_, "flat", Norm("bn", Input("x")), {2, 60}).value();
  Clamp("relu", flat);
  EXPECT_THAT(Chains(), IsEmpty());
}

TEST_F(ChainTest, ASumWithABroadcastTermIsNoSum) {
  const TensorId x = Norm("bn", Input("x"));
  Clamp("relu", AddBias(&graph_, "bias", x, Input("bias", {3})).value());
  EXPECT_THAT(Chains(), IsEmpty());
}

TEST_F(ChainTest, SumsOfOneOrThreeTermsAreStored) {
  const TensorId x = Input("x"), y = Norm("bn", x);
  Clamp("relu", Add("sum", {y, x, x}));
  Clamp("relu2", Add("sum2", {x}));
  EXPECT_THAT(Chains(), IsEmpty());
}

TEST_F(ChainTest, AGradientPassesReluAndNorm) {
  Differentiate(Clamp("relu", Norm("bn", Input("x"))));
  EXPECT_THAT(Chains(), UnorderedElementsAre("bn relu", "relu.backward bn.backward of bn"));
}

// The kernel would need the sum for relu's mask, and both terms get relu's gradient.
TEST_F(ChainTest, AGradientOfASumIsStored) {
  const TensorId x = Input("x");
  Differentiate(Clamp("relu", Add("sum", {Norm("bn", x), x})));
  EXPECT_THAT(Chains(), UnorderedElementsAre("bn sum relu"));
}

TEST_F(ChainTest, TwoGradientsAreAddedAndMasked) {
  const TensorId y = Clamp("relu", Input("x"));
  Differentiate(Add("sum", {Product("a", y, Input("b")), Product("c", y, Input("d"))}));
  EXPECT_THAT(Chains(), UnorderedElementsAre("d(relu) relu.backward"));
}

// The gradient of a norm behind relu saves more.
TEST_F(ChainTest, ANormTakesTheMaskFromTheSum) {
  const TensorId y = Clamp("relu", Norm("bn", Input("x")));
  Differentiate(Add("sum", {Product("a", y, Input("b")), Product("c", y, Input("d"))}));
  EXPECT_THAT(Chains(), UnorderedElementsAre("bn relu", "relu.backward bn.backward of bn"));
}

TEST_F(ChainTest, AGradientThatLeavesTheGraphIsStored) {
  Differentiate(Clamp("relu", Norm("bn", Input("x"))));
  for (const Node& node : graph_.nodes) {
    if (node.name == "relu.backward") graph_.tensors[node.outputs[0]].external = true;
  }
  EXPECT_THAT(Chains(), UnorderedElementsAre("bn relu"));
}

TEST_F(ChainTest, ALayerWithABiasIsClamped) {
  const TensorId x = Input("x", {4, 6}), w = Input("w", {6, 6});
  Clamp("relu", AddReshape(&graph_, "places", Layer("dense", x), {2, 2, 6}).value());
  Clamp("relu2", AddDense(&graph_, "dense2", x, w, kNoTensor).value());
  const TensorId twice = Layer("dense3", x);
  Product("product", Clamp("relu3", twice), twice);
  EXPECT_THAT(Chains(), UnorderedElementsAre("dense places relu"));
}

TEST_F(ChainTest, ALayerIsAddedToAResidual) {
  const TensorId x = Input("x", {4, 6});
  const TensorId sum = Add("sum", {Layer("dense", x), x});
  const TensorId places = AddReshape(&graph_, "places", Layer("dense2", sum), {2, 2, 6}).value();
  const TensorId residual = AddReshape(&graph_, "residual", sum, {2, 2, 6}).value();
  Add("sum2", {residual, AddReshape(&graph_, "rows", places, {2, 2, 6}).value()});
  EXPECT_THAT(Chains(), UnorderedElementsAre("dense sum"));  // the other residual comes too late
}

TEST_F(ChainTest, LayersAreAddedBehindReshapes) {
  const TensorId x = Input("x", {4, 6});
  std::vector<TensorId> terms;
  for (const char* name : {"a", "b", "c"}) {
    terms.push_back(AddReshape(&graph_, "out", Layer(name, x), {2, 2, 6}).value());
  }
  Add("sum", {terms[2], terms[0], terms[1]});
  EXPECT_THAT(Chains(), UnorderedElementsAre("a out b out c out sum"));
}

TEST_F(ChainTest, ALayerThatIsReadTwiceOrLeavesTheGraphIsStored) {
  const TensorId x = Input("x", {4, 6}), read = Layer("read", x), twice = Layer("twice", x);
  const TensorId left = Layer("left", x), out = Layer("out", x);
  Product("product", Add("sum", {x, read}), read);
  Add("sum2", {twice, twice});
  graph_.tensors[left].external = true;
  Add("sum3", {x, left});
  graph_.tensors[Add("sum4", {x, out})].external = true;
  EXPECT_THAT(Chains(), IsEmpty());
}

TEST_F(ChainTest, ALayerIsNotAddedToTwoOtherTerms) {
  const TensorId x = Input("x", {4, 6});
  Add("sum", {x, Layer("dense", x), Input("y", {4, 6})});
  EXPECT_THAT(Chains(), IsEmpty());
}

// The gradient of what three layers read, and a residual.
TEST_F(ChainTest, GradientsOfLayersAreAdded) {
  const TensorId x = Clamp("relu", Input("x", {4, 6}));
  const TensorId q = Layer("q", x), k = Layer("k", x), weights = Product("product", q, k);
  Differentiate(Add("sum", {weights, Layer("v", x), x}));
  EXPECT_THAT(Chains(),
              UnorderedElementsAre("v.backward_data k.backward_data q.backward_data d(relu)"));
}

// Two blocks of a residual network, each of which may be computed again.
TEST_F(ChainTest, ARecomputedBlockHasItsOwnChains) {
  TensorId x = Input("x");
  for (const char* name : {"a", "b"}) {
    const TensorId w = Input("w", {3, 3, 1, 1});
    const auto conv = [&](const char* of, TensorId from) {
      return AddConv2d(&graph_, absl::StrCat(name, of), {{1}}, from, w, kNoTensor).value();
    };
    const TensorId inner = Clamp(absl::StrCat(name, ".relu").c_str(),
                                 Norm(absl::StrCat(name, ".bn").c_str(), conv(".conv", x)));
    const TensorId last = Norm(absl::StrCat(name, ".bn2").c_str(), conv(".conv2", inner));
    x = Clamp(absl::StrCat(name, ".end").c_str(),
              Add(absl::StrCat(name, ".sum").c_str(), {last, x}));
  }
  const size_t forward = graph_.nodes.size();
  Differentiate(x);
  ASSERT_TRUE(Recompute(2, forward, &graph_).ok());
  EXPECT_THAT(Chains(), UnorderedElementsAre("a.bn a.relu", "a.bn2 a.sum a.end", "b.bn b.relu",
                                             "b.bn2 b.sum b.end", "a.bn (again) a.relu (again)",
                                             "a.relu.backward a.bn.backward of a.bn (again)",
                                             "b.relu.backward b.bn.backward of b.bn",
                                             "d(a.end) a.end.backward"));
}

}  // namespace
}  // namespace psgd::cudnn
