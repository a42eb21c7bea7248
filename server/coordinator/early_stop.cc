#include "server/coordinator/early_stop.h"

#include <cstddef>

#include "absl/strings/str_format.h"
#include "proto/measure_of.h"

namespace psgd {

std::optional<std::string> WhyStopEarly(const EarlyStopConfig& config,
                                        std::span<const EvalResult> evaluations) {
  const auto patience = static_cast<size_t>(config.patience());
  if (patience == 0 || evaluations.empty()) return std::nullopt;
  size_t best = 0;
  for (size_t i = 1; i < evaluations.size(); ++i) {
    if (MeasureOf(evaluations[i]).Beats(MeasureOf(evaluations[best]), config.least())) best = i;
  }
  const size_t since = evaluations.size() - 1 - best;
  if (since < patience) return std::nullopt;
  const Measurement measure = MeasureOf(evaluations[best]);
  return absl::StrFormat(
      "the test set's %s got no better than %.6g, of epoch %g, in %d evaluation%s "
      "(train.early_stop)",
      measure.name, measure.value, evaluations[best].epoch(), since, since == 1 ? "" : "s");
}

}  // namespace psgd
