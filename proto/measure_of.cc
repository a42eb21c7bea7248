#include "proto/measure_of.h"

#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace psgd {

std::string ResultText(const EvalResult& result) {
  std::string text;
  if (result.has_accuracy()) {
    absl::StrAppendFormat(&text, "accuracy %.2f %%, ", 100 * result.accuracy());
  }
  const double loss = result.loss();
  // That of a run that diverged may have 59 digits.
  absl::StrAppend(
      &text, "loss ",
      std::abs(loss) < 1e6 ? absl::StrFormat("%.4f", loss) : absl::StrFormat("%.4g", loss));
  const std::map<std::string, double> measures(result.measures().begin(), result.measures().end());
  for (const auto& [name, value] : measures) {
    absl::StrAppend(&text, ", ", name, " ", ReadableMeasure(value));
  }
  return text;
}

}  // namespace psgd
