// Which matrices of attention the cuDNN backend computes in part.
#include "engine/cudnn/staircase.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/rules.h"
#include "tests/unit/engine/growing_graph.h"

namespace psgd::cudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class StaircaseTest : public testing::GrowingGraph {
 protected:
  TensorId Scores(int64_t queries, int64_t keys) {
    return AddMatMul(&graph_, "scores", {.transpose_b = true}, Input("q", {2, queries, 8}),
                     Input("k", {2, keys, 8}))
        .value();
  }
  TensorId Weights(TensorId scores, bool causal = true) {
    return AddSoftmax(&graph_, "weights", {.causal = causal}, scores, kNoTensor).value();
  }
  TensorId Values(TensorId weights) {
    const int64_t keys = graph_.shape(weights).back();
    return AddMatMul(&graph_, "values", {}, weights, Input("v", {2, keys, 8})).value();
  }
  std::vector<std::string> Found() const {
    std::vector<std::string> names;
    const std::vector<bool> found = FindStaircases(graph_);
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i]) names.push_back(graph_.tensors[i].name);
    }
    return names;
  }
};

TEST_F(StaircaseTest, CausalAttentionAndItsGradients) {
  Differentiate(Values(Weights(Scores(512, 512))));
  EXPECT_THAT(Found(), ElementsAre("scores", "weights", "d(weights)", "d(scores)"));
}

TEST_F(StaircaseTest, AnEvaluationHasNoGradients) {
  Values(Weights(Scores(768, 768)));
  EXPECT_THAT(Found(), ElementsAre("scores", "weights"));
}

TEST_F(StaircaseTest, WithoutTheMaskAllCounts) {
  Differentiate(Values(Weights(Scores(512, 512), false)));
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(StaircaseTest, OneBlockIsWhole) {
  Values(Weights(Scores(256, 256)));
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(StaircaseTest, BlocksAreWhole) {
  Values(Weights(Scores(500, 500)));
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(StaircaseTest, MoreKeysThanQueries) {
  Values(Weights(Scores(512, 768)));
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(StaircaseTest, AnotherReaderOfTheScores) {
  const TensorId scores = Scores(512, 512);
  Values(Weights(scores));
  ASSERT_TRUE(AddRelu(&graph_, "relu", scores).ok());
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(StaircaseTest, AnotherReaderOfTheWeights) {
  const TensorId weights = Weights(Scores(512, 512));
  Differentiate(AddSum(&graph_, "sum", {Values(weights), Values(weights)}).value());
  // Two products share the gradient of their weights: a sum, which is no product.
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(StaircaseTest, WeightsThatArePassedOn) {
  const TensorId weights = Weights(Scores(512, 512));
  Values(AddRelu(&graph_, "relu", weights).value());
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(StaircaseTest, WeightsAsTheRightFactor) {
  const TensorId weights = Weights(Scores(512, 512));
  ASSERT_TRUE(AddMatMul(&graph_, "product", {}, Input("left", {2, 8, 512}), weights).ok());
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(StaircaseTest, ResultsThatLeaveTheGraph) {
  const TensorId weights = Weights(Scores(512, 512));
  graph_.tensors[weights].external = true;
  Values(weights);
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(StaircaseTest, ScoresFromOutside) {
  Values(Weights(Input("scores", {2, 512, 512})));
  EXPECT_THAT(Found(), IsEmpty());
}

}  // namespace
}  // namespace psgd::cudnn
