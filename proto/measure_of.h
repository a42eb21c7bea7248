// The evaluation of an epoch, and its measure.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "common/first_measure.h"
#include "proto/control.pb.h"

namespace psgd {

// An evaluation has at most so many measures. python/psgd/_client.py has the number, too.
inline constexpr int kMostMeasures = 16;

// The first measure, or the loss if there is none.
inline Measurement MeasureOf(const EvalResult& result) {
  std::optional<double> accuracy;
  if (result.has_accuracy()) accuracy = result.accuracy();
  const auto first = FirstMeasure(accuracy, {result.measures().begin(), result.measures().end()});
  return first.value_or(Measurement{kLoss, result.loss(), /*smaller_is_better=*/true});
}

// All measures, for people: "accuracy 91.23 %, loss 0.2811", or "loss 0.2811, mae 0.3000, rmse
// 0.5000".
std::string ResultText(const EvalResult& result);

// The first of `evaluations` that is of this epoch; null: there is none.
template <typename Evaluations>
const EvalResult* EvaluationAt(double epoch, const Evaluations& evaluations) {
  constexpr double kSame = 1e-9;  // sums of the same fractions of an epoch
  for (const EvalResult& result : evaluations) {
    if (std::abs(result.epoch() - epoch) < kSame) return &result;
  }
  return nullptr;
}

}  // namespace psgd
