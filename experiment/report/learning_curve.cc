#include "experiment/report/learning_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "common/philox.h"

namespace psgd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kFlattest = -0.01, kSteepest = -3;  // exponents that are tried
constexpr int kExponents = 60;
constexpr int kRefinements = 24;
constexpr int kDraws = 500;
constexpr double kOutside = 0.025;  // share of the draws on each side of an interval
constexpr uint64_t kDrawKey = 2017;
constexpr double kLeastFall = 1e-6;  // relative, from the smallest to the largest size

struct Point {
  double log_size;  // from the middle of the sizes
  double error;
};

// The relative distances between law and points, squared.
struct Candidate {
  double cost = kInfinity;
  PowerLaw law;
};

// The best law with this exponent. Relative distances are linear in factor and floor.
Candidate BestWith(double exponent, const std::vector<Point>& points, bool with_floor) {
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const Point& point : points) {
    const double u = std::exp(exponent * point.log_size) / point.error, v = 1 / point.error;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  const auto number = static_cast<double>(points.size());
  const auto candidate = [&](double factor, double floor) {
    const double cost = factor * factor * uu + 2 * factor * floor * uv + floor * floor * vv -
                        2 * factor * u1 - 2 * floor * v1 + number;
    return Candidate{cost, {factor, exponent, floor}};
  };
  const double determinant = uu * vv - uv * uv;
  if (with_floor && determinant > 1e-12 * uu * vv) {
    const double factor = (u1 * vv - v1 * uv) / determinant;
    const double floor = (v1 * uu - u1 * uv) / determinant;
    if (factor >= 0 && floor >= 0) return candidate(factor, floor);
  }
  // At the limits: a law without a floor, or errors that do not fall.
  const Candidate no_floor = candidate(u1 / uu, 0);
  const Candidate flat = candidate(0, v1 / vv);
  return flat.cost < no_floor.cost ? flat : no_floor;
}

// Tries exponents on a grid, then between the neighbours of the best one.
PowerLaw FitLaw(const std::vector<Point>& points, bool with_floor) {
  const double step = std::log(kSteepest / kFlattest) / kExponents;
  const auto at = [&](double place) {
    return BestWith(kFlattest * std::exp(step * place), points, with_floor);
  };
  double best = 0;
  double cost = kInfinity;
  for (int i = 0; i <= kExponents; ++i) {
    const Candidate candidate = at(i);
    if (candidate.cost >= cost) continue;
    cost = candidate.cost;
    best = i;
  }
  double low = std::max(0.0, best - 1), high = std::min<double>(kExponents, best + 1);
  for (int i = 0; i < kRefinements; ++i) {
    const double third = (high - low) / 3;
    if (at(low + third).cost < at(high - third).cost) {
      high -= third;
    } else {
      low += third;
    }
  }
  return at((low + high) / 2).law;
}

class NormalDraws {
 public:
  double Next() {
    constexpr double kTwoPi = 6.28318530717958647692;
    const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(bits_.NextUnit())));
    return radius * std::cos(kTwoPi * static_cast<double>(bits_.NextUnit()));
  }

 private:
  RandomStream bits_{{static_cast<uint32_t>(kDrawKey), 0}, 0};
};

// The variance of the relative errors, and how many independent numbers it comes from.
struct Noise {
  std::vector<double> deviations;  // of each point
  size_t freedom = 0;
};

// What seeds tell, or what the law leaves over, whichever is more: the law may miss the points by
// more than the seeds differ.
Noise NoiseOf(const std::vector<MeasuredError>& points, const PowerLaw& law, size_t parameters) {
  double within = 0, left = 0;
  size_t repeats = 0;
  for (const auto& [size, error] : points) {
    const auto seeds = static_cast<double>(error.count);
    within += std::pow(error.spread / error.mean, 2) * (seeds - 1);
    repeats += error.count - 1;
    left += std::pow(law.ErrorAt(size) / error.mean - 1, 2);
  }
  if (repeats > 0) within /= static_cast<double>(repeats);
  left /= static_cast<double>(points.size() - parameters);
  Noise noise;
  noise.freedom = repeats + points.size() - parameters;
  for (const MeasuredError& point : points) {
    noise.deviations.push_back(
        std::sqrt(std::max(within / static_cast<double>(point.error.count), left)));
  }
  return noise;
}

}  // namespace

double PowerLaw::ErrorAt(double size) const { return factor * std::pow(size, exponent) + floor; }

double PowerLaw::SizeFor(double error) const {
  return error > floor ? std::pow((error - floor) / factor, 1 / exponent) : kInfinity;
}

absl::StatusOr<LearningCurve> LearningCurve::Fit(std::vector<MeasuredError> points) {
  std::erase_if(points, [](const MeasuredError& point) {
    return !(point.error.mean > 0) || !std::isfinite(point.error.mean) || !(point.size > 0);
  });
  std::set<double> sizes;
  double middle = 0;
  for (const MeasuredError& point : points) {
    sizes.insert(point.size);
    middle += std::log(point.size) / static_cast<double>(points.size());
  }
  if (sizes.size() < kFewestSizes) {
    return FailedPreconditionError(sizes.size(), sizes.size() == 1 ? " size" : " sizes",
                                   " with an error above 0; a fit needs ", kFewestSizes,
                                   " or more");
  }
  LearningCurve curve;
  curve.fitted_floor_ = sizes.size() >= kFewestSizesForFloor;
  // Sizes count from their middle, so that factor and floor are of like magnitude.
  const auto fit = [&](const auto& error_of) {
    std::vector<Point> centred;
    for (size_t i = 0; i < points.size(); ++i)
      centred.push_back({std::log(points[i].size) - middle, error_of(i)});
    PowerLaw law = FitLaw(centred, curve.fitted_floor_);
    law.factor *= std::exp(-law.exponent * middle);
    return law;
  };
  curve.law_ = fit([&](size_t i) { return points[i].error.mean; });
  curve.lowest_error_ = points.front().error.mean;
  for (const MeasuredError& point : points)
    curve.lowest_error_ = std::min(curve.lowest_error_, point.error.mean);
  const double first = curve.law_.ErrorAt(*sizes.begin());
  const double last = curve.law_.ErrorAt(*sizes.rbegin());
  if (!(first > last * (1 + kLeastFall))) {
    return absl::FailedPreconditionError("the error does not fall with more training samples");
  }
  const Noise noise = NoiseOf(points, curve.law_, curve.fitted_floor_ ? 3 : 2);
  NormalDraws normal;
  for (int draw = 0; draw < kDraws; ++draw) {
    // The noise itself is known from few numbers, so that its scale varies as well.
    double squares = 0;
    for (size_t i = 0; i < noise.freedom; ++i) squares += std::pow(normal.Next(), 2);
    const double scale = std::sqrt(static_cast<double>(noise.freedom) / squares);
    curve.draws_.push_back(fit([&](size_t i) {
      return curve.law_.ErrorAt(points[i].size) *
             std::exp(scale * noise.deviations[i] * normal.Next());
    }));
  }
  return curve;
}

template <typename Number>
Interval LearningCurve::IntervalOf(Number number) const {
  std::vector<double> values;
  for (const PowerLaw& draw : draws_) values.push_back(number(draw));
  std::sort(values.begin(), values.end());
  const auto outside = static_cast<size_t>(kOutside * static_cast<double>(values.size()));
  return {values[outside], values[values.size() - 1 - outside]};
}

double LearningCurve::GrowthToHalve() const { return std::pow(2, -1 / law_.exponent); }

Interval LearningCurve::ErrorIntervalAt(double size) const {
  return IntervalOf([&](const PowerLaw& law) { return law.ErrorAt(size); });
}

Interval LearningCurve::SizeIntervalFor(double error) const {
  return IntervalOf([&](const PowerLaw& law) { return law.SizeFor(error); });
}

Interval LearningCurve::GrowthIntervalToHalve() const {
  return IntervalOf([](const PowerLaw& law) { return std::pow(2, -1 / law.exponent); });
}

}  // namespace psgd
