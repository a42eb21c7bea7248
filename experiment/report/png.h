// Pictures of figures, by a browser without a window: they are drawn with what only browsers know
// of SVG.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/report/write_report.h"

namespace psgd {

// FIGURE.png in `dir` for each FIGURE.svg, two pixels a unit; the paths. FAILED_PRECONDITION: there
// is no Chromium.
absl::StatusOr<std::vector<std::string>> WritePngs(const std::vector<WrittenFigure>& figures,
                                                   const std::string& dir);

}  // namespace psgd
