#include "experiment/record/metric.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/first_measure.h"
#include "experiment/record/readable.h"

namespace psgd {
namespace {

// Of FirstMeasure.
constexpr Metric kMetrics[] = {{}, {"rmse", "RMSE", false, true}, {"f1", "F1", true, false}};

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

Score ScoreOf(const std::optional<double>& accuracy,
              const std::map<std::string, double>& measures) {
  const std::optional<Measurement> first = FirstMeasure(accuracy, measures);
  if (!first) return {};
  return {std::ranges::find(kMetrics, first->name, &Metric::name), first->value};
}

Score ScoreIn(const Record& evaluation) {
  std::map<std::string, double> measures;
  if (const auto found = evaluation.find("measures");
      found != evaluation.end() && found->is_object()) {
    for (const auto& [name, value] : found->items()) {
      if (value.is_number()) measures[name] = value.get<double>();
    }
  }
  return ScoreOf(NumberIn(evaluation, "accuracy"), measures);
}

}  // namespace psgd
