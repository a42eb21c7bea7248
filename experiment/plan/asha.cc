#include "experiment/plan/asha.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "experiment/record/metric.h"

namespace psgd {

std::string MetricOf(const SweepAsha& asha) {
  return absl::AsciiStrToLower(SweepAsha::Metric_Name(asha.metric()));
}

double Asha::Score(const AtRung& at) const {
  const Metric* const metric = MetricNamed(MetricOf(asha_));
  const double score = metric == nullptr           ? -at.loss
                       : metric->smaller_is_better ? -at.score
                                                   : at.score;
  return std::isfinite(score) ? score : -std::numeric_limits<double>::infinity();
}

int Asha::RungAt(double epoch) const {
  const auto rung = std::find_if(asha_.rungs().begin(), asha_.rungs().end(),
                                 [&](int at) { return std::abs(at - epoch) < kEpochTolerance; });
  return rung == asha_.rungs().end() ? 0 : *rung;
}

bool Asha::Decides(const std::string& run, const AtRung& at) const {
  const int rung = RungAt(at.epoch);
  if (rung == 0) return false;
  const auto scores = scores_.find(rung);
  return scores == scores_.end() || scores->second.count(run) == 0;
}

bool Asha::GoesOn(const std::string& run, const AtRung& at) {
  if (!Decides(run, at)) return true;
  auto& scores = scores_[RungAt(at.epoch)];
  const double mine = scores[run] = Score(at);
  const size_t kept = scores.size() / static_cast<size_t>(asha_.reduction());
  const auto better = std::count_if(scores.begin(), scores.end(),
                                    [&](const auto& other) { return other.second > mine; });
  // Below `reduction` scores the best part holds no whole run, so no run can be judged.
  return kept == 0 || static_cast<size_t>(better) < kept;
}

}  // namespace psgd
