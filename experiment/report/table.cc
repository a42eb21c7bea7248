#include "experiment/report/table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/units.h"
#include "experiment/readable.h"

namespace psgd {
namespace {

const TableCell kNothing{"-", ""};

std::string Number(double value) { return absl::StrFormat("%.8g", value); }

TableCell Word(const std::string& text) { return {text, ""}; }

// The mean, with the spread where there is one.
template <typename Format>
TableCell MeanCell(const Statistic& statistic, Format format, double spread_scale,
                   int spread_digits) {
  if (statistic.count == 0) return kNothing;
  std::string text = format(statistic.mean);
  if (statistic.count > 1) {
    absl::StrAppendFormat(&text, " ±%.*f", spread_digits, statistic.spread * spread_scale);
  }
  return {text, Number(statistic.mean)};
}

// Bytes, and how many times less that is than fp32.
TableCell BytesCell(const Statistic& bytes, const Statistic& ratio) {
  if (bytes.count == 0) return kNothing;
  return {absl::StrFormat(ratio.mean < 9.95 ? "%s (%.1fx)" : "%s (%.0fx)", HumanBytes(bytes.mean),
                          ratio.mean),
          Number(bytes.mean)};
}

TableCell Plain(const Statistic& statistic, std::string (*format)(double)) {
  if (statistic.count == 0) return kNothing;
  return {format(statistic.mean), Number(statistic.mean)};
}

std::string Points(double difference) { return absl::StrFormat("%+.2f", difference * 100); }
std::string Loss(double loss) { return absl::StrFormat("%.4f", loss); }

}  // namespace

ReportTable TableOf(const ReportRuns& report, const std::vector<ReportGroup>& groups) {
  ReportTable table;
  table.columns = {"configuration", "status", "accuracy",  "against twin", "loss",
                   "pushed",        "pulled", "staleness", "samples/s",    "time"};
  for (const ReportGroup& group : groups) {
    std::vector<TableCell> row;
    row.push_back(Word(absl::StrCat(group.label, group.twin ? " (twin)" : "")));
    row.push_back(Word(StatusText(report, group)));
    row.push_back(MeanCell(group.accuracy, ReadablePercent, 100, 2));
    row.push_back(group.twin ? kNothing : MeanCell(group.against_twin, Points, 100, 2));
    row.push_back(Plain(group.loss, Loss));
    row.push_back(BytesCell(group.bytes_pushed, group.push_ratio));
    row.push_back(BytesCell(group.bytes_pulled, group.pull_ratio));
    row.push_back(group.staleness.count == 0
                      ? kNothing
                      : TableCell{absl::StrFormat("%.2f, max %.0f", group.staleness.mean,
                                                  group.staleness_max),
                                  Number(group.staleness.mean)});
    row.push_back(Plain(group.samples_per_second, ReadableCount));
    row.push_back(Plain(group.seconds, ReadableTime));
    table.rows.push_back(std::move(row));
    table.twin.push_back(group.twin);
  }
  return table;
}

std::string TableMarkdown(const ReportTable& table) {
  const auto escaped = [](const std::string& text) {
    return absl::StrReplaceAll(text, {{"|", "\\|"}});
  };
  std::string text = absl::StrCat("| ", absl::StrJoin(table.columns, " | "), " |\n|");
  for (size_t c = 0; c < table.columns.size(); ++c)
    absl::StrAppend(&text, c < 2 ? "---|" : "---:|");
  text += "\n";
  for (const auto& row : table.rows) {
    text += "|";
    for (const TableCell& cell : row) absl::StrAppend(&text, " ", escaped(cell.text), " |");
    text += "\n";
  }
  return text;
}

std::string TableText(const ReportTable& table) {
  TextTable text(table.columns);
  for (const auto& row : table.rows) {
    std::vector<std::string> cells;
    // A sign of two bytes would shift the columns.
    for (const TableCell& cell : row)
      cells.push_back(absl::StrReplaceAll(cell.text, {{"±", "+-"}}));
    text.Add(std::move(cells));
  }
  return text.Text();
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string RunsCsv(const ReportRuns& report) {
  std::string csv =
      "id,configuration,seed,status,twin,accuracy,loss,epochs,steps,seconds,samples_per_second,"
      "bytes_pushed,bytes_pulled,bytes_pushed_dense,bytes_pulled_dense,staleness_mean,staleness_"
      "p99,"
      "staleness_max,workers,shards,servers,transport,codec,detail\n";
  for (const ReportRun& run : report.runs) {
    const Summary summary = run.data.summary.value_or(Summary());
    std::vector<std::string> cells{run.id, run.label, absl::StrCat(run.seed), NameOf(run.status),
                                   run.twin ? "yes" : "no"};
    cells.push_back(run.accuracy ? Number(*run.accuracy) : "");
    cells.push_back(run.loss ? Number(*run.loss) : "");
    for (const double value : {run.epochs, static_cast<double>(summary.steps), run.seconds,
                               summary.samples_per_second}) {
      cells.push_back(Number(value));
    }
    for (const uint64_t value : {summary.bytes_pushed, summary.bytes_pulled,
                                 summary.bytes_pushed_dense, summary.bytes_pulled_dense}) {
      cells.push_back(absl::StrCat(value));
    }
    cells.push_back(Number(summary.staleness.mean));
    cells.push_back(absl::StrCat(summary.staleness.p99));
    cells.push_back(absl::StrCat(summary.staleness.max));
    cells.push_back(absl::StrCat(summary.workers));
    cells.push_back(absl::StrCat(summary.shards));
    cells.push_back(absl::StrCat(summary.servers));
    cells.insert(cells.end(), {summary.transport, summary.codec, run.detail});
    csv += absl::StrJoin(cells, ",", [](std::string* out, const std::string& cell) {
      absl::StrAppend(out, CsvCell(cell));
    });
    csv += "\n";
  }
  return csv;
}

}  // namespace psgd
