// Runs of the simulator as people write them down: tests/sim/cases has some, docs/simulator.md the
// keys.
#pragma once

#include <string>

#include "common/status.h"
#include "tests/sim/case.pb.h"
#include "tests/sim/scenario.h"

namespace psgd::sim {

// Errors begin with "path:line:column: ".
absl::StatusOr<SimCase> LoadCase(const std::string& path);
absl::StatusOr<SimCase> ParseCase(std::string text, std::string name_for_errors);
// `seed`: of what the file leaves open. INVALID_ARGUMENT: it asks for what cannot be.
absl::StatusOr<Scenario> ScenarioOf(const SimCase& written, uint64_t seed);

}  // namespace psgd::sim
