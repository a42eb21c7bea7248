#include "proto/measure_of.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace psgd {

std::string ResultText(const EvalResult& result) {
  std::string text;
  if (result.has_accuracy()) {
    absl::StrAppendFormat(&text, "accuracy %.2f %%, ", 100 * result.accuracy());
  }
  absl::StrAppend(&text, "loss ", ReadableLoss(result.loss()));
  const std::map<std::string, double> measures(result.measures().begin(), result.measures().end());
  for (const auto& [name, value] : measures) {
    absl::StrAppend(&text, ", ", name, " ", ReadableMeasure(value));
  }
  return text;
}

}  // namespace psgd
