// The constants of an update with adam's moments.
#pragma once

#include <cmath>
#include <cstdint>

#include "optimizers/kernels.h"
#include "optimizers/power.h"

namespace psgd {

// The constants of update t, counted from 1. `config`: of adam, lamb or muon.
template <typename MomentsConfig>
MomentConstants MomentConstantsAt(const MomentsConfig& config, uint64_t t, double rate) {
  MomentConstants c;
  c.beta1 = static_cast<float>(config.beta1());
  c.one_minus_beta1 = static_cast<float>(1 - config.beta1());
  c.beta2 = static_cast<float>(config.beta2());
  c.one_minus_beta2 = static_cast<float>(1 - config.beta2());
  c.epsilon = static_cast<float>(config.epsilon());
  c.step_size = static_cast<float>(rate / (1 - Power(config.beta1(), t)));
  c.inverse_root_correction = static_cast<float>(1 / std::sqrt(1 - Power(config.beta2(), t)));
  return c;
}

// adam's update, for a device. `keep`: factor on a weight by decoupled decay.
inline ElementUpdate MomentUpdate(const MomentConstants& c, float keep) {
  return {.kind = ElementUpdate::Kind::kAdam,
          .rate = c.step_size,
          .keep = keep,
          .epsilon = c.epsilon,
          .beta1 = c.beta1,
          .one_minus_beta1 = c.one_minus_beta1,
          .beta2 = c.beta2,
          .one_minus_beta2 = c.one_minus_beta2,
          .inverse_root_correction = c.inverse_root_correction};
}

}  // namespace psgd
