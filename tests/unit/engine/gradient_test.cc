// Compares every gradient rule with central finite differences, in double.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "engine/reference/backend.h"
#include "tests/unit/engine/graph_runner.h"
#include "tests/unit/engine/op_cases.h"

namespace psgd {
namespace {

using testing::GraphRunner;
using testing::OpCase;
using testing::RandomValues;

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-6;  // relative to 1 + |gradient|
constexpr size_t kProbes = 24;       // elements to test in each input

class GradientTest : public ::testing::TestWithParam<OpCase> {};

// The scalar to differentiate: <output, seed>, or the mean loss.
double Objective(const OpCase& test, const GraphRunner<double>& runner,
                 const std::vector<double>& seed) {
  const std::vector<double> output = runner.Get(test.output);
  if (test.seed == kNoTensor) return output[0] / output[2];
  double sum = 0;
  for (size_t i = 0; i < output.size(); ++i) sum += output[i] * seed[i];
  return sum;
}

TEST_P(GradientTest, MatchesFiniteDifferences) {
  const OpCase& test = GetParam();
  GraphRunner<double> runner(test.graph, MakeReferenceBackend<double>({}));
  uint32_t stream = 0;
  std::vector<std::vector<double>> values;
  for (const OpCase::Input& input : test.inputs) {
    values.push_back(RandomValues(test.graph, input.tensor, stream++));
    runner.Set(input.tensor, values.back());
  }
  std::vector<double> seed;
  if (test.seed != kNoTensor) {
    seed = RandomValues(test.graph, test.seed, stream);
    runner.Set(test.seed, seed);
  }
  if (test.labels != kNoTensor) {
    std::vector<double> labels(ElementCount(test.graph.shape(test.labels)));
    for (size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<double>(i % test.classes);
    }
    if (labels.size() > 2) labels[1] = -1;
    runner.Set(test.labels, labels);
  }
  runner.Run(3);
  std::vector<std::vector<double>> gradients;
  for (const OpCase::Input& input : test.inputs) {
    gradients.push_back(input.gradient == kNoTensor ? std::vector<double>()
                                                    : runner.Get(input.gradient));
  }
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    const size_t stride = std::max<size_t>(1, gradients[i].size() / kProbes);
    for (size_t k = 0; k < gradients[i].size(); k += stride) {
      std::vector<double> moved = values[i];
      moved[k] = values[i][k] + kStep;
      runner.Set(test.inputs[i].tensor, moved);
      runner.Run(3);
      const double above = Objective(test, runner, seed);
      moved[k] = values[i][k] - kStep;
      runner.Set(test.inputs[i].tensor, moved);
      runner.Run(3);
      const double below = Objective(test, runner, seed);
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradients[i][k], expected, kTolerance * (1 + std::abs(expected)))
          << "element " << k << " of input " << i;
    }
    runner.Set(test.inputs[i].tensor, values[i]);
  }
}

// Cases that are large for a backend's sake have rules that small cases have, too.
std::vector<OpCase> SmallCases() {
  constexpr int64_t kMost = 100000;
  std::vector<OpCase> cases = testing::AllOpCases();
  std::erase_if(cases, [](const OpCase& test) {
    return std::ranges::any_of(test.graph.tensors, [](const Tensor& tensor) {
      return ElementCount(tensor.shape) > kMost;
    });
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientTest, ::testing::ValuesIn(SmallCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace psgd
