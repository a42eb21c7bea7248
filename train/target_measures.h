// How near the outputs of a network come to real targets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/targets.h"
#include "proto/control.pb.h"
#include "train/area_under_curve.h"

namespace psgd {

// Not thread-safe.
class TargetMeasures {
 public:
  explicit TargetMeasures(const Targets& targets);

  // Outputs of a network, and targets as Targets says; both samples x targets.
  void Add(std::span<const float> outputs, std::span<const float> targets);

  // For numbers and counts, in their own unit:
  //   rmse  the root of the mean squared error
  //   mae   the mean absolute error
  //   r2    1 - squared error / squared distance from the mean; 0 if the target never varies
  // With several targets, their means over the targets, and rmse_NAME of each of at most
  // kMostNamedTargets. For labels:
  //   f1              2 hits / (2 hits + wrong ones + missed ones), over all labels
  //   label_accuracy  the share of labels that are right
  //   auc             AreaUnderCurve; the mean over the labels that are both 0 and 1 somewhere, and
  //                   auc_NAME as above
  // NAME is in lower case, with _ in place of characters other than letters and digits. It ends
  // with the target's number if two names were equal otherwise. Without samples nothing is
  // reported.
  void Report(EvalResult* result) const;

 private:
  // Sums of a target.
  struct Sums {
    double squared_error = 0, error = 0;
    double value = 0, square = 0;  // of value - mean, which keeps small differences
    uint64_t hits = 0, wrong = 0, missed = 0;
    AreaUnderCurve curve = {};
  };

  void AddNumber(double output, double target, size_t t);
  void AddLabel(float output, bool is, size_t t);
  // Whether each target has measures of its own.
  bool names_targets() const;
  void ReportNumbers(EvalResult* result) const;
  void ReportLabels(EvalResult* result) const;

  const Targets targets_;
  const std::vector<std::string> names_;  // of targets, in the names of measures
  double samples_ = 0;
  std::vector<Sums> sums_;  // by target
};

// Together with the measures over all targets, so many are still fewer than an evaluation may have.
inline constexpr size_t kMostNamedTargets = 12;
// With more labels the area under their curves is not measured.
inline constexpr size_t kMostCurves = 100;

}  // namespace psgd
