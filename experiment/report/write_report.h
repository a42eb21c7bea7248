// Writes a report's files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

struct ReportOptions {
  std::string dir;                 // of a sweep, or any folder of run directories
  std::string out{};               // a file for the page, table or rows; empty: the page is
                                   // report.html in `dir`, and the others become `text`
  bool markdown = false;           // the table instead of the page
  bool csv = false;                // one row per run instead of the page
  std::string svg_dir{};           // also writes each figure to a file here; empty: no
  std::string metric{};            // to compare by; empty: the usual one
  std::optional<double> target{};  // of the time to a score
};

struct WrittenFigure {
  std::string svg;  // path of the file
  double width = 0;
  double height = 0;
};

struct WrittenReport {
  std::string text;                    // the markdown or csv
  std::vector<std::string> files;      // written files
  std::vector<WrittenFigure> figures;  // the figures in svg_dir
};

absl::StatusOr<WrittenReport> WriteReport(const ReportOptions& options);

}  // namespace psgd
