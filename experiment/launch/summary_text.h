// Shows a run's summary to people.
#pragma once

#include <string>
#include <vector>

#include "experiment/record/summary.h"

namespace psgd {

// A table with one figure per line.
std::string SummaryText(const Summary& summary, const std::string& run_dir);

// Commands that are useful after that run, whose workers ran `command` (empty: ps-worker).
std::string NextCommands(const Summary& summary, const std::string& run_dir,
                         const std::vector<std::string>& command);

}  // namespace psgd
