// Makes pictures of figures with a headless browser, because the figures need SVG features that
// only browsers support.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/report/write_report.h"

namespace psgd {

// Writes FIGURE.png to `dir` for each FIGURE.svg, two pixels per unit, and returns the paths.
// FAILED_PRECONDITION: Chromium is missing.
absl::StatusOr<std::vector<std::string>> WritePngs(const std::vector<WrittenFigure>& figures,
                                                   const std::string& dir);

}  // namespace psgd
