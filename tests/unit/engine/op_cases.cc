#include "tests/unit/engine/op_cases.h"

#include <bit>
#include <utility>

#include <gtest/gtest.h>

#include "common/philox.h"
#include "engine/graph/differentiate.h"
#include "tests/unit/engine/case_builder.h"

namespace psgd::testing {

CaseBuilder::CaseBuilder(std::string name, double bound) {
  case_.name = std::move(name);
  case_.bound = bound;
}

TensorId CaseBuilder::Input(Shape shape, bool wants_gradient) {
  const TensorId tensor = graph()->AddTensor({.name = "input",
                                              .shape = std::move(shape),
                                              .wants_gradient = wants_gradient,
                                              .external = true});
  case_.inputs.push_back({tensor});
  return tensor;
}

TensorId CaseBuilder::Positive(Shape shape) {
  const TensorId tensor = Input(std::move(shape), false);
  graph()->tensors[tensor].name = "positive";
  return tensor;
}

TensorId CaseBuilder::Indices(Shape shape) {
  const TensorId tensor = Input(std::move(shape), false);
  graph()->tensors[tensor].element = Element::kInt32;
  return tensor;
}

TensorId CaseBuilder::Labels(Shape shape, int classes) {
  case_.labels = graph()->AddTensor(
      {.name = "labels", .shape = std::move(shape), .element = Element::kInt32, .external = true});
  case_.classes = classes;
  return case_.labels;
}

TensorId CaseBuilder::Check(const absl::StatusOr<TensorId>& made) {
  EXPECT_TRUE(made.ok()) << case_.name << ": " << made.status();
  return made.value_or(kNoTensor);
}

OpCase CaseBuilder::Finish(const absl::StatusOr<TensorId>& output) {
  Graph& graph = case_.graph;
  case_.output = Check(output);
  graph.tensors[case_.output].external = true;
  std::vector<GradientSeed> seeds;
  if (graph.tensors[case_.output].element == Element::kReal) {
    case_.seed =
        graph.AddTensor({.name = "seed", .shape = graph.shape(case_.output), .external = true});
    seeds.push_back({case_.output, case_.seed});
  }
  const auto gradients = Differentiate(&graph, seeds);
  EXPECT_TRUE(gradients.ok()) << case_.name << ": " << gradients.status();
  for (OpCase::Input& input : case_.inputs) {
    input.gradient = (*gradients)[input.tensor];
    if (input.gradient != kNoTensor) graph.tensors[input.gradient].external = true;
  }
  return std::move(case_);
}

OpCase UnaryCase(const char* name, Shape x,
                 const std::function<absl::StatusOr<TensorId>(Graph*, TensorId)>& op,
                 double bound) {
  CaseBuilder b(name, bound);
  const TensorId in = b.Input(std::move(x));
  return b.Finish(op(b.graph(), in));
}

std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases;
  AddLayerCases(&cases);
  AddImageCases(&cases);
  AddElementwiseCases(&cases);
  AddMovingCases(&cases);
  AddSequenceCases(&cases);
  return cases;
}

std::vector<double> RandomValues(const Graph& graph, TensorId tensor, uint32_t stream, bool bf16) {
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
    if (bf16) {  // bf16 is the upper half of fp32
      value =
          std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(value)) & 0xFFFF0000u);
    }
  }
  return values;
}

}  // namespace psgd::testing
