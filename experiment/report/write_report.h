// A report's files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

struct ReportOptions {
  std::string dir;                 // of a sweep, or any folder of run directories
  std::string out{};               // the page; empty: report.html in that folder
  bool markdown = false;           // the table instead of the page
  bool csv = false;                // a row for each run instead of the page
  std::string svg_dir{};           // each figure as a file by itself, too; empty: no
  std::optional<double> target{};  // accuracy that times are taken to
};

struct WrittenFigure {
  std::string svg;  // its file
  double width = 0;
  double height = 0;
};

struct WrittenReport {
  std::string text;                    // of markdown or csv
  std::vector<std::string> files;      // that were written
  std::vector<WrittenFigure> figures;  // those of svg_dir
  size_t runs = 0;
};

absl::StatusOr<WrittenReport> WriteReport(const ReportOptions& options);

}  // namespace psgd
