// Makes the cases of the op suite.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/differentiate.h"
#include "tests/unit/engine/op_cases.h"

namespace psgd::testing {

// Makes one case: inputs, ops, then the reverse pass.
class CaseBuilder {
 public:
  CaseBuilder(std::string name, double bound) {
    case_.name = std::move(name);
    case_.bound = bound;
  }

  TensorId Input(Shape shape, bool wants_gradient = true) {
    const TensorId tensor = graph()->AddTensor({.name = "input",
                                                .shape = std::move(shape),
                                                .wants_gradient = wants_gradient,
                                                .external = true});
    case_.inputs.push_back({tensor});
    return tensor;
  }
  // A statistic whose values must be positive, as a variance's.
  TensorId Positive(Shape shape) {
    const TensorId tensor = Input(std::move(shape), false);
    graph()->tensors[tensor].name = "positive";
    return tensor;
  }
  // Whole numbers from 0 to kIndexLimit - 1.
  TensorId Indices(Shape shape) {
    const TensorId tensor = Input(std::move(shape), false);
    graph()->tensors[tensor].element = Element::kInt32;
    return tensor;
  }
  TensorId Labels(Shape shape, int classes) {
    case_.labels = graph()->AddTensor({.name = "labels",
                                       .shape = std::move(shape),
                                       .element = Element::kInt32,
                                       .external = true});
    case_.classes = classes;
    return case_.labels;
  }
  Graph* graph() { return &case_.graph; }

  TensorId Check(const absl::StatusOr<TensorId>& made) {
    EXPECT_TRUE(made.ok()) << case_.name << ": " << made.status();
    return made.value_or(kNoTensor);
  }

  OpCase Finish(const absl::StatusOr<TensorId>& output) {
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

 private:
  OpCase case_;
};

// The cases of one theme, appended.
void AddSequenceCases(std::vector<OpCase>* cases);

}  // namespace psgd::testing
