// A report as one self-contained HTML page.
#pragma once

#include <string>
#include <vector>

#include "experiment/report/figures.h"
#include "experiment/report/table.h"

namespace psgd {

std::string ReportPage(const ReportRuns& report, const ReportTable& table,
                       const std::vector<Figure>& figures);

}  // namespace psgd
