// When a run ends because its test set's measure gets no better (train.early_stop).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "proto/config.pb.h"
#include "proto/control.pb.h"

namespace psgd {

// Why the run ends after its latest evaluation, for people: the best one is `patience` evaluations
// old. Nullopt: the run goes on.
std::optional<std::string> WhyStopEarly(const EarlyStopConfig& config,
                                        std::span<const EvalResult> evaluations);

}  // namespace psgd
