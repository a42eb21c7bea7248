// Values of the ops of sequence models, computed by hand.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/differentiate.h"
#include "engine/ops/rules.h"
#include "engine/reference/backend.h"
#include "tests/unit/engine/graph_runner.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using testing::GraphRunner;
using ::testing::HasSubstr;
using ::testing::Pointwise;

double S(double x) { return 1 / (1 + std::exp(-x)); }

TensorId Given(Graph* graph, Shape shape, Element element = Element::kReal) {
  return graph->AddTensor(
      {.name = "input", .shape = std::move(shape), .element = element, .external = true});
}

// Runs two steps of one cell with one input. Every gate has its own weights.
std::vector<double> RunOneCell(Recurrent::Kind kind) {
  Graph graph;
  const Recurrent op = {kind};
  const TensorId x = Given(&graph, {1, 2, 1}), w_ih = Given(&graph, {op.gates(), 1});
  const TensorId w_hh = Given(&graph, {op.gates(), 1}), b_ih = Given(&graph, {op.gates()});
  const TensorId b_hh = Given(&graph, {op.gates()});
  const TensorId y = AddRecurrent(&graph, "rnn", op, x, {w_ih, w_hh, b_ih, b_hh}).value();
  graph.tensors[y].external = true;
  GraphRunner<double> runner(graph, MakeReferenceBackend<double>({}));
  const size_t gates = static_cast<size_t>(op.gates());
  const auto first = [&](std::vector<double> values) {
    values.resize(gates);
    return values;
  };
  runner.Set(x, {0.5, -2});
  runner.Set(w_ih, first({0.3, -0.7, 1.1, 0.9}));
  runner.Set(w_hh, first({0.8, 0.6, -0.5, 0.4}));
  runner.Set(b_ih, first({0.1, 0.2, 0.3, -0.1}));
  runner.Set(b_hh, first({-0.3, 0.15, 0.25, 0.05}));
  runner.Run();
  return runner.Get(y);
}

TEST(RecurrentTest, LstmHasPytorchsGates) {
  const double c1 = S(0.15 - 0.2) * std::tanh(0.55 + 0.55);
  const double h1 = S(0.45 - 0.05) * std::tanh(c1);
  const double i = S(-0.6 - 0.2 + 0.8 * h1), f = S(1.4 + 0.35 + 0.6 * h1);
  const double g = std::tanh(-2.2 + 0.55 - 0.5 * h1), o = S(-1.8 - 0.05 + 0.4 * h1);
  const double h2 = o * std::tanh(f * c1 + i * g);
  EXPECT_THAT(RunOneCell(Recurrent::Kind::kLstm),
              Pointwise(DoubleNear(1e-12), std::vector<double>{h1, h2}));
}

TEST(RecurrentTest, GruHasPytorchsGates) {
  const double z1 = S(-0.35 + 0.35);
  const double h1 = (1 - z1) * std::tanh(0.85 + S(0.15 - 0.2) * 0.25);
  const double r = S(-0.6 - 0.2 + 0.8 * h1), z = S(1.4 + 0.35 + 0.6 * h1);
  const double g = std::tanh(-2.2 + 0.3 + r * (0.25 - 0.5 * h1));
  const double h2 = (1 - z) * g + z * h1;
  EXPECT_THAT(RunOneCell(Recurrent::Kind::kGru),
              Pointwise(DoubleNear(1e-12), std::vector<double>{h1, h2}));
}

TEST(SoftmaxTest, MasksAreZerosAndTheRestSumsToOne) {
  Graph graph;
  const TensorId x = Given(&graph, {2, 2, 3});
  const TensorId lengths = Given(&graph, {2}, Element::kInt32);
  const TensorId y = AddSoftmax(&graph, "softmax", {2, true}, x, lengths).value();
  graph.tensors[y].external = true;
  GraphRunner<double> runner(graph, MakeReferenceBackend<double>({}));
  runner.Set(x, {1, 1, 500, 0, 0, std::log(2.0) / 2, 3, 4, 5, 6, 7, 8});
  runner.Set(lengths, {3, 0});
  runner.Run();
  EXPECT_THAT(runner.Get(y),
              Pointwise(DoubleNear(1e-12),
                        std::vector<double>{0.5, 0.5, 0, 0.25, 0.25, 0.5, 0, 0, 0, 0, 0, 0}));
}

TEST(LossTest, SmoothingSpreadsTheTargetAndIgnoredRowsDoNotCount) {
  Graph graph;
  const TensorId x = Given(&graph, {3, 2});
  const TensorId labels = Given(&graph, {3}, Element::kInt32);
  const TensorId loss =
      AddSoftmaxCrossEntropy(&graph, "loss", {.label_smoothing = 0.25f, .ignored = 1}, x, labels)
          .value();
  GraphRunner<double> runner(graph, MakeReferenceBackend<double>({}));
  runner.Set(x, {2, 1, 0, 9, 0, 9});
  runner.Set(labels, {0, 1, -1});
  runner.Run();
  const double normal = std::log(std::exp(2.0) + std::exp(1.0));
  const double expected = 0.875 * (normal - 2) + 0.125 * (normal - 1);
  EXPECT_THAT(runner.Get(loss), ElementsAre(DoubleNear(expected, 1e-12), 1, 1));
}

// The loss of three places and two classes. The last place is not counted.
std::vector<double> ElementLossOf(ElementLoss::Kind kind) {
  Graph graph;
  const TensorId x = Given(&graph, {3, 2});
  const TensorId labels = graph.AddTensor(
      {.name = "labels", .shape = {3}, .element = Element::kInt32, .external = true});
  const TensorId loss = AddElementLoss(&graph, "loss", {kind}, x, labels).value();
  GraphRunner<double> runner(graph, MakeReferenceBackend<double>({}));
  runner.Set(x, {3, 0.5, -2, -1, 9, 9});
  runner.Set(labels, {0, 0, -1});
  runner.Run();
  return runner.Get(loss);
}

TEST(LossTest, ElementsAreComparedWithOneForTheLabelsClass) {
  EXPECT_THAT(ElementLossOf(ElementLoss::Kind::kSquaredError),
              ElementsAre((4 + 0.25) / 2 + (9 + 1) / 2., 1, 2));
  EXPECT_THAT(ElementLossOf(ElementLoss::Kind::kSmoothL1),
              ElementsAre((1.5 + 0.125) / 2 + (2.5 + 0.5) / 2, 1, 2));
  const double first = -std::log(S(3)) - std::log(1 - S(0.5));
  const double second = -std::log(S(-2)) - std::log(1 - S(-1));
  EXPECT_THAT(ElementLossOf(ElementLoss::Kind::kSigmoidCrossEntropy),
              ElementsAre(DoubleNear((first + second) / 2, 1e-12), 1, 2));
}

// The loss of three samples with two targets, and its gradient. The last sample is not counted.
struct TargetLoss {
  std::vector<double> loss, gradient;
};
TargetLoss TargetLossOf(ElementLoss::Kind kind, const std::vector<double>& outputs,
                        const std::vector<double>& targets) {
  Graph graph;
  const TensorId x = Given(&graph, {3, 2}), t = Given(&graph, {3, 2});
  graph.tensors[x].wants_gradient = true;
  const TensorId labels = Given(&graph, {3}, Element::kInt32);
  const TensorId loss = AddElementLoss(&graph, "loss", {kind}, x, labels, t).value();
  const TensorId gradient = (*Differentiate(&graph))[x];
  graph.tensors[gradient].external = true;
  GraphRunner<double> runner(graph, MakeReferenceBackend<double>({}));
  runner.Set(x, outputs);
  runner.Set(t, targets);
  runner.Set(labels, {0, 0, -1});
  runner.Run();
  return {runner.Get(loss), runner.Get(gradient)};
}

// The values are PyTorch's: mse_loss, smooth_l1_loss, poisson_nll_loss and
// binary_cross_entropy_with_logits, summed over the counted samples and averaged over their
// targets.
TEST(LossTest, TargetsAreComparedOneByOneAndNoneIsCorrect) {
  using Kind = ElementLoss::Kind;
  const std::vector<double> outputs = {3, 0.5, -2, -1, 9, 9}, numbers = {1, 0.25, 0.5, -4, 1, 1};
  TargetLoss found = TargetLossOf(Kind::kSquaredError, outputs, numbers);
  EXPECT_THAT(found.loss, ElementsAre((4 + 0.0625) / 2 + (6.25 + 9) / 2, 0, 2));
  EXPECT_THAT(found.gradient, ElementsAre(1, 0.125, -1.25, 1.5, 0, 0));
  found = TargetLossOf(Kind::kSmoothL1, outputs, numbers);
  EXPECT_THAT(found.loss, ElementsAre((1.5 + 0.03125) / 2 + (2 + 2.5) / 2, 0, 2));
  EXPECT_THAT(found.gradient, ElementsAre(0.25, 0.0625, -0.25, 0.25, 0, 0));
  const std::vector<double> counts = {2, 0, 1, 5, 1, 1};
  found = TargetLossOf(Kind::kPoisson, outputs, counts);
  const double poisson =
      (std::exp(3) - 6 + std::exp(0.5)) / 2 + (std::exp(-2) + 2 + std::exp(-1) + 5) / 2;
  EXPECT_THAT(found.loss, ElementsAre(DoubleNear(poisson, 1e-12), 0, 2));
  EXPECT_THAT(found.gradient,
              Pointwise(DoubleNear(1e-12),
                        std::vector<double>{(std::exp(3) - 2) / 4, std::exp(0.5) / 4,
                                            (std::exp(-2) - 1) / 4, (std::exp(-1) - 5) / 4, 0, 0}));
  found = TargetLossOf(Kind::kSigmoidCrossEntropy, outputs, {1, 0, 0, 1, 1, 1});
  const double labels =
      -(std::log(S(3)) + std::log(1 - S(0.5)) + std::log(1 - S(-2)) + std::log(S(-1))) / 2;
  EXPECT_THAT(found.loss, ElementsAre(DoubleNear(labels, 1e-12), 0, 2));
}

TEST(LossTest, TargetsMustFitTheOutputs) {
  Graph graph;
  const TensorId x = Given(&graph, {3, 2}), t = Given(&graph, {3, 1});
  const TensorId labels = Given(&graph, {3}, Element::kInt32);
  EXPECT_THAT(AddElementLoss(&graph, "loss", {}, x, labels, t).status().ToString(),
              HasSubstr("loss: targets 3x1 do not fit outputs 3x2"));
}

TEST(SequenceShapeTest, ErrorsNameTheLayerAndTheShapes) {
  Graph graph;
  const TensorId x = Given(&graph, {2, 3, 4});
  EXPECT_THAT(AddMatMul(&graph, "mm", {}, x, x).status().ToString(),
              HasSubstr("mm: cannot multiply 2x3x4 and 2x3x4"));
  EXPECT_THAT(AddTranspose(&graph, "t", {{0, 2, 2}}, x).status().ToString(),
              HasSubstr("(0, 2, 2) is no order of the axes of 2x3x4"));
  EXPECT_THAT(AddLayerNorm(&graph, "ln", {}, x, x, x).status().ToString(),
              HasSubstr("the last axis of 2x3x4"));
  EXPECT_THAT(AddEmbedding(&graph, "wte", x, x).status().ToString(), HasSubstr("int32"));
  EXPECT_THAT(AddAttention(&graph, "attn", {}, x, x, x, kNoTensor).status().ToString(),
              HasSubstr("queries of 2x3x4"));
  EXPECT_THAT(AddRecurrent(&graph, "rnn", {}, x, {x, x, x, x}).status().ToString(),
              HasSubstr("of 4 gates do not fit 2x3x4"));
  EXPECT_FALSE(AddRowBias(&graph, "bias", x, Given(&graph, {3})).ok());
  EXPECT_FALSE(AddSoftmax(&graph, "softmax", {}, x, Given(&graph, {2})).ok());
}

TEST(SequenceNetworkTest, LossFallsAndCountsTokens) {
  const testing::Problem problem = testing::MakeTokenProblem();
  for (const char* model : {"gpt", "lstm_lm"}) {
    const auto network =
        testing::MakeNetwork(testing::SequenceModel(model), problem, testing::kReference);
    const double first = testing::Descend(network.get(), problem, 0, 1.0f);
    for (uint64_t step = 1; step < 150; ++step) {
      testing::Descend(network.get(), problem, step, 1.0f);
    }
    std::vector<int32_t> labels = problem.labels;
    labels[0] = -1;
    const auto result = network->Evaluate(problem.tokens, labels);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->counted, labels.size() - 1);
    EXPECT_LT(result->loss_sum / static_cast<double>(result->counted), 0.7 * first) << model;
  }
}

// A change of the last token must not change earlier results.
TEST(SequenceNetworkTest, NoModelSeesTheFuture) {
  const testing::Problem problem = testing::MakeTokenProblem(5, 9, 1);
  for (const char* model : {"gpt", "lstm_lm"}) {
    const auto network =
        testing::MakeNetwork(testing::SequenceModel(model), problem, testing::kReference);
    std::vector<int32_t> labels = problem.labels, tokens = problem.tokens;
    labels.back() = -1;
    const double before = network->Evaluate(tokens, labels)->loss_sum;
    tokens.back() = (tokens.back() + 3) % 9;
    EXPECT_EQ(network->Evaluate(tokens, labels)->loss_sum, before) << model;
    tokens.front() = (tokens.front() + 3) % 9;
    EXPECT_NE(network->Evaluate(tokens, labels)->loss_sum, before) << model;
  }
}

TEST(TransformerTest, LossFallsAndPaddingIsNotCounted) {
  const testing::Problem problem = testing::MakePairProblem();
  const auto network =
      testing::MakeNetwork(testing::SequenceModel("transformer"), problem, testing::kReference);
  const double first = testing::Descend(network.get(), problem, 0, 0.1f);
  for (uint64_t step = 1; step < 100; ++step) {
    testing::Descend(network.get(), problem, step, 0.1f);
  }
  const auto result = network->Evaluate(problem.tokens, problem.labels);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->counted, 5u + 1 + 2 + 3);
  EXPECT_LT(result->loss_sum / static_cast<double>(result->counted), 0.5 * first);
}

// A label depends only on the whole source and on the target before it.
TEST(TransformerTest, SeesTheSourceButNotThePaddingOrTheFuture) {
  const testing::Problem problem = testing::MakePairProblem(5, 11, 4);
  const auto network =
      testing::MakeNetwork(testing::SequenceModel("transformer"), problem, testing::kReference);
  const auto loss = [&](const std::vector<int32_t>& tokens, const std::vector<int32_t>& labels) {
    return network->Evaluate(tokens, labels)->loss_sum;
  };
  // The last sample has three source tokens, two of padding, and six target tokens.
  const size_t row = 3 * 11;
  const double before = loss(problem.tokens, problem.labels);
  const auto changed = [&](size_t place, const std::vector<int32_t>& labels) {
    std::vector<int32_t> tokens = problem.tokens;
    tokens[place] = tokens[place] == 7 ? 8 : 7;
    return loss(tokens, labels);
  };
  for (size_t place : {row, row + 1, row + 2, row + 5, row + 6, row + 7}) {
    EXPECT_NE(changed(place, problem.labels), before) << place - row;
  }
  EXPECT_EQ(changed(row + 4, problem.labels), before) << "padding of the source";
  EXPECT_EQ(changed(row + 9, problem.labels), before) << "padding of the target";
  std::vector<int32_t> labels = problem.labels;
  labels[3 * 6 + 2] = -1;
  EXPECT_EQ(changed(row + 7, labels), loss(problem.tokens, labels)) << "the future";
}

TEST(TransformerTest, MorePaddingChangesNothing) {
  const testing::Problem exact = testing::MakePairProblem(3, 11, 1);
  testing::Problem padded = exact;
  padded.shape.source = 7;
  padded.shape.length = 7 + 9;
  padded.tokens.insert(padded.tokens.begin() + 3, 4, 0);
  padded.tokens.insert(padded.tokens.end(), 5, 0);
  padded.labels.insert(padded.labels.end(), 5, -1);
  const ModelConfig model = testing::SequenceModel("transformer");
  const auto a = testing::MakeNetwork(model, exact, testing::kReference);
  const auto b = testing::MakeNetwork(model, padded, testing::kReference);
  const auto expected = a->TrainStep(exact.tokens, exact.labels, 0, nullptr);
  const auto result = b->TrainStep(padded.tokens, padded.labels, 0, nullptr);
  ASSERT_TRUE(expected.ok() && result.ok()) << result.status();
  EXPECT_NEAR(result->loss_sum, expected->loss_sum, 1e-6 * expected->loss_sum);
  for (int i = 0; i < a->spec().parameters_size(); ++i) {
    for (size_t k = 0; k < a->gradient(i).size(); ++k) {
      ASSERT_NEAR(b->gradient(i)[k], a->gradient(i)[k], 1e-5) << a->spec().parameters(i).name();
    }
  }
}

TEST(TransformerTest, ASampleOfNothingButPaddingIsHarmless) {
  testing::Problem problem = testing::MakePairProblem(5, 11, 2);
  std::fill(problem.tokens.begin() + 11, problem.tokens.end(), 0);
  std::fill(problem.labels.begin() + 6, problem.labels.end(), -1);
  const auto network =
      testing::MakeNetwork(testing::SequenceModel("transformer"), problem, testing::kReference);
  const double loss = testing::Descend(network.get(), problem, 0, 0.1f);
  EXPECT_TRUE(std::isfinite(loss));
  EXPECT_LT(testing::Descend(network.get(), problem, 1, 0.1f), loss);
}

TEST(SequenceNetworkTest, RefusesTokensThatDoNotFit) {
  const testing::Problem problem = testing::MakeTokenProblem(4, 6, 2);
  const auto network =
      testing::MakeNetwork(testing::SequenceModel("gpt"), problem, testing::kReference);
  std::vector<int32_t> tokens = problem.tokens;
  tokens[5] = 6;
  EXPECT_THAT(network->Evaluate(tokens, problem.labels).status().ToString(),
              HasSubstr("token 6 of sample 1 is not below 6"));
  tokens[5] = -1;
  EXPECT_FALSE(network->Evaluate(tokens, problem.labels).ok());
  EXPECT_THAT(network->Evaluate(std::vector<float>(8), problem.labels).status().ToString(),
              HasSubstr("a batch of 0 tokens and 8 labels; the network takes 8 and 8"));
}

TEST(SequenceNetworkTest, SmoothingIsForTrainingAlone) {
  const testing::Problem problem = testing::MakeTokenProblem();
  ModelConfig smooth = testing::SequenceModel("lstm_lm");
  smooth.set_label_smoothing(0.5);
  const auto a =
      testing::MakeNetwork(testing::SequenceModel("lstm_lm"), problem, testing::kReference);
  const auto b = testing::MakeNetwork(smooth, problem, testing::kReference);
  EXPECT_EQ(a->Evaluate(problem.tokens, problem.labels)->loss_sum,
            b->Evaluate(problem.tokens, problem.labels)->loss_sum);
  EXPECT_NE(testing::Descend(a.get(), problem, 0, 0.1f),
            testing::Descend(b.get(), problem, 0, 0.1f));
}

}  // namespace
}  // namespace psgd
