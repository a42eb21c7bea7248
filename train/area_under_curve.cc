#include "train/area_under_curve.h"

#include <algorithm>
#include <cmath>

namespace psgd {

void AreaUnderCurve::Add(float score, bool is) { (is ? scores_ : others_).push_back(score); }

std::optional<double> AreaUnderCurve::Value() const {
  const auto is_nan = [](float score) { return std::isnan(score); };
  if (scores_.empty() || others_.empty() || std::ranges::any_of(scores_, is_nan) ||
      std::ranges::any_of(others_, is_nan)) {
    return std::nullopt;
  }
  std::vector<float> others = others_;
  std::ranges::sort(others);
  double won = 0;
  for (const float score : scores_) {
    const auto equal = std::ranges::equal_range(others, score);
    won +=
        static_cast<double>(equal.begin() - others.begin()) + static_cast<double>(equal.size()) / 2;
  }
  return won / (static_cast<double>(scores_.size()) * static_cast<double>(others.size()));
}

}  // namespace psgd
