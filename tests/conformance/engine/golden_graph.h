// The graph of a golden network on a backend, with access to logits and gradients. T is the type of
// the backend's reals.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/graph/loss.h"
#include "engine/graph/model_spec.h"
#include "engine/reference/backend.h"
#include "engine/runtime/planned_network.h"
#include "engine/runtime/plugin.h"
#include "engine/zoo/zoo.h"
#include "tests/conformance/engine/golden_problem.h"
#include "tests/unit/engine/graph_runner.h"

namespace psgd::testing {

template <typename T>
class GoldenGraph {
 public:
  // REQUIRES: the problem outlives it.
  GoldenGraph(const GoldenProblem& problem, ModelGraph model, std::unique_ptr<Backend> backend)
      : problem_(problem),
        logits_(ShowLogits(&model.graph)),
        model_(std::move(model)),
        spec_(MakeModelSpec(problem.config.zoo(), model_.graph)),
        runner_(model_.graph, std::move(backend)) {
    const bool indices = problem.image.empty();
    runner_.Set(model_.input, indices ? InDouble(problem.tokens) : InDouble(problem.image));
    if (model_.values != kNoTensor) runner_.Set(model_.values, InDouble(problem.values));
    runner_.Set(model_.labels, InDouble(problem.labels));
  }

  const ModelSpec& spec() const { return spec_; }
  void SetValue(int i, const std::vector<double>& values) {
    runner_.Set(model_.graph.parameters[i].value, values);
  }
  void SetFirstValues() {
    for (int i = 0; i < spec_.parameters_size(); ++i) {
      SetValue(i, problem_.FirstValues(spec_.parameters(i)));
    }
  }
  void Run() { runner_.Run(); }

  std::vector<double> Logits() const { return runner_.Get(logits_); }
  double Loss() const {
    const std::vector<double> result = runner_.Get(model_.result);
    return result[0] / result[2];
  }
  std::vector<double> Gradient(int i) const {
    return runner_.Get(model_.graph.parameters[i].gradient);
  }

 private:
  template <typename U>
  static std::vector<double> InDouble(const std::vector<U>& values) {
    return {values.begin(), values.end()};
  }
  // Makes the input of the loss external.
  static TensorId ShowLogits(Graph* graph) {
    const auto loss =
        std::ranges::find_if(graph->nodes, [](const Node& node) { return IsLoss(node.op); });
    graph->tensors[loss->inputs[0]].external = true;
    return loss->inputs[0];
  }

  const GoldenProblem& problem_;
  const TensorId logits_;
  const ModelGraph model_;
  const ModelSpec spec_;
  GraphRunner<T> runner_;
};

}  // namespace psgd::testing
