#include "experiment/report/scale.h"

#include <algorithm>
#include <cmath>

namespace psgd {
namespace {

constexpr double kRoom = 0.05;  // share of the range, at each end

std::vector<double> RoundNumbers(double low, double high, int most) {
  std::vector<double> ticks;
  const double raw = (high - low) / most;
  const double magnitude = std::pow(10.0, std::floor(std::log10(raw)));
  double step = magnitude;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * magnitude;
    if (step >= raw) break;
  }
  for (int64_t i = std::llround(std::ceil(low / step)); static_cast<double>(i) * step <= high;
       ++i) {
    ticks.push_back(static_cast<double>(i) * step);
  }
  return ticks;
}

}  // namespace

Scale::Scale(const std::vector<double>& numbers, bool logarithmic, bool zero, double from,
             double to)
    : logarithmic_(logarithmic), from_(from), to_(to) {
  std::vector<double> seen;
  for (const double number : numbers) {
    if (std::isfinite(number) && Shows(number))
      seen.push_back(logarithmic ? std::log10(number) : number);
  }
  if (zero && !logarithmic) seen.push_back(0);
  if (seen.empty()) return;
  low_ = *std::min_element(seen.begin(), seen.end());
  high_ = *std::max_element(seen.begin(), seen.end());
  double room = (high_ - low_) * kRoom;
  if (room <= 0) room = logarithmic ? 0.3 : std::max(std::abs(high_) * kRoom, 1e-3);
  if (!zero || logarithmic || low_ < 0) low_ -= room;
  high_ += room;
}

double Scale::At(double number) const {
  const double value = logarithmic_ ? std::log10(number) : number;
  return from_ + (value - low_) / (high_ - low_) * (to_ - from_);
}

std::vector<double> Scale::Ticks(int most) const {
  if (logarithmic_) {
    std::vector<double> ticks;
    const double decades = high_ - low_;
    const std::vector<double> within = decades > 3 ? std::vector<double>{1}
                                       : decades > 0.7
                                           ? std::vector<double>{1, 2, 5}
                                           : std::vector<double>{1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9};
    const int step = std::max(1, static_cast<int>(std::ceil(decades / most)));
    for (int decade = static_cast<int>(std::floor(low_)); decade <= high_; decade += step) {
      for (const double digit : within) {
        const double tick = digit * std::pow(10.0, decade);
        if (std::log10(tick) >= low_ && std::log10(tick) <= high_) ticks.push_back(tick);
      }
    }
    // The range is too narrow for ticks with one digit.
    return ticks.size() < 2 ? RoundNumbers(std::pow(10.0, low_), std::pow(10.0, high_), most)
                            : ticks;
  }
  return RoundNumbers(low_, high_, most);
}

}  // namespace psgd
