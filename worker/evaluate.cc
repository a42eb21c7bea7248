#include "worker/evaluate.h"

#include "common/clock.h"

namespace psgd {

InputShape InputShapeOf(const SampleShape& shape) {
  return {.channels = shape.channels,
          .height = shape.height,
          .width = shape.width,
          .classes = shape.classes,
          .length = shape.length,
          .entries = shape.entries,
          .vocabulary = shape.vocabulary};
}

absl::StatusOr<EvalResult> Evaluate(Network& network, EvaluationBatches& batches) {
  const Time start = SteadyNow();
  Network::Result sum;
  for (uint32_t i = 0; i < batches.size(); ++i) {
    PSGD_ASSIGN_OR_RETURN(const Batch batch, batches.Read(i));
    PSGD_ASSIGN_OR_RETURN(const Network::Result part,
                          network.Evaluate({batch.pixels, batch.tokens, batch.values}, batch.labels));
    sum.loss_sum += part.loss_sum;
    sum.correct += part.correct;
    sum.counted += part.counted;
  }
  EvalResult result;
  if (sum.counted > 0) {
    result.set_loss(sum.loss_sum / static_cast<double>(sum.counted));
    result.set_accuracy(static_cast<double>(sum.correct) / static_cast<double>(sum.counted));
  }
  result.set_samples(sum.counted);
  result.set_seconds(Seconds(SteadyNow() - start));
  return result;
}

}  // namespace psgd
