#include "experiment/record/metric.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <mutex>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/first_measure.h"
#include "experiment/record/readable.h"

namespace psgd {
namespace {

// Whether a word of a measure's name is one of an error, as in "val_loss" and "wer".
bool MeansError(absl::string_view name) {
  constexpr absl::string_view kErrors[] = {"loss",  "error", "mae", "mse", "mape",
                                           "smape", "rmsle", "nll", "ppl", "bpc",
                                           "wer",   "cer",   "ter", "fid", "brier"};
  for (absl::string_view word : absl::StrSplit(name, '_')) {
    if (IsBetterSmaller(word) || std::ranges::find(kErrors, word) != std::end(kErrors)) return true;
  }
  return false;
}

Metric Named(const char* name, const char* title, bool share) {
  return {name, title, share, MeansError(name)};
}

// By name; FirstMeasure says in which order they are looked for.
const Metric kMetrics[] = {Named("accuracy", "Accuracy", true), Named("rmse", "RMSE", false),
                           Named("f1", "F1", true), Named("auc", "AUC", true),
                           Named("perplexity", "Perplexity", false)};

}  // namespace

std::string Metric::Text(double value) const {
  return share ? ReadablePercent(value) : ReadableMeasure(value);
}

std::string Metric::ShortText(double value) const {
  return share ? ShortPercent(value) : absl::StrFormat("%.4g", value);
}

std::string Metric::DifferenceText(double difference) const {
  return share ? absl::StrFormat("%+.2f", difference * 100) : absl::StrFormat("%+.4g", difference);
}

const Metric* MetricNamed(absl::string_view name) {
  for (const Metric& metric : kMetrics) {
    if (name == metric.name) return &metric;
  }
  return nullptr;
}

const Metric* MetricOfMeasure(absl::string_view name) {
  if (const Metric* const known = MetricNamed(name)) return known;
  static std::mutex mutex;
  static auto* const others = new std::map<std::string, Metric, std::less<>>;  // never destroyed
  std::lock_guard lock(mutex);
  const auto [found, is_new] = others->try_emplace(std::string(name));
  if (is_new) {
    found->second = {found->first.c_str(), found->first.c_str(), /*share=*/false,
                     MeansError(found->first)};
  }
  return &found->second;
}

std::vector<Score> ScoresOf(const std::optional<double>& accuracy,
                            const std::map<std::string, double>& measures) {
  std::vector<Score> scores;
  for (const Measurement& one : MeasurementsOf(accuracy, measures))
    scores.push_back({MetricNamed(one.name), one.value});
  for (const auto& [name, value] : measures) {
    if (MetricNamed(name) == nullptr) scores.push_back({MetricOfMeasure(name), value});
  }
  return scores;
}

Score ScoreNamed(const std::vector<Score>& scores, absl::string_view name) {
  for (const Score& score : scores) {
    const bool is_it =
        name.empty() ? MetricNamed(score.metric->name) != nullptr : score.metric->name == name;
    if (is_it) return score;
  }
  return {};
}

Score ScoreOf(const std::optional<double>& accuracy,
              const std::map<std::string, double>& measures) {
  return ScoreNamed(ScoresOf(accuracy, measures), "");
}

std::vector<Score> ScoresIn(const Record& evaluation) {
  return ScoresOf(NumberIn(evaluation, "accuracy"), MeasuresIn(evaluation));
}

}  // namespace psgd
