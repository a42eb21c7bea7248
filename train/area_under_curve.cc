#include "train/area_under_curve.h"

#include <algorithm>
#include <cmath>

namespace psgd {

void AreaUnderCurve::Add(float score, bool is) { samples_.push_back({score, is}); }

std::optional<double> AreaUnderCurve::Value() const {
  std::vector<Scored> sorted = samples_;
  for (const Scored& sample : sorted) {
    if (std::isnan(sample.score)) return std::nullopt;
  }
  std::ranges::sort(sorted, {}, &Scored::score);
  double below = 0, won = 0, positives = 0;  // below: samples of the other kind
  for (size_t begin = 0; begin < sorted.size();) {
    double equal_is = 0, equal_others = 0;
    size_t end = begin;
    for (; end < sorted.size() && sorted[end].score == sorted[begin].score; ++end) {
      (sorted[end].is ? equal_is : equal_others) += 1;
    }
    won += equal_is * (below + equal_others / 2);
    below += equal_others;
    positives += equal_is;
    begin = end;
  }
  if (positives == 0 || below == 0) return std::nullopt;
  return won / (positives * below);
}

}  // namespace psgd
