// Shows a run's summary to people.
#pragma once

#include <string>

#include "experiment/launch/resume_advice.h"
#include "experiment/record/summary.h"

namespace psgd {

// A table with one figure per line.
std::string SummaryText(const Summary& summary, const std::string& run_dir);

// Commands that are useful after that run.
std::string NextCommands(const Summary& summary, const std::string& run_dir,
                         const StartedAs& started);

}  // namespace psgd
