// The results of earlier benchmarks, a JSON object a line, as scripts/bench.sh appends them. What a
// line has besides date, machine, commit and result are settings.
#pragma once

#include <string>
#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"

namespace psgd {

struct HistoryEntry {
  std::string date;     // 2026-11-25
  std::string machine;  // processor and cores
  std::string commit;   // with a + if there were changes beside it
  BenchRow row;
};

// INVALID_ARGUMENT names the line that is no entry.
absl::StatusOr<std::vector<HistoryEntry>> ReadHistory(const std::string& path);

// For each machine, and case with its settings: the first and the last ratio to the machine's
// limit, and the change.
std::string HistoryText(const std::vector<HistoryEntry>& entries);
// A page with a plot for each machine and benchmark.
std::string HistoryPage(const std::vector<HistoryEntry>& entries);

}  // namespace psgd
