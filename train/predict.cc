#include "train/predict.h"

#include <algorithm>
#include <cstdint>

namespace psgd {

absl::Status Predict(Replicas& network, EvaluationBatches& batches, size_t samples, int threads,
                     const std::function<void(std::span<const float>)>& take) {
  const auto each_batch = static_cast<size_t>(network.batch());
  return ForEachBatch(batches, threads, [&](uint32_t index, const Batch& batch) -> absl::Status {
    PSGD_RETURN_IF_ERROR(network
                             .Evaluate({{batch.pixels, batch.tokens, batch.values},
                                        batch.labels,
                                        /*staged=*/false,
                                        batch.targets})
                             .status());
    const std::span<const float> outputs = network.logits();
    if (outputs.empty()) {
      return absl::UnimplementedError(
          "the network has an output for each token or pixel, and predictions are of samples; "
          "export it instead: ps-ctl export --onnx FILE");
    }
    const size_t each = outputs.size() / each_batch;
    for (size_t s = 0; s < std::min(each_batch, samples - index * each_batch); ++s) {
      take(outputs.subspan(s * each, each));
    }
    return absl::OkStatus();
  });
}

}  // namespace psgd
