#include "experiment/report/learning_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace psgd {
namespace {

using testing::HasSubstr;

constexpr double kSizes[] = {500, 1500, 5000, 15000, 60000};

// Three seeds at each size, whose errors have relative noise.
std::vector<MeasuredError> Measured(const PowerLaw& law, double noise, int seed) {
  std::mt19937_64 bits(static_cast<uint64_t>(seed));
  std::normal_distribution<double> normal;
  std::vector<MeasuredError> points;
  for (const double size : kSizes) {
    std::vector<double> errors;
    for (int i = 0; i < 3; ++i) errors.push_back(law.ErrorAt(size) * (1 + noise * normal(bits)));
    points.push_back({size, Statistic::Of(errors)});
  }
  return points;
}

std::vector<MeasuredError> Exact(const std::vector<std::pair<double, double>>& errors) {
  std::vector<MeasuredError> points;
  for (const auto& [size, error] : errors) points.push_back({size, Statistic::Of({error})});
  return points;
}

std::string WhyNot(const std::vector<MeasuredError>& points) {
  return std::string(LearningCurve::Fit(points).status().message());
}

bool Holds(const Interval& interval, double value) {
  return interval.low <= value && value <= interval.high;
}

TEST(LearningCurve, RecoversAnExactLaw) {
  const PowerLaw law{3, -0.4, 0.05};
  const auto fit = LearningCurve::Fit(Measured(law, 0, 1));
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->law().factor, 3, 0.01);
  EXPECT_NEAR(fit->law().exponent, -0.4, 0.001);
  EXPECT_NEAR(fit->law().floor, 0.05, 1e-4);
  EXPECT_NEAR(fit->GrowthToHalve(), std::pow(2, 2.5), 0.02);
  EXPECT_NEAR(fit->law().SizeFor(0.06) / law.SizeFor(0.06), 1, 0.02);
  EXPECT_EQ(fit->law().SizeFor(0.04), INFINITY);
}

// The 95 % intervals hold the truth for most of forty noisy curves.
TEST(LearningCurve, ItsIntervalsHoldTheTruth) {
  const PowerLaw law{3, -0.4, 0.05};
  constexpr int kCurves = 40;
  int errors = 0, sizes = 0, growths = 0;
  for (int seed = 1; seed <= kCurves; ++seed) {
    const auto fit = LearningCurve::Fit(Measured(law, 0.02, seed));
    ASSERT_TRUE(fit.ok()) << fit.status();
    errors += Holds(fit->ErrorIntervalAt(240000), law.ErrorAt(240000)) ? 1 : 0;
    sizes += Holds(fit->SizeIntervalFor(0.075), law.SizeFor(0.075)) ? 1 : 0;
    growths += Holds(fit->GrowthIntervalToHalve(), std::pow(2, 2.5)) ? 1 : 0;
  }
  EXPECT_GE(errors, kCurves * 0.85);
  EXPECT_GE(sizes, kCurves * 0.85);
  EXPECT_GE(growths, kCurves * 0.85);
}

TEST(LearningCurve, DrawsAreTheSameEachTime) {
  const auto points = Measured({3, -0.4, 0.05}, 0.02, 7);
  const Interval first = LearningCurve::Fit(points)->SizeIntervalFor(0.07);
  const Interval second = LearningCurve::Fit(points)->SizeIntervalFor(0.07);
  EXPECT_EQ(first.low, second.low);
  EXPECT_EQ(first.high, second.high);
  EXPECT_LT(first.low, first.high);
}

TEST(LearningCurve, ThreeSizesHaveNoFloor) {
  const auto fit = LearningCurve::Fit(Exact({{100, 0.4}, {1000, 0.2}, {10000, 0.1}}));
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_FALSE(fit->fitted_floor());
  EXPECT_EQ(fit->law().floor, 0);
  EXPECT_NEAR(fit->GrowthToHalve(), 10, 0.01);
  EXPECT_NEAR(fit->law().SizeFor(0.05), 100000, 200);
}

TEST(LearningCurve, SaysWhyThereIsNone) {
  EXPECT_THAT(WhyNot({}), HasSubstr("0 sizes"));
  EXPECT_THAT(WhyNot(Exact({{100, 0.4}, {1000, 0.2}})), HasSubstr("2 sizes"));
  EXPECT_THAT(WhyNot(Exact({{100, 0.4}, {1000, 0.2}, {1000, 0.1}})), HasSubstr("2 sizes"));
  EXPECT_THAT(WhyNot(Exact({{100, 0.4}, {1000, 0.2}, {10000, 0}})), HasSubstr("2 sizes"));
  EXPECT_THAT(WhyNot(Exact({{100, 0.2}, {1000, 0.2}, {10000, 0.2}, {100000, 0.2}})),
              HasSubstr("does not fall"));
  EXPECT_THAT(WhyNot(Exact({{100, 0.1}, {1000, 0.2}, {10000, 0.3}})), HasSubstr("does not fall"));
  EXPECT_THAT(WhyNot(Exact({{100, 0.1}, {1000, 0.2}, {10000, 0.3}, {100000, 0.4}})),
              HasSubstr("does not fall"));
}

}  // namespace
}  // namespace psgd
