// The optimizers that benchmarks run, by name.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

struct NamedOptimizer {
  std::string name;
  OptimizerConfig config;
};

std::vector<NamedOptimizer> AllOptimizers();
// INVALID_ARGUMENT: there is none of that name.
absl::StatusOr<OptimizerConfig> OptimizerNamed(const std::string& name);

}  // namespace psgd
