// The file that says what machines are simulated (proto/sim_model.proto).
#pragma once

#include <string>

#include "common/status.h"
#include "proto/sim_model.pb.h"

namespace psgd::sim {

// Errors name file, line and column.
absl::StatusOr<SimModel> LoadModel(const std::string& path);
absl::StatusOr<SimModel> ParseModel(std::string text, std::string name_for_errors);

// Every key with what it is; ParseModel reads it back.
std::string FormatModel(const SimModel& model);

}  // namespace psgd::sim
