// The table of a report, with a row per group of runs, in all its formats.
#pragma once

#include <string>
#include <vector>

#include "experiment/report/groups.h"

namespace psgd {

struct TableCell {
  std::string text;    // for people
  std::string number;  // for sorting and for machines; empty: a word, or no value
  std::string spread;  // over seeds, for machines; empty: fewer than two seeds
  std::string brief;   // the text without the spread
};

struct ReportTable {
  std::vector<std::string> columns;
  std::vector<std::vector<TableCell>> rows;
  std::vector<bool> twin;  // the rows that others are compared with
};

ReportTable TableOf(const ReportRuns& report, const std::vector<ReportGroup>& groups);

std::string TableMarkdown(const ReportTable& table);
// The meaning of the labels, shown below the table. Empty: labels need no explanation.
std::string LegendMarkdown(const ReportRuns& report);
// Which rows have one evaluation, so that nothing says how training went on. Empty: none.
std::string EvaluationsMarkdown(const ReportRuns& report, const std::vector<ReportGroup>& groups);
// If a line is wider than `width`, only accuracies keep their spreads.
std::string TableText(const ReportTable& table, size_t width);
// Each value with a spread has an extra column for it.
std::string TableCsv(const ReportTable& table);

// One row per run with all its data, for spreadsheets.
std::string RunsCsv(const ReportRuns& report);

// Quotes cells where necessary.
std::string Csv(const std::vector<std::vector<std::string>>& rows);

}  // namespace psgd
