#include "experiment/report/page.h"

#include <algorithm>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiment/report/page_parts.h"

namespace psgd {
namespace {

constexpr size_t kMostDataRows = 200;  // shown in the page; files have all rows

std::string DownloadLink(const std::string& name, const std::string& csv) {
  return absl::StrCat("<a download=\"", name, ".csv\" href=\"data:text/csv;charset=utf-8;base64,",
                      absl::Base64Escape(csv), "\">", name, ".csv</a>");
}

std::string Cell(const TableCell& cell) {
  if (cell.number.empty()) {
    return absl::StrCat(cell.text == "-" ? "<td>" : "<td class=\"word\">", Escaped(cell.text),
                        "</td>");
  }
  const size_t spread = cell.text.find(" ±");
  if (spread == std::string::npos) {
    return absl::StrCat("<td data-n=\"", cell.number, "\">", Escaped(cell.text), "</td>");
  }
  // In a narrow column the spread stands below the mean.
  return absl::StrCat("<td class=\"two\" data-n=\"", cell.number, "\"><span>",
                      Escaped(cell.text.substr(0, spread)), "</span> <span>",
                      Escaped(cell.text.substr(spread + 1)), "</span></td>");
}

std::string MainTable(const ReportTable& table) {
  std::string html =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All configurations\">\n"
      "<table class=\"sortable\">\n<thead><tr>";
  for (size_t c = 0; c < table.columns.size(); ++c) {
    absl::StrAppend(&html, "<th scope=\"col\"", c < 2 ? " class=\"word\"" : "",
                    "><button type=\"button\">", Escaped(table.columns[c]), "</button></th>");
  }
  html += "</tr></thead>\n<tbody>\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    absl::StrAppend(&html, "<tr", table.twin[r] ? " class=\"twin\"" : "", ">");
    for (const TableCell& cell : table.rows[r]) html += Cell(cell);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// A table of the first `count` rows, whose first one names the columns.
std::string RowsHtml(const std::vector<std::vector<std::string>>& rows, size_t count) {
  std::string html = "<table><thead><tr>";
  for (const std::string& name : rows.front())
    absl::StrAppend(&html, "<th scope=\"col\">", Escaped(name), "</th>");
  html += "</tr></thead><tbody>\n";
  for (size_t r = 1; r < count; ++r) {
    html += "<tr>";
    for (const std::string& cell : rows[r]) absl::StrAppend(&html, "<td>", Escaped(cell), "</td>");
    html += "</tr>\n";
  }
  return html + "</tbody></table>";
}

// A table for readers who cannot see the figure or want its numbers.
std::string DataTable(const Figure& figure) {
  const size_t rows = std::min(figure.data.size(), kMostDataRows + 1);
  std::string html =
      absl::StrCat("<details class=\"screen\"><summary>Data of this figure</summary>\n<p>",
                   DownloadLink(figure.id, FigureCsv(figure)));
  if (rows < figure.data.size()) {
    absl::StrAppend(&html, " has all ", figure.data.size() - 1, " rows; these are the first ",
                    rows - 1, ".");
  }
  absl::StrAppend(&html,
                  "</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Data: ",
                  Escaped(figure.title), "\">", RowsHtml(figure.data, rows), "</div></details>\n");
  return html;
}

std::string ShownTable(const Figure& figure) {
  if (figure.table.empty()) return "";
  return absl::StrCat("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: ",
                      Escaped(figure.title), "\">", RowsHtml(figure.table, figure.table.size()),
                      "</div>\n");
}

std::string FigureHtml(const Figure& figure) {
  return absl::StrCat("<figure id=\"figure-", figure.id, "\">\n<h2>", Escaped(figure.title),
                      "</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
                      Escaped(figure.title), "\">\n", figure.svg.Inline(), "</div>\n<figcaption>",
                      Escaped(figure.caption), "</figcaption>\n", ShownTable(figure),
                      DataTable(figure), "</figure>\n");
}

// The runs that failed or have problems, each with the known reasons.
std::string Troubles(const ReportRuns& report) {
  std::string rows;
  for (const ReportRun& run : report.runs) {
    const bool fine = run.status == ReportStatus::kFinished ||
                      run.status == ReportStatus::kStopped || run.status == ReportStatus::kWaiting;
    std::vector<std::string> words = run.data.problems;
    if (!run.detail.empty() && !fine) words.insert(words.begin(), run.detail);
    if (fine && words.empty()) continue;
    absl::StrAppend(&rows, "<tr><td>", Escaped(run.label), ", seed ", run.seed,
                    "</td><td class=\"word bad\">", NameOf(run.status), "</td><td class=\"word\">",
                    Escaped(absl::StrJoin(words, "; ")), "</td><td class=\"word\">",
                    Escaped(run.data.dir), "</td></tr>\n");
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "<h2 id=\"troubles\">Runs with something missing</h2>\n<div class=\"scroll\" tabindex=\"0\" "
      "role=\"region\" aria-label=\"Runs with something missing\"><table><thead><tr><th "
      "scope=\"col\">run</th><th scope=\"col\" class=\"word\">status</th><th scope=\"col\" "
      "class=\"word\">what</th><th scope=\"col\" class=\"word\">where</th></tr></thead><tbody>\n",
      rows, "</tbody></table></div>\n");
}

std::string Legend(const ReportRuns& report) {
  if (report.legend.empty()) return "";
  std::string html = "<details><summary>What the runs differ in</summary><ul>\n";
  for (const auto& [label, meaning] : report.legend) {
    absl::StrAppend(&html, "<li><b>", Escaped(label), "</b>: ", Escaped(meaning), "</li>\n");
  }
  return html + "</ul></details>\n";
}

std::string CountsText(const ReportRuns& report) {
  std::map<ReportStatus, int> counts;
  for (const ReportRun& run : report.runs) ++counts[run.status];
  return absl::StrCat(report.runs.size(), report.runs.size() == 1 ? " run: " : " runs: ",
                      absl::StrJoin(counts, ", ", [](std::string* out, const auto& count) {
                        absl::StrAppend(out, count.second, " ", NameOf(count.first));
                      }));
}

}  // namespace

std::string ReportPage(const ReportRuns& report, const ReportTable& table,
                       const std::vector<Figure>& figures) {
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link "
      "rel=\"icon\" href=\"data:,\">\n<title>",
      Escaped(report.title), "</title>\n<style>", kPageStyle, kDrawingStyle,
      "</style>\n</head>\n<body>\n<main>\n<h1>", Escaped(report.title), "</h1>\n");
  if (!report.question.empty()) {
    absl::StrAppend(&html, "<p class=\"question\">", Escaped(report.question), "</p>\n");
  }
  absl::StrAppend(
      &html, "<p>", CountsText(report),
      ". The dense synchronous twin sends whole updates, and its workers "
      "step together; others are compared with the twin of the same seed, in ",
      report.metric.share ? "points of " : "", report.metric.name,
      ". Means of seeds come with their standard deviation, unless it is next to nothing; repeats "
      "of "
      "a seed are averaged and count once. Behind bytes: how many times less that is than "
      "fp32.</p>\n");
  for (const std::string& note : report.notes)
    absl::StrAppend(&html, "<p>", Escaped(note), "</p>\n");
  absl::StrAppend(
      &html,
      "<h2>Table</h2>\n<p class=\"screen\">A click on a column's name sorts by it. As a file: ",
      DownloadLink("configurations", TableCsv(table)),
      "; all runs, one a row: ", DownloadLink("runs", RunsCsv(report)), ".</p>\n", MainTable(table),
      Legend(report));
  for (const Figure& figure : figures) html += FigureHtml(figure);
  absl::StrAppend(&html, Troubles(report),
                  "</main>\n<div id=\"tip\" aria-hidden=\"true\"></div>\n<script>", kPageScript,
                  "</script>\n</body>\n</html>\n");
  return html;
}

}  // namespace psgd
