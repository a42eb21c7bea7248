// The measure that says how good a run's model is on the test set.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "experiment/record/records.h"

namespace psgd {

struct Metric {
  const char* name = "accuracy";
  const char* title = "Accuracy";
  bool share = true;  // from 0 to 1, and shown in percent
  bool smaller_is_better = false;

  // Whether a run with `value` is at least as good as one with `other`.
  bool Reaches(double value, double other) const {
    return smaller_is_better ? value <= other : value >= other;
  }
  std::string Text(double value) const;                 // "91.20 %", or "0.5132"
  std::string ShortText(double value) const;            // "91.2 %", or "0.513"
  std::string DifferenceText(double difference) const;  // in points, or in the metric's unit
  bool operator==(const Metric&) const = default;
};

// What the last evaluation measured.
struct Score {
  const Metric* metric = nullptr;  // null: no metric, as for a program that measures none
  double value = 0;
};

// Returns null if no metric has the name.
const Metric* MetricNamed(absl::string_view name);
// Returns the metric of any measure, also of one that a program named. Less is better where the
// name means a loss or an error, such as mae.
const Metric* MetricOfMeasure(absl::string_view name);

// The scores that were measured, in this order: the accuracy of classes, the rmse of numbers, the
// f1 of labels, the auc, the perplexity, then all other measures. The first says how good the model
// is, unless another is asked for. An accuracy of 0 counts as not measured, because programs need
// not measure it.
std::vector<Score> ScoresOf(const std::optional<double>& accuracy,
                            const std::map<std::string, double>& measures);
// The scores in the record of an evaluation.
std::vector<Score> ScoresIn(const Record& evaluation);
// Returns the score of that name. If the name is empty, returns the first score that MetricNamed
// knows. If there is none, the result has no metric.
Score ScoreNamed(const std::vector<Score>& scores, absl::string_view name);
// Returns ScoreNamed with an empty name, of ScoresOf.
Score ScoreOf(const std::optional<double>& accuracy, const std::map<std::string, double>& measures);

}  // namespace psgd
