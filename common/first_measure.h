// The measures that say how good an evaluation is: accuracy, rmse, f1, auc and perplexity. The
// first that it has counts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace psgd {

// The name of a measure that stands in where there is no other.
inline constexpr char kLoss[] = "loss";

struct Measurement {
  absl::string_view name;  // of a constant
  double value = 0;
  bool smaller_is_better = false;

  // Whether it is better by more than `least`. A loss (kLoss) is worse than any other measure, and
  // a number that is not finite is worse than any finite one.
  bool Beats(const Measurement& other, double least) const;
};

// Whether the measure of this name is better if it is smaller.
bool IsBetterSmaller(absl::string_view name);
// For example "0.5132" or "48214".
std::string ReadableMeasure(double value);
// For example "0.2811", or "3.213e+30" of training that diverged.
std::string ReadableLoss(double loss);

// What the evaluation has of them, in that order. An accuracy of 0 is not measured: programs need
// not do it.
std::vector<Measurement> MeasurementsOf(const std::optional<double>& accuracy,
                                        const std::map<std::string, double>& measures);
// Nullopt: there is none.
std::optional<Measurement> FirstMeasure(const std::optional<double>& accuracy,
                                        const std::map<std::string, double>& measures);

}  // namespace psgd
