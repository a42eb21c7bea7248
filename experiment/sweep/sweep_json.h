// A sweep's results for machines.
#pragma once

#include <string>

#include "experiment/records.h"
#include "experiment/report/groups.h"
#include "experiment/sweep/expand.h"

namespace psgd {

Record SweepJson(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                 const std::string& dir);

// What --dry-run tells.
Record PlanJson(const std::string& name, const RunPlan& plan, const Record& estimate);

}  // namespace psgd
