// Groups of parameters with settings of their own (optimizer.groups).
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

// The settings of one parameter.
struct ParameterRates {
  double rate = 1;  // times the learning rate
  // The weight decay. As a group of the config names it, it holds for biases and scales of norms,
  // too. Nullopt: the optimizer's, if the parameter decays.
  std::optional<double> weight_decay;

  // The decay where the optimizer's is `usual`. `decays`: ParameterSpec.decay.
  double DecayOf(bool decays, double usual) const {
    return weight_decay.value_or(decays ? usual : 0);
  }
};

// The rates of the first group whose pattern matches.
ParameterRates RatesOf(const OptimizerConfig& optimizer, const ParameterSpec& parameter);

// An error names the first group that fits no parameter. `key`: of the groups, optimizer.groups or
// local.optimizer.groups.
absl::Status CheckGroups(absl::string_view key, const OptimizerConfig& optimizer,
                         const ModelSpec& model);

}  // namespace psgd
