// optimizer.h's formulas, one element at a time in double: the oracle for tests and benchmarks.
#pragma once

#include <cmath>

#include "optimizers/optimizer.h"

namespace psgd {

struct ReferenceElement {
  double weight = 0;
  double state[kMaxStateArrays] = {};
};

inline void ReferenceAdam(const AdamConfig& config, const OptimizerStep& step, double g,
                          ReferenceElement* e) {
  const double t = static_cast<double>(step.step);
  double& m = e->state[0];
  double& v = e->state[1];
  m = config.beta1() * m + (1 - config.beta1()) * g;
  v = config.beta2() * v + (1 - config.beta2()) * g * g;
  const double m_hat = m / (1 - std::pow(config.beta1(), t));
  const double v_hat = v / (1 - std::pow(config.beta2(), t));
  e->weight -= step.learning_rate * m_hat / (std::sqrt(v_hat) + config.epsilon());
}

inline void ReferenceUpdate(const OptimizerConfig& config, const OptimizerStep& step, double g,
                            ReferenceElement* e) {
  switch (config.kind_case()) {
    case OptimizerConfig::kAdagrad:
      e->state[0] += g * g;
      e->weight -= step.learning_rate * g / (std::sqrt(e->state[0]) + config.adagrad().epsilon());
      return;
    case OptimizerConfig::kAdam:
      ReferenceAdam(config.adam(), step, g, e);
      return;
    case OptimizerConfig::kAdamw:
      e->weight -= step.learning_rate * step.weight_decay * e->weight;
      ReferenceAdam(config.adamw(), step, g, e);
      return;
    default: {
      const double momentum = config.sgd().momentum();
      e->state[0] = momentum * e->state[0] + g;
      e->weight -=
          step.learning_rate * (config.sgd().nesterov() ? g + momentum * e->state[0] : e->state[0]);
    }
  }
}

}  // namespace psgd
