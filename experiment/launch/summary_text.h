// A run's summary for people.
#pragma once

#include <string>

#include "experiment/record/summary.h"

namespace psgd {

// A table, one figure a line.
std::string SummaryText(const Summary& summary, const std::string& run_dir);

// Commands that are worth trying after that run.
std::string NextCommands(const Summary& summary, const std::string& run_dir);

}  // namespace psgd
