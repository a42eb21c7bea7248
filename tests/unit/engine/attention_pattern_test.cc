// Which nodes of a graph the cuDNN backend computes as one attention.
#include "engine/cudnn/attention_pattern.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/ops/rules.h"
#include "tests/unit/engine/growing_graph.h"

namespace psgd::cudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class AttentionPatternTest : public testing::GrowingGraph {
 protected:
  TensorId Heads(const char* name, TensorId x) {
    return AddTranspose(&graph_, name, {{0, 2, 1, 3}}, x).value();
  }
  // An attention of inputs that are N T H D.
  TensorId FromPlaces() {
    q_ = Heads("q", Input("q_in", {2, 5, 3, 8}));
    k_ = Heads("k", Input("k_in", {2, 5, 3, 8}));
    v_ = Heads("v", Input("v_in", {2, 5, 3, 8}));
    return Attend(q_, k_, v_);
  }
  TensorId Attend(TensorId q, TensorId k, TensorId v, bool causal = true) {
    return AddAttention(&graph_, "a", {causal}, q, k, v, kNoTensor).value();
  }
  std::vector<std::string> Names(const std::vector<int>& nodes) const {
    std::vector<std::string> names;
    for (const int node : nodes) names.push_back(graph_.nodes[node].name);
    return names;
  }
  // The operands, with a mark at those that are N T H D.
  static std::vector<bool> PlacesFirst(const AttentionPattern& of) {
    std::vector<bool> first;
    for (const auto& operand : of.operands) first.push_back(operand.places_first);
    return first;
  }
  // The graph has one attention, of no known form.
  void ExpectAnother() const {
    int others = 0;
    EXPECT_THAT(FindAttentions(graph_, &others), IsEmpty());
    EXPECT_EQ(others, 1);
  }
  const std::string& NodeAt(int node) const { return graph_.nodes[node].name; }

  TensorId q_ = kNoTensor, k_ = kNoTensor, v_ = kNoTensor;
};

TEST_F(AttentionPatternTest, OfAnEvaluation) {
  Attend(Input("q", {2, 3, 5, 8}), Input("k", {2, 3, 7, 8}), Input("v", {2, 3, 7, 16}), false);
  const auto found = FindAttentions(graph_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(Names(found[0].forward), ElementsAre("a.scores", "a.weights", "a"));
  EXPECT_THAT(found[0].backward, IsEmpty());
  EXPECT_EQ(found[0].backward_at, -1);
  EXPECT_EQ(NodeAt(found[0].forward_at), "a");
  EXPECT_EQ(found[0].values, (Shape{2, 3, 7, 16}));
  EXPECT_FALSE(found[0].causal);
  EXPECT_NEAR(found[0].scale, 1 / std::sqrt(8.0), 1e-6);
}

TEST_F(AttentionPatternTest, WithGradientsAndTransposes) {
  Differentiate(Heads("y", FromPlaces()));
  const auto found = FindAttentions(graph_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(Names(found[0].forward),
              UnorderedElementsAre("q", "k", "v", "a.scores", "a.weights", "a", "y"));
  EXPECT_THAT(found[0].backward, SizeIs(5 + 4));
  EXPECT_THAT(PlacesFirst(found[0]), ::testing::Each(true));
  for (const int node : found[0].backward) {
    // The gradient of the result is there.
    if (std::holds_alternative<Transpose>(graph_.nodes[node].op)) continue;
    EXPECT_GE(node, found[0].backward_at);
  }
  EXPECT_EQ(graph_.tensors[found[0].operands[kOfKeys].tensor].name, "d(k_in)");
}

TEST_F(AttentionPatternTest, OperandsThatOthersReadStayTransposed) {
  const TensorId y = FromPlaces();
  ASSERT_TRUE(AddRelu(&graph_, "relu", k_).ok());
  graph_.tensors[v_].external = true;
  Heads("y", y);
  ASSERT_TRUE(AddRelu(&graph_, "relu2", y).ok());
  const auto found = FindAttentions(graph_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(Names(found[0].forward), UnorderedElementsAre("q", "a.scores", "a.weights", "a"));
  EXPECT_EQ(found[0].operands[kKeys].tensor, k_);
}

TEST_F(AttentionPatternTest, OneTensorIsQueriesKeysAndValues) {
  const TensorId x = Heads("x", Input("x_in", {2, 5, 3, 8}));
  Differentiate(Attend(x, x, x));
  const auto found = FindAttentions(graph_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(Names(found[0].forward), UnorderedElementsAre("x", "a.scores", "a.weights", "a"));
  EXPECT_EQ(found[0].operands[kQueries].tensor, found[0].operands[kValues].tensor);
}

// The transpose between two attentions belongs to the first.
TEST_F(AttentionPatternTest, AnAttentionOfAnAttention) {
  const TensorId y = Heads("y", FromPlaces());
  Attend(y, Input("k2", {2, 5, 3, 8}), Input("v2", {2, 5, 3, 8}));
  const auto found = FindAttentions(graph_);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].operands[kResult].tensor, y);
  EXPECT_EQ(found[1].operands[kQueries].tensor, y);
  EXPECT_FALSE(found[1].operands[kQueries].places_first);
}

TEST_F(AttentionPatternTest, WeightsThatOthersReadAreNone) {
  Attend(Input("q", {2, 3, 5, 8}), Input("k", {2, 3, 5, 8}), Input("v", {2, 3, 5, 8}));
  for (const Node& node : graph_.nodes) {
    if (node.name == "a.weights") {
      ASSERT_TRUE(AddRelu(&graph_, "relu", TensorId{node.outputs[0]}).ok());
      break;
    }
  }
  ExpectAnother();
}

TEST_F(AttentionPatternTest, MoreKeysThanCausalQueriesAreNone) {
  Attend(Input("q", {2, 3, 5, 8}), Input("k", {2, 3, 7, 8}), Input("v", {2, 3, 7, 8}));
  ExpectAnother();
}

TEST_F(AttentionPatternTest, SomeGradientsAreNone) {
  const TensorId values = graph_.AddTensor(
      {.name = "v", .shape = {2, 3, 5, 8}, .wants_gradient = false, .external = true});
  Differentiate(Attend(Input("q", {2, 3, 5, 8}), Input("k", {2, 3, 5, 8}), values));
  ExpectAnother();
}

TEST_F(AttentionPatternTest, OfSamplesWithLengths) {
  const TensorId lengths = graph_.AddTensor(
      {.name = "lengths", .shape = {2}, .element = Element::kInt32, .external = true});
  ASSERT_TRUE(AddAttention(&graph_, "a", {}, Input("q", {2, 3, 5, 8}), Input("k", {2, 3, 5, 8}),
                           Input("v", {2, 3, 5, 8}), lengths)
                  .ok());
  const auto found = FindAttentions(graph_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].lengths, lengths);
}

// The queries are the transposed keys. Only the keys' own transpose is not part of the attention.
TEST_F(AttentionPatternTest, QueriesThatComeFromTheKeys) {
  const TensorId k = Heads("k", Input("k_in", {2, 5, 5, 8}));
  Attend(Heads("q", k), k, Input("v", {2, 5, 5, 8}));
  const auto found = FindAttentions(graph_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(Names(found[0].forward), UnorderedElementsAre("q", "a.scores", "a.weights", "a"));
  EXPECT_EQ(found[0].operands[kKeys].tensor, k);
  EXPECT_EQ(found[0].operands[kQueries].tensor, k);
  EXPECT_TRUE(found[0].operands[kQueries].places_first);
}

// As torch.bmm multiplies: one sample has the heads of all.
TEST_F(AttentionPatternTest, OfThreeAxes) {
  const auto heads = [&](const char* name, TensorId x) {
    return AddTranspose(&graph_, name, {{1, 0, 2}}, x).value();
  };
  const auto attend = [&](TensorId lengths) {
    const TensorId q = heads("q", Input("q_in", {5, 6, 8})),
                   k = heads("k", Input("k_in", {7, 6, 8}));
    const TensorId scores = AddMatMul(&graph_, "scores", {.transpose_b = true}, q, k).value();
    const TensorId weights = AddSoftmax(&graph_, "weights", {}, scores, lengths).value();
    return AddMatMul(&graph_, "a", {}, weights, heads("v", Input("v_in", {7, 6, 4}))).value();
  };
  Differentiate(heads("y", attend(kNoTensor)));
  const auto found = FindAttentions(graph_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(Names(found[0].forward),
              UnorderedElementsAre("q", "k", "v", "scores", "weights", "a", "y"));
  EXPECT_THAT(found[0].backward, SizeIs(5 + 4));
  EXPECT_THAT(PlacesFirst(found[0]), ::testing::Each(true));
  EXPECT_EQ(found[0].queries, (Shape{1, 6, 5, 8}));
  EXPECT_EQ(found[0].keys, (Shape{1, 6, 7, 8}));
  EXPECT_EQ(found[0].values, (Shape{1, 6, 7, 4}));
  // Lengths would be those of heads.
  attend(graph_.AddTensor(
      {.name = "lengths", .shape = {6}, .element = Element::kInt32, .external = true}));
  EXPECT_THAT(FindAttentions(graph_), SizeIs(1));
}

TEST_F(AttentionPatternTest, OfFiveAxesIsNone) {
  const TensorId x = Input("x", {2, 3, 4, 5, 8});
  const TensorId scores = AddMatMul(&graph_, "scores", {.transpose_b = true}, x, x).value();
  const TensorId weights = AddSoftmax(&graph_, "weights", {}, scores, kNoTensor).value();
  ASSERT_TRUE(AddMatMul(&graph_, "values", {}, weights, x).ok());
  ExpectAnother();
}

}  // namespace
}  // namespace psgd::cudnn
