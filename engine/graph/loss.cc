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
    default:
      return ElementLoss::Kind::kSquaredError;
  }
}

}  // namespace

absl::StatusOr<TensorId> AddLoss(Graph* graph, const ModelConfig& config, Mode mode,
                                 TensorId logits, TensorId labels) {
  if (config.loss() != ModelConfig::CROSS_ENTROPY) {
    return AddElementLoss(graph, "loss", {KindOf(config.loss())}, logits, labels);
  }
  const float smoothing = mode == Mode::kTrain ? config.label_smoothing() : 0;
  return AddSoftmaxCrossEntropy(graph, "loss",
                                {.label_smoothing = smoothing, .ignored = config.ignored_label()},
                                logits, labels);
}

bool IsLoss(const Op& op) {
  return std::holds_alternative<SoftmaxCrossEntropy>(op) || std::holds_alternative<ElementLoss>(op);
}

}  // namespace psgd
