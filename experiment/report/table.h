// The table of a report: a row for each group of runs, in every form that it is shown in.
#pragma once

#include <string>
#include <vector>

#include "experiment/report/groups.h"

namespace psgd {

struct TableCell {
  std::string text;    // for people
  std::string number;  // to sort by, and for machines; empty: it is a word, or there is none
};

struct ReportTable {
  std::vector<std::string> columns;
  std::vector<std::vector<TableCell>> rows;
  std::vector<bool> twin;  // rows that others are compared with
};

ReportTable TableOf(const ReportRuns& report, const std::vector<ReportGroup>& groups);

std::string TableMarkdown(const ReportTable& table);
std::string TableText(const ReportTable& table);

// A row for each run, all that is known of it: for spreadsheets.
std::string RunsCsv(const ReportRuns& report);

// A cell of a CSV file, in quotes where it needs them.
std::string CsvCell(const std::string& text);

}  // namespace psgd
