#include "engine/runtime/factors.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/runtime/memory_report.h"
#include "engine/runtime/replicas.h"
#include "tests/unit/engine/factors_check.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using testing::ExpectSameGradients;
using ::testing::HasSubstr;
using testing::MakeNetwork;
using testing::MakeProblem;
using testing::MakeTokenProblem;
using testing::Problem;
using testing::SequenceModel;
using testing::ZooModel;

constexpr float kBound = 1e-5f;

bool All(const std::string&, const Shape&, int64_t) { return true; }

NetworkOptions Factored(const ChooseFactors& choose = All) {
  NetworkOptions options = testing::kReference;
  options.factors = choose;
  return options;
}

TEST(Factors, TheirProductIsTheGradient) {
  const Problem problem = MakeProblem();
  std::map<std::string, int64_t> asked;
  const auto factored =
      MakeNetwork(ZooModel("mlp", 0.25f), problem,
                  Factored([&](const std::string& name, const Shape& weights, int64_t rows) {
                    EXPECT_EQ(weights.size(), 2u);
                    asked[name] = rows;
                    return true;
                  }));
  const auto plain = MakeNetwork(ZooModel("mlp", 0.25f), problem, testing::kReference);
  std::vector<int> order;
  ASSERT_TRUE(factored
                  ->TrainStep(problem.input(), problem.labels, 3,
                              [&](int parameter) { order.push_back(parameter); })
                  .ok());
  ASSERT_TRUE(plain->TrainStep(problem.input(), problem.labels, 3, nullptr).ok());
  EXPECT_EQ(ExpectSameGradients(*factored, *plain, kBound), 2);
  EXPECT_EQ(order, (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(asked, (std::map<std::string, int64_t>{{"fc1.weight", 12}, {"fc2.weight", 12}}));
  EXPECT_EQ(factored->factor_rows(0), 12);
  EXPECT_EQ(factored->factor_rows(1), 0);
}

TEST(Factors, OnlyWhatIsChosenIsHandedOut) {
  const Problem problem = MakeProblem();
  const auto network = MakeNetwork(ZooModel("cnn"), problem,
                                   Factored([](const std::string& name, const Shape&, int64_t) {
                                     return name == "fc1.weight";
                                   }));
  const auto plain = MakeNetwork(ZooModel("cnn"), problem, testing::kReference);
  ASSERT_TRUE(network->TrainStep(problem.input(), problem.labels, 0, nullptr).ok());
  ASSERT_TRUE(plain->TrainStep(problem.input(), problem.labels, 0, nullptr).ok());
  EXPECT_EQ(ExpectSameGradients(*network, *plain, kBound), 1);
}

// In a text model the rows of factors are tokens. A table that is also the weights of the last
// layer does not qualify, because its gradient has two parts.
TEST(Factors, OfSequencesAndNotOfWeightsThatAreUsedTwice) {
  const Problem problem = MakeTokenProblem();
  for (int recompute : {0, 2}) {
    ModelConfig model = SequenceModel("gpt");
    model.set_recompute(recompute);
    std::set<std::string> asked;
    const auto factored = MakeNetwork(
        model, problem, Factored([&](const std::string& name, const Shape&, int64_t rows) {
          EXPECT_EQ(rows, 3 * 7);
          return asked.insert(name).second;
        }));
    const auto plain = MakeNetwork(model, problem, testing::kReference);
    ASSERT_TRUE(factored->TrainStep(problem.input(), problem.labels, 0, nullptr).ok());
    ASSERT_TRUE(plain->TrainStep(problem.input(), problem.labels, 0, nullptr).ok());
    EXPECT_EQ(ExpectSameGradients(*factored, *plain, 1e-4f), 12);
    EXPECT_TRUE(asked.contains("h.0.mlp.c_fc.weight"));
    EXPECT_FALSE(asked.contains("wte.weight"));
  }
}

TEST(Factors, ReplicasStackTheirRows) {
  const Problem problem = MakeProblem();
  const auto make = [&](const NetworkOptions& options) {
    auto replicas = Replicas::Create(ZooModel("mlp"), problem.shape, problem.batch,
                                     std::vector<NetworkOptions>(3, options));
    EXPECT_TRUE(replicas.ok()) << replicas.status();
    for (int i = 0; i < (*replicas)->spec().parameters_size(); ++i) {
      FillInitial((*replicas)->spec().parameters(i), 1, i, 0, (*replicas)->parameter(i));
    }
    (*replicas)->InvalidateParameters();
    return *std::move(replicas);
  };
  const auto factored = make(Factored()), plain = make(testing::kReference);
  std::vector<int32_t> labels = problem.labels;
  labels[1] = labels[2] = labels[11] = -1;  // replicas count differently
  ASSERT_TRUE(factored->TrainStep(problem.input(), labels, 0, nullptr).ok());
  ASSERT_TRUE(plain->TrainStep(problem.input(), labels, 0, nullptr).ok());
  EXPECT_EQ(factored->factor_rows(0), 12);
  EXPECT_EQ(ExpectSameGradients(*factored, *plain, kBound), 2);
}

TEST(Factors, AGroupThatAddsUpGradientsTakesNone) {
  const Problem problem = MakeProblem();
  const auto replicas =
      Replicas::Create(ZooModel("mlp"), problem.shape, problem.batch,
                       std::vector<NetworkOptions>(2, Factored()), ReduceOn::kDevices);
  EXPECT_TRUE(absl::IsInvalidArgument(replicas.status())) << replicas.status();
  EXPECT_THAT(std::string(replicas.status().message()), HasSubstr("node.reduce: host"));
}

TEST(Factors, TakeLessMemoryThanGradients) {
  ModelConfig model = ZooModel("mlp");
  model.add_hidden(512);
  const SampleShape shape = {1, 28, 28, 10};
  const auto plain = PlanMemory(model, shape, 4, testing::kReference);
  const auto factored = PlanMemory(model, shape, 4, Factored());
  ASSERT_TRUE(plain.ok() && factored.ok());
  EXPECT_EQ(factored->weights, plain->weights);
  EXPECT_EQ(factored->gradients, 4u * (4 * (784 + 512 + 512 + 10) + 512 + 10));
}

}  // namespace
}  // namespace psgd
