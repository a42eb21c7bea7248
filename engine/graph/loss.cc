#include "engine/graph/loss.h"

#include <variant>

#include "engine/ops/rules.h"

namespace psgd {
namespace {

ElementLoss::Kind KindOf(ModelConfig::Loss loss) {
  switch (loss) {
    case ModelConfig::SIGMOID:
      return ElementLoss::Kind::kSigmoidCrossEntropy;
    case ModelConfig::SMOOTH_L1:
      return ElementLoss::Kind::kSmoothL1;
    case ModelConfig::POISSON:
      return ElementLoss::Kind::kPoisson;
    default:
      return ElementLoss::Kind::kSquaredError;
  }
}

// Channels are the second axis of images, else the last axis.
Shape PlacesOf(Shape logits) {
  logits.erase(logits.size() == 4 ? logits.begin() + 1 : logits.end() - 1);
  return logits;
}

absl::Status CheckTargets(const ModelConfig& config, const SampleShape& samples,
                          const Shape& logits) {
  if (samples.targets == 0) {
    if (config.loss() != ModelConfig::POISSON) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "model.loss is poisson, which is of counts, but the data have classes; use cross_entropy");
  }
  if (config.loss() == ModelConfig::CROSS_ENTROPY) {
    return absl::InvalidArgumentError(
        "model.loss is cross_entropy, which is of classes, but the data have real targets; use "
        "squared, smooth_l1 or poisson for numbers, and sigmoid for labels");
  }
  if (logits.size() == 2 && logits[1] == samples.targets) return absl::OkStatus();
  return InvalidArgumentError("the outputs of a batch are ", ShapeText(logits),
                              ", but a sample has ", samples.targets,
                              samples.targets == 1 ? " target" : " targets",
                              "; use a model with an output a target, as mlp");
}

}  // namespace

absl::Status AddLoss(const ModelConfig& config, const SampleShape& samples, Mode mode,
                     TensorId logits, ModelGraph* model) {
  Graph& graph = model->graph;
  const Shape outputs = graph.shape(logits);
  PSGD_RETURN_IF_ERROR(CheckTargets(config, samples, outputs));
  model->labels = graph.AddTensor(
      {.name = "labels", .shape = PlacesOf(outputs), .element = Element::kInt32, .external = true});
  if (samples.targets > 0) {
    model->targets = graph.AddTensor({.name = "targets", .shape = outputs, .external = true});
  }
  const bool one_label = !samples.IsSequence() || samples.HasOneLabel();
  if (outputs.size() == 2 && one_label) {
    model->logits = logits;
    graph.tensors[logits].external = mode == Mode::kEvaluate;
  }
  if (config.loss() != ModelConfig::CROSS_ENTROPY) {
    PSGD_ASSIGN_OR_RETURN(model->result, AddElementLoss(&graph, "loss", {KindOf(config.loss())},
                                                        logits, model->labels, model->targets));
    return absl::OkStatus();
  }
  const float smoothing = mode == Mode::kTrain ? config.label_smoothing() : 0;
  PSGD_ASSIGN_OR_RETURN(model->result, AddSoftmaxCrossEntropy(&graph, "loss",
                                                              {.label_smoothing = smoothing,
                                                               .ignored = config.ignored_label()},
                                                              logits, model->labels));
  return absl::OkStatus();
}

bool IsLoss(const Op& op) {
  return std::holds_alternative<SoftmaxCrossEntropy>(op) || std::holds_alternative<ElementLoss>(op);
}

}  // namespace psgd
