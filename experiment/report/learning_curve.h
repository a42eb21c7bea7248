// How test errors fall with the size of the training set: a power law with a floor (Hestness et al.
// 2017, "Deep learning scaling is predictable, empirically").
#pragma once

#include <vector>

#include "common/status.h"
#include "experiment/report/groups.h"

namespace psgd {

// error = factor * size^exponent + floor, with factor >= 0, exponent < 0 and floor >= 0.
struct PowerLaw {
  double factor = 0;
  double exponent = 0;
  double floor = 0;

  double ErrorAt(double size) const;
  double SizeFor(double error) const;  // infinity: no size reaches the error
};

struct MeasuredError {
  double size = 0;  // of the training set
  Statistic error;  // over seeds
};

// An interval that holds 95 % of what the noise of the measurements allows.
struct Interval {
  double low = 0;
  double high = 0;
};

// A fit with its uncertainty. Immutable.
class LearningCurve {
 public:
  static constexpr size_t kFewestSizes = 3;
  static constexpr size_t kFewestSizesForFloor = 4;

  // Leaves out errors that are not above 0. FAILED_PRECONDITION: too few sizes, or the error does
  // not fall.
  static absl::StatusOr<LearningCurve> Fit(std::vector<MeasuredError> points);

  const PowerLaw& law() const { return law_; }
  bool fitted_floor() const { return fitted_floor_; }  // false: there were too few sizes
  double lowest_error() const { return lowest_error_; }
  // By how much the training set must grow until the part of the error above the floor halves.
  double GrowthToHalve() const;

  Interval ErrorIntervalAt(double size) const;
  Interval SizeIntervalFor(double error) const;
  Interval GrowthIntervalToHalve() const;

 private:
  LearningCurve() = default;
  template <typename Number>
  Interval IntervalOf(Number number) const;

  PowerLaw law_;
  bool fitted_floor_ = false;
  double lowest_error_ = 0;  // measured
  std::vector<PowerLaw> draws_;
};

}  // namespace psgd
