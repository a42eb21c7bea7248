// optimizer.h's formulas, one element at a time in double: the oracle for tests and benchmarks.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "optimizers/optimizer.h"

namespace psgd {

struct ReferenceElement {
  double weight = 0;
  double state[kMaxStateArrays] = {};
};

// Returns m/(1-b1^t) / (sqrt(v)/sqrt(1-b2^t) + eps) of the new moments.
template <typename MomentsConfig>
double ReferenceAdam(const MomentsConfig& config, uint64_t step, double g, ReferenceElement* e) {
  const double t = static_cast<double>(step);
  double& m = e->state[0];
  double& v = e->state[1];
  m = config.beta1() * m + (1 - config.beta1()) * g;
  v = config.beta2() * v + (1 - config.beta2()) * g * g;
  const double m_hat = m / (1 - std::pow(config.beta1(), t));
  const double v_hat = v / (1 - std::pow(config.beta2(), t));
  return m_hat / (std::sqrt(v_hat) + config.epsilon());
}

inline void ReferenceDelayedNesterov(const DelayedNesterovConfig& config, const OptimizerStep& step,
                                     double g, ReferenceElement* e) {
  double& m = e->state[0];
  double& sum = e->state[1];
  double share = config.spread() / config.every();
  sum += g;
  if (step.step % config.every() == 0) {
    share += 1 - config.spread();
    m = config.momentum() * m + sum;
    sum = 0;
  }
  e->weight -= step.learning_rate * (share * config.momentum() * m + g);
}

inline double ReferenceRatio(double trust, const OptimizerStep& step,
                             std::span<const ReferenceElement> slice,
                             std::span<const double> update) {
  double above = 0, below = 0;
  for (const ReferenceElement& e : slice) above += e.weight * e.weight;
  for (const double value : update) below += value * value;
  return step.decays && above > 0 && below > 0 ? trust * std::sqrt(above / below) : 1;
}

inline void ReferenceLars(const LarsConfig& config, const OptimizerStep& step,
                          std::span<const float> gradient, std::span<ReferenceElement> slice) {
  const std::vector<double> g(gradient.begin(), gradient.end());
  const double ratio = ReferenceRatio(config.trust(), step, slice, g);
  for (size_t i = 0; i < g.size(); ++i) {
    double& v = slice[i].state[0];
    v = config.momentum() * v + step.learning_rate * ratio * g[i];
    slice[i].weight -= v;
  }
}

inline void ReferenceLamb(const LambConfig& config, const OptimizerStep& step,
                          std::span<const float> gradient, std::span<ReferenceElement> slice) {
  std::vector<double> r;
  for (size_t i = 0; i < slice.size(); ++i) {
    r.push_back(ReferenceAdam(config, step.step, gradient[i], &slice[i]) +
                step.weight_decay * slice[i].weight);
  }
  const double ratio = ReferenceRatio(1, step, slice, r);
  for (size_t i = 0; i < slice.size(); ++i) slice[i].weight -= step.learning_rate * ratio * r[i];
}

inline void ReferenceElementUpdate(const OptimizerConfig& config, const OptimizerStep& step,
                                   double g, ReferenceElement* e) {
  switch (config.kind_case()) {
    case OptimizerConfig::kAdagrad:
      e->state[0] += g * g;
      e->weight -= step.learning_rate * g / (std::sqrt(e->state[0]) + config.adagrad().epsilon());
      return;
    case OptimizerConfig::kAdam:
      e->weight -= step.learning_rate * ReferenceAdam(config.adam(), step.step, g, e);
      return;
    case OptimizerConfig::kAdamw:
      e->weight -= step.learning_rate * step.weight_decay * e->weight;
      e->weight -= step.learning_rate * ReferenceAdam(config.adamw(), step.step, g, e);
      return;
    case OptimizerConfig::kMuon:  // of what is no matrix
      e->weight -= step.learning_rate * step.weight_decay * e->weight;
      e->weight -= step.learning_rate * ReferenceAdam(config.muon(), step.step, g, e);
      return;
    case OptimizerConfig::kDelayedNesterov:
      return ReferenceDelayedNesterov(config.delayed_nesterov(), step, g, e);
    default: {
      const double momentum = config.sgd().momentum();
      e->state[0] = momentum * e->state[0] + g;
      e->weight -=
          step.learning_rate * (config.sgd().nesterov() ? g + momentum * e->state[0] : e->state[0]);
    }
  }
}

// One update of a slice. REQUIRES: delayed_nesterov says `every`.
inline void ReferenceUpdate(const OptimizerConfig& config, const OptimizerStep& step,
                            std::span<const float> gradient, std::span<ReferenceElement> slice) {
  if (config.has_lars()) return ReferenceLars(config.lars(), step, gradient, slice);
  if (config.has_lamb()) return ReferenceLamb(config.lamb(), step, gradient, slice);
  for (size_t i = 0; i < slice.size(); ++i) {
    ReferenceElementUpdate(config, step, gradient[i], &slice[i]);
  }
}

}  // namespace psgd
