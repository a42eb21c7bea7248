#include "train/evaluate.h"

#include <deque>
#include <future>
#include <map>
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/clock.h"
#include "train/ranking.h"
#include "train/target_measures.h"

namespace psgd {

InputShape InputShapeOf(const SampleShape& shape) {
  return {.channels = shape.channels,
          .height = shape.height,
          .width = shape.width,
          .classes = shape.classes,
          .length = shape.length,
          .source = shape.source,
          .entries = shape.entries,
          .vocabulary = shape.vocabulary,
          .targets = shape.targets};
}

namespace {

// Of the last batch's first `counted` samples: the logit of class 1 against that of class 0.
// Padding is at the end.
std::vector<float> Scores(const Replicas& network, uint64_t counted) {
  const std::span<const float> logits = network.logits();
  const size_t classes = logits.size() / static_cast<size_t>(network.batch());
  std::vector<float> scores;
  for (size_t i = 0; i < counted; ++i) {
    scores.push_back(logits[i * classes + 1] - logits[i * classes]);
  }
  return scores;
}

}  // namespace

absl::StatusOr<EvalResult> Evaluate(Replicas& network, EvaluationBatches& batches,
                                    const Targets& targets, int threads) {
  const Time start = SteadyNow();
  Network::Result sum;
  Ranking ranking(batches.group());
  TargetMeasures measures(targets);
  // A thread each, which is waited for where its batch is not taken.
  std::deque<std::future<absl::StatusOr<Batch>>> ahead;
  uint32_t asked = 0;
  for (uint32_t i = 0; i < batches.size(); ++i) {
    while (asked < batches.size() && ahead.size() <= static_cast<size_t>(threads)) {
      ahead.push_back(
          std::async(std::launch::async, [&batches, n = asked++] { return batches.Read(n); }));
    }
    PSGD_ASSIGN_OR_RETURN(const Batch batch, ahead.front().get());
    ahead.pop_front();
    PSGD_ASSIGN_OR_RETURN(const Network::Result part,
                          network.Evaluate({{batch.pixels, batch.tokens, batch.values},
                                            batch.labels,
                                            /*staged=*/false,
                                            batch.targets}));
    sum.loss_sum += part.loss_sum;
    sum.correct += part.correct;
    sum.counted += part.counted;
    if (batches.group() > 0) ranking.Add(Scores(network, part.counted));
    if (targets.kind != Targets::Kind::kNone) {
      // Padding is at the end.
      const size_t counted = part.counted * targets.names.size();
      measures.Add(network.logits().first(counted), batch.targets.first(counted));
    }
  }
  EvalResult result;
  if (sum.counted > 0) {
    result.set_loss(sum.loss_sum / static_cast<double>(sum.counted));
    if (targets.kind == Targets::Kind::kNone) {
      result.set_accuracy(static_cast<double>(sum.correct) / static_cast<double>(sum.counted));
    }
  }
  ranking.Report(&result);
  measures.Report(&result);
  result.set_samples(sum.counted);
  result.set_seconds(Seconds(SteadyNow() - start));
  return result;
}

std::string ResultText(const EvalResult& result) {
  std::string text;
  if (result.has_accuracy()) absl::StrAppendFormat(&text, "accuracy %.4f, ", result.accuracy());
  absl::StrAppendFormat(&text, "loss %.4f", result.loss());
  const std::map<std::string, double> measures(result.measures().begin(), result.measures().end());
  for (const auto& [name, value] : measures) absl::StrAppendFormat(&text, ", %s %.4g", name, value);
  return text;
}

}  // namespace psgd
