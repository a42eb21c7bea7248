#include "experiment/report/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/csv.h"
#include "common/first_measure.h"
#include "common/units.h"
#include "experiment/record/readable.h"

namespace psgd {
namespace {

constexpr size_t kAlwaysSpread = 4;  // columns: the name, the status, and both accuracies
// Relative to the mean: smaller spreads of bytes come from repeated messages.
constexpr double kLeastSpread = 0.002;

const TableCell kNothing{"-", "", "", "-"};

std::string Number(double value) { return absl::StrFormat("%.8g", value); }

TableCell Word(const std::string& text) { return {text, "", "", text}; }

// "MEAN ±SPREAD", then `more`.
TableCell Cell(const Statistic& statistic, const std::string& mean, const std::string& spread,
               const std::string& more) {
  if (statistic.count == 0) return kNothing;
  TableCell cell{"", Number(statistic.mean), "", mean + more};
  if (statistic.count > 1) cell.spread = Number(statistic.spread);
  cell.text = absl::StrCat(mean, spread.empty() ? "" : " ±", spread, more);
  return cell;
}

// `mean`: as text.
TableCell ScoreCell(const Metric& metric, const Statistic& statistic, const std::string& mean) {
  const std::string spread = metric.share ? absl::StrFormat("%.2f", statistic.spread * 100)
                                          : absl::StrFormat("%.2g", statistic.spread);
  return Cell(statistic, mean, statistic.count > 1 ? spread : "", "");
}

// Shows the spread only if it is visible in that format.
TableCell MeanCell(const Statistic& statistic, std::string (*format)(double),
                   const std::string& more = "") {
  const std::string spread = format(statistic.spread);
  const bool shows = spread != format(0) && statistic.spread >= kLeastSpread * statistic.mean;
  return Cell(statistic, format(statistic.mean), shows ? spread : "", more);
}

// Bytes, the ratio of fp32's bytes to them, and `more`.
TableCell BytesCell(const Statistic& bytes, const Statistic& ratio, const std::string& more = "") {
  return MeanCell(
      bytes, HumanBytes,
      absl::StrCat(absl::StrFormat(ratio.mean < 9.95 ? " (%.1fx" : " (%.0fx", ratio.mean), more,
                   ")"));
}

// Empty: the codec of these runs carried what it was chosen for, or there was none.
std::string Carried(const ReportRuns& report, const ReportGroup& group) {
  for (const size_t run : group.runs) {
    const auto& summary = report.runs[run].data.summary;
    if (summary && !summary->codec_carries.empty())
      return absl::StrCat(", carried ", summary->codec_carries);
  }
  return "";
}

std::string Clocks(double staleness) { return absl::StrFormat("%.2f", staleness); }

size_t WidthOf(const std::string& lines) {
  size_t width = 0;
  for (const absl::string_view line : absl::StrSplit(lines, '\n'))
    width = std::max(width, line.size());
  return width;
}

std::string MarkdownCell(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}});
}

}  // namespace

ReportTable TableOf(const ReportRuns& report, const std::vector<ReportGroup>& groups) {
  ReportTable table;
  const Metric& metric = report.metric;
  table.columns = {"configuration", "status", metric.name, "against twin", "loss",
                   "pushed",        "pulled", "staleness", "samples/s",    "time"};
  for (const ReportGroup& group : groups) {
    std::vector<TableCell> row;
    row.push_back(Word(absl::StrCat(group.label, group.twin ? " (twin)" : "")));
    row.push_back(Word(StatusText(report, group)));
    row.push_back(ScoreCell(metric, group.score, metric.Text(group.score.mean)));
    row.push_back(group.twin ? kNothing
                             : ScoreCell(metric, group.against_twin,
                                         metric.DifferenceText(group.against_twin.mean)));
    row.push_back(MeanCell(group.loss, ReadableLoss));
    row.push_back(BytesCell(group.bytes_pushed, group.push_ratio, Carried(report, group)));
    row.push_back(BytesCell(group.bytes_pulled, group.pull_ratio));
    row.push_back(
        MeanCell(group.staleness, Clocks, absl::StrFormat(", max %.0f", group.staleness_max)));
    row.push_back(MeanCell(group.samples_per_second, ReadableCount));
    row.push_back(MeanCell(group.seconds, ReadableTime));
    table.rows.push_back(std::move(row));
    table.twin.push_back(group.twin);
  }
  return table;
}

std::string TableMarkdown(const ReportTable& table) {
  std::string text = absl::StrCat("| ", absl::StrJoin(table.columns, " | "), " |\n|");
  for (size_t c = 0; c < table.columns.size(); ++c)
    absl::StrAppend(&text, c < 2 ? "---|" : "---:|");
  text += "\n";
  for (const auto& row : table.rows) {
    text += "|";
    for (const TableCell& cell : row) absl::StrAppend(&text, " ", MarkdownCell(cell.text), " |");
    text += "\n";
  }
  return text;
}

std::string LegendMarkdown(const ReportRuns& report) {
  std::string text;
  for (const auto& [label, meaning] : report.legend)
    absl::StrAppend(&text, text.empty() ? "\n" : "", "- ", label, ": ", meaning, "\n");
  return text;
}

std::string EvaluationsMarkdown(const ReportRuns& report, const std::vector<ReportGroup>& groups) {
  const auto once = static_cast<size_t>(std::ranges::count_if(groups, [&](const auto& group) {
    return !group.runs.empty() && std::ranges::all_of(group.runs, [&](size_t run) {
      return report.runs[run].data.curve.size() == 1;
    });
  }));
  if (once == 0) return "";
  return absl::StrCat("\n", once, once == 1 ? " configuration has" : " configurations have",
                      " one evaluation.\n");
}

std::string TableText(const ReportTable& table, size_t width) {
  const auto with_spreads = [&](size_t columns) {
    TextTable text(table.columns);
    for (const auto& row : table.rows) {
      std::vector<std::string> cells;
      // "±" has two bytes, which would shift the columns.
      for (const TableCell& cell : row)
        cells.push_back(
            absl::StrReplaceAll(cells.size() < columns ? cell.text : cell.brief, {{"±", "+-"}}));
      text.Add(std::move(cells));
    }
    return text.Text();
  };
  const std::string all = with_spreads(table.columns.size());
  return WidthOf(all) <= width ? all : with_spreads(kAlwaysSpread);
}

std::string TableCsv(const ReportTable& table) {
  std::vector<bool> spreads(table.columns.size());
  for (const auto& row : table.rows) {
    for (size_t c = 0; c < row.size(); ++c) spreads[c] = spreads[c] || !row[c].spread.empty();
  }
  std::vector<std::vector<std::string>> rows(table.rows.size() + 1);
  for (size_t c = 0; c < table.columns.size(); ++c) {
    rows[0].push_back(table.columns[c]);
    if (spreads[c]) rows[0].push_back(table.columns[c] + " spread");
    for (size_t r = 0; r < table.rows.size(); ++r) {
      const TableCell& cell = table.rows[r][c];
      const bool word = cell.number.empty() && cell.text != kNothing.text;
      rows[r + 1].push_back(word ? cell.text : cell.number);
      if (spreads[c]) rows[r + 1].push_back(cell.spread);
    }
  }
  return Csv(rows);
}

std::string Csv(const std::vector<std::vector<std::string>>& rows) {
  std::string csv;
  for (const auto& row : rows) {
    csv += absl::StrJoin(row, ",", [](std::string* out, const std::string& cell) {
      absl::StrAppend(out, CsvField(cell));
    });
    csv += "\n";
  }
  return csv;
}

std::string RunsCsv(const ReportRuns& report) {
  std::vector<std::vector<std::string>> rows{
      absl::StrSplit(absl::StrCat("id,configuration,seed,status,twin,", report.metric.name,
                                  ",loss,epochs,steps,seconds,samples_per_second,"
                                  "bytes_pushed,bytes_pulled,bytes_pushed_dense,bytes_pulled_dense,"
                                  "staleness_mean,staleness_p99,staleness_max,workers,shards,"
                                  "servers,transport,codec,detail"),
                     ',')};
  for (const ReportRun& run : report.runs) {
    const Summary summary = run.data.summary.value_or(Summary());
    const std::string configuration =
        report.legend.empty() || run.axes.empty() ? run.label : AxesLabel(run.axes);
    std::vector<std::string> cells{run.id, configuration, absl::StrCat(run.seed),
                                   NameOf(run.status), run.twin ? "yes" : "no"};
    cells.push_back(run.score.metric != nullptr ? Number(run.score.value) : "");
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
    rows.push_back(std::move(cells));
  }
  return Csv(rows);
}

}  // namespace psgd
