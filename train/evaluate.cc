#include "train/evaluate.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/clock.h"
#include "train/area_under_curve.h"
#include "train/ranking.h"
#include "train/target_measures.h"

namespace psgd {

namespace {

// The logit of class 1 minus that of class 0, for sample i of the last batch.
float ScoreOfSample(const Replicas& network, size_t i) {
  const std::span<const float> logits = network.logits();
  const size_t classes = logits.size() / static_cast<size_t>(network.batch());
  return logits[i * classes + 1] - logits[i * classes];
}

// The scores of the last batch's samples. Padding is at the end.
std::vector<float> Scores(const Replicas& network, uint64_t counted) {
  std::vector<float> scores;
  for (size_t i = 0; i < counted; ++i) scores.push_back(ScoreOfSample(network, i));
  return scores;
}

// Measures what depends on the outputs for each sample. Samples with label -1 do not count.
class OutputMeasures {
 public:
  OutputMeasures(const SampleShape& shape, const Targets& targets)
      : shape_(shape), targets_(targets), ranking_(shape.group), measures_(targets) {}

  void Add(const Replicas& network, const Batch& batch, uint64_t counted) {
    if (shape_.group > 0) return ranking_.Add(Scores(network, counted));
    const size_t each = targets_.names.size();
    // Outputs of other shapes than samples x classes are not handed out.
    const bool measures = each > 0 || (HasTwoClasses() && !network.logits().empty());
    for (size_t i = 0; i < batch.labels.size() && measures; ++i) {
      if (batch.labels[i] < 0) continue;
      if (each > 0) {
        measures_.Add(network.logits().subspan(i * each, each),
                      batch.targets.subspan(i * each, each));
      } else {
        curve_.Add(ScoreOfSample(network, i), batch.labels[i] == 1);
      }
    }
  }

  void Report(EvalResult* result) const {
    ranking_.Report(result);
    measures_.Report(result);
    if (const std::optional<double> area = curve_.Value()) {
      (*result->mutable_measures())["auc"] = *area;
    }
  }

 private:
  bool HasTwoClasses() const { return shape_.classes == 2 && shape_.labels() == 1; }

  const SampleShape shape_;
  const Targets& targets_;
  Ranking ranking_;
  TargetMeasures measures_;
  AreaUnderCurve curve_;
};

bool HasPerplexity(const SampleShape& shape, ModelConfig::Loss loss) {
  return shape.IsSequence() && shape.labels() > 1 && loss == ModelConfig::CROSS_ENTROPY;
}

}  // namespace

absl::StatusOr<EvalResult> Evaluate(Replicas& network, EvaluationBatches& batches,
                                    const Targets& targets, ModelConfig::Loss loss, int threads) {
  const Time start = SteadyNow();
  Network::Result sum;
  OutputMeasures measures(batches.shape(), targets);
  PSGD_RETURN_IF_ERROR(ForEachBatch(batches, threads, [&](uint32_t, const Batch& batch) {
    PSGD_ASSIGN_OR_RETURN(const Network::Result part,
                          network.Evaluate({{batch.pixels, batch.tokens, batch.values},
                                            batch.labels,
                                            /*staged=*/false,
                                            batch.targets}));
    sum.loss_sum += part.loss_sum;
    sum.correct += part.correct;
    sum.counted += part.counted;
    measures.Add(network, batch, part.counted);
    return absl::OkStatus();
  }));
  EvalResult result;
  if (sum.counted > 0) {
    result.set_loss(sum.loss_sum / static_cast<double>(sum.counted));
    if (targets.kind == Targets::Kind::kNone) {
      result.set_accuracy(static_cast<double>(sum.correct) / static_cast<double>(sum.counted));
    }
  }
  const double perplexity = std::exp(result.loss());
  if (sum.counted > 0 && HasPerplexity(batches.shape(), loss) && std::isfinite(perplexity)) {
    (*result.mutable_measures())["perplexity"] = perplexity;
  }
  measures.Report(&result);
  result.set_samples(sum.counted);
  result.set_seconds(Seconds(SteadyNow() - start));
  return result;
}

}  // namespace psgd
