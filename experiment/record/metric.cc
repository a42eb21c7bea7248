#include "experiment/record/metric.h"

#include "absl/strings/str_format.h"
#include "experiment/record/readable.h"

namespace psgd {
namespace {

constexpr Metric kAccuracy;
// Of the measures that programs report, in the order in which they are looked for.
constexpr Metric kMeasured[] = {{"rmse", "RMSE", false, true},
                                {"f1", "F1", true, false},
                                {"auc", "AUC", true, false},
                                {"perplexity", "Perplexity", false, true}};

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
  if (name == kAccuracy.name) return &kAccuracy;
  for (const Metric& metric : kMeasured) {
    if (name == metric.name) return &metric;
  }
  return nullptr;
}

std::vector<Score> ScoresOf(const std::optional<double>& accuracy,
                            const std::map<std::string, double>& measures) {
  std::vector<Score> scores;
  if (accuracy && *accuracy != 0) scores.push_back({&kAccuracy, *accuracy});
  for (const Metric& metric : kMeasured) {
    if (const auto found = measures.find(metric.name); found != measures.end()) {
      scores.push_back({&metric, found->second});
    }
  }
  return scores;
}

Score ScoreNamed(const std::vector<Score>& scores, absl::string_view name) {
  for (const Score& score : scores) {
    if (name.empty() || score.metric->name == name) return score;
  }
  return {};
}

Score ScoreOf(const std::optional<double>& accuracy,
              const std::map<std::string, double>& measures) {
  return ScoreNamed(ScoresOf(accuracy, measures), "");
}

std::vector<Score> ScoresIn(const Record& evaluation) {
  std::map<std::string, double> measures;
  if (const auto found = evaluation.find("measures");
      found != evaluation.end() && found->is_object()) {
    for (const auto& [name, value] : found->items()) {
      if (value.is_number()) measures[name] = value.get<double>();
    }
  }
  return ScoresOf(NumberIn(evaluation, "accuracy"), measures);
}

}  // namespace psgd
