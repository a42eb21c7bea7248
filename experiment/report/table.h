// The table of a report: a row for each group of runs, in every form that it is shown in.
#pragma once

#include <string>
#include <vector>

#include "experiment/report/groups.h"

namespace psgd {

struct TableCell {
  std::string text;    // for people
  std::string number;  // to sort by, and for machines; empty: it is a word, or there is none
  std::string spread;  // over seeds, for machines; empty: there are no two
  std::string brief;   // the text without the spread
};

struct ReportTable {
  std::vector<std::string> columns;
  std::vector<std::vector<TableCell>> rows;
  std::vector<bool> twin;  // rows that others are compared with
};

ReportTable TableOf(const ReportRuns& report, const std::vector<ReportGroup>& groups);

std::string TableMarkdown(const ReportTable& table);
// Below it, what labels stand for; empty: they speak for themselves.
std::string LegendMarkdown(const ReportRuns& report);
// Lines wider than that do without the spreads of all but accuracies.
std::string TableText(const ReportTable& table, size_t width);
// A column more for the spread of each that has one.
std::string TableCsv(const ReportTable& table);

// A row for each run, all that is known of it: for spreadsheets.
std::string RunsCsv(const ReportRuns& report);

// Cells in quotes where they need them.
std::string Csv(const std::vector<std::vector<std::string>>& rows);

}  // namespace psgd
