#include "engine/graph/differentiate.h"

#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/ops/rules.h"

namespace psgd {

GradientTape::GradientTape(Graph* graph) : graph_(graph) {
  wanted_.resize(graph->tensors.size());
  contributions_.resize(graph->tensors.size());
  for (size_t i = 0; i < wanted_.size(); ++i) wanted_[i] = graph->tensors[i].wants_gradient;
  for (const Node& node : graph->nodes) {
    bool any = false;
    for (TensorId input : node.inputs) any = any || wanted_[input];
    for (TensorId output : node.outputs) wanted_[output] = wanted_[output] || any;
  }
}

TensorId GradientTape::Gradient(TensorId tensor) {
  std::vector<TensorId>& parts = contributions_[tensor];
  if (parts.empty()) return kNoTensor;
  if (parts.size() > 1) {
    const TensorId sum = NewGradient(tensor);
    graph_->AddNode(graph_->tensors[sum].name, Sum{}, parts, {sum});
    parts = {sum};
  }
  return parts.front();
}

void GradientTape::Contribute(TensorId tensor, TensorId gradient) {
  if (Wanted(tensor)) contributions_[tensor].push_back(gradient);
}

TensorId GradientTape::NewGradient(TensorId tensor) {
  return graph_->AddTensor(absl::StrCat("d(", graph_->tensors[tensor].name, ")"),
                           graph_->shape(tensor));
}

void GradientTape::AddBackward(const Node& node, Op op, std::vector<TensorId> inputs, TensorId of,
                               const char* suffix) {
  const TensorId gradient = NewGradient(of);
  graph_->AddNode(node.name + suffix, std::move(op), std::move(inputs), {gradient});
  Contribute(of, gradient);
}

void GradientTape::AddWeightsBackward(const Node& node, Op op, TensorId dy) {
  std::vector<TensorId> outputs;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    outputs.push_back(NewGradient(node.inputs[i]));
    Contribute(node.inputs[i], outputs.back());
  }
  graph_->AddNode(node.name + ".backward_weights", std::move(op), {node.inputs[0], dy},
                  std::move(outputs));
}

absl::StatusOr<std::vector<TensorId>> Differentiate(Graph* graph,
                                                    std::span<const GradientSeed> seeds) {
  GradientTape tape(graph);
  const size_t forward_tensors = graph->tensors.size();
  for (const GradientSeed& seed : seeds) tape.Contribute(seed.tensor, seed.gradient);
  for (int i = static_cast<int>(graph->nodes.size()) - 1; i >= 0; --i) {
    const Node node = graph->nodes[i];  // a copy: rules append nodes
    bool wanted = false;
    for (TensorId input : node.inputs) wanted = wanted || tape.Wanted(input);
    const bool loss = std::holds_alternative<SoftmaxCrossEntropy>(node.op) ||
                      std::holds_alternative<ElementLoss>(node.op);
    if (!wanted || (!loss && tape.Gradient(node.outputs[0]) == kNoTensor)) continue;
    std::visit([&](const auto& op) { AddGradient(op, node, &tape); }, node.op);
    PSGD_RETURN_IF_ERROR(tape.status());
  }

  std::vector<TensorId> gradients(forward_tensors, kNoTensor);
  for (size_t i = 0; i < forward_tensors; ++i) {
    if (graph->tensors[i].wants_gradient) {
      gradients[i] = tape.Gradient(static_cast<TensorId>(i));
    }
  }
  std::set<TensorId> taken;
  for (size_t i = 0; i < seeds.size(); ++i) taken.insert(seeds[i].gradient);
  for (Parameter& parameter : graph->parameters) {
    if (parameter.statistic) continue;
    TensorId gradient = gradients[parameter.value];
    if (gradient == kNoTensor) {
      return InvalidArgumentError("the loss does not depend on ",
                                  graph->tensors[parameter.value].name);
    }
    if (!taken.insert(gradient).second) {  // also another parameter's or a seed's: copy it
      const TensorId copy = tape.NewGradient(parameter.value);
      graph->AddNode(graph->tensors[copy].name, Sum{}, {gradient}, {copy});
      gradient = copy;
      taken.insert(copy);
    }
    graph->tensors[gradient].external = true;
    parameter.gradient = gradient;
    gradients[parameter.value] = gradient;
  }
  return gradients;
}

}  // namespace psgd
