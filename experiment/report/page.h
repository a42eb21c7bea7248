// A report as one HTML page that needs nothing else.
#pragma once

#include <string>
#include <vector>

#include "experiment/report/figures.h"
#include "experiment/report/table.h"

namespace psgd {

std::string ReportPage(const ReportRuns& report, const ReportTable& table,
                       const std::vector<Figure>& figures);

}  // namespace psgd
