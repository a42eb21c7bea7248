// A sweep's results as JSON, for machines.
#pragma once

#include <string>

#include "experiment/plan/expand.h"
#include "experiment/record/records.h"
#include "experiment/report/groups.h"

namespace psgd {

Record SweepJson(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                 const std::string& dir);

// The output of --dry-run.
Record PlanJson(const std::string& name, const RunPlan& plan, const Record& estimate);

}  // namespace psgd
