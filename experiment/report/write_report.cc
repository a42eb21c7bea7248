#include "experiment/report/write_report.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "experiment/report/figures.h"
#include "experiment/report/page.h"
#include "experiment/report/table.h"

namespace psgd {

absl::StatusOr<WrittenReport> WriteReport(const ReportOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const ReportRuns report, ReadReportRuns(options.dir, options.metric));
  if (options.target && report.metric.share && *options.target > 1) {
    return InvalidArgumentError("--target is ", *options.target, ", but ", report.metric.name,
                                " is from 0 to 1, as 0.9");
  }
  const std::vector<ReportGroup> groups = GroupRuns(report);
  const ReportTable table = TableOf(report, groups);
  WrittenReport written;
  if (options.markdown) {
    written.text =
        TableMarkdown(table) + LegendMarkdown(report) + EvaluationsMarkdown(report, groups);
  }
  if (options.csv) written.text += RunsCsv(report);
  const bool page = !options.markdown && !options.csv;
  if (!page && !options.out.empty()) {
    PSGD_RETURN_IF_ERROR(WriteFileAtomically(options.out, written.text));
    written.text.clear();
    written.files.push_back(options.out);
  }
  if (!page && options.svg_dir.empty()) return written;

  const std::vector<Figure> figures = MakeFigures(report, groups, {.target = options.target});
  if (page) {
    const std::string path = options.out.empty() ? options.dir + "/report.html" : options.out;
    PSGD_RETURN_IF_ERROR(WriteFileAtomically(path, ReportPage(report, table, figures)));
    written.files.push_back(path);
  }
  if (options.svg_dir.empty()) return written;
  std::error_code error;
  std::filesystem::create_directories(options.svg_dir, error);
  if (error) return FileError("make the folder", options.svg_dir, error.value());
  for (const Figure& figure : figures) {
    const std::string path = absl::StrCat(options.svg_dir, "/", figure.id);
    PSGD_RETURN_IF_ERROR(WriteFileAtomically(path + ".svg", figure.svg.Document()));
    PSGD_RETURN_IF_ERROR(WriteFileAtomically(path + ".csv", FigureCsv(figure)));
    written.files.push_back(path + ".svg");
    written.figures.push_back({path + ".svg", figure.svg.width(), figure.svg.height()});
  }
  return written;
}

}  // namespace psgd
