// The measure of an evaluation.
#pragma once

#include <optional>

#include "common/first_measure.h"
#include "proto/control.pb.h"

namespace psgd {

// The first measure, or the loss if there is none.
inline Measurement MeasureOf(const EvalResult& result) {
  std::optional<double> accuracy;
  if (result.has_accuracy()) accuracy = result.accuracy();
  const auto first = FirstMeasure(accuracy, {result.measures().begin(), result.measures().end()});
  return first.value_or(Measurement{kLoss, result.loss(), /*smaller_is_better=*/true});
}

}  // namespace psgd
