#include "experiment/sweep/sweep_display.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/utf8.h"
#include "experiment/record/readable.h"

namespace psgd {
namespace {

constexpr Duration kRedrawPeriod = std::chrono::milliseconds(250);
constexpr int kNarrowestLabel = 16;
constexpr int kLinesWithHeader = 8;  // a terminal of fewer lines gets no header

using Row = std::vector<std::string>;

// Empty: a program did not measure it.
std::string ScoreText(const CurvePoint& point) {
  const Score& score = point.score;
  if (score.metric == nullptr) return "";
  return score.metric->share ? absl::StrFormat("%.1f %%", score.value * 100)
                             : score.metric->ShortText(score.value);
}

Row RowOf(const ActiveRun& run) {
  Row row = {run.metrics->curve().empty() ? "starting" : "running",
             run.label,
             "",
             "",
             "",
             "",
             ReadableTime(run.seconds)};
  const Record& progress = run.metrics->progress();
  if (progress.is_object()) {
    row[0] = "running";
    // A program may say for how many epochs it trains.
    const int epochs = static_cast<int>(NumberIn(progress, "epochs"));
    row[2] =
        absl::StrFormat("%.2f/%d", NumberIn(progress, "epoch"), epochs > 0 ? epochs : run.epochs);
    // Programs need not tell the loss of their steps.
    if (const double loss = NumberIn(progress, "loss"); loss != 0)
      row[3] = absl::StrFormat("%.3f", loss);
    row[5] = ReadableCount(NumberIn(progress, "samples_per_second"));
  }
  if (!run.metrics->curve().empty()) row[4] = ScoreText(run.metrics->curve().back());
  return row;
}

Row RowOf(const EndedRun& run) {
  if (!run.last) return {run.state, run.label};
  return {run.state,
          run.label,
          ReadableEpoch(run.last->epoch),
          absl::StrFormat("%.3f", run.last->loss),
          ScoreText(*run.last),
          "",
          ReadableTime(run.seconds)};
}

std::vector<std::string> Aligned(const std::vector<Row>& rows, bool header) {
  TextTable table(header ? Row{"", "run", "epoch", "loss", "test", "samples/s", "time"} : Row());
  for (const Row& row : rows) table.Add(row);
  return absl::StrSplit(table.Text(), '\n', absl::SkipEmpty());
}

std::vector<Row> LastRows(const std::vector<EndedRun>& runs, size_t count) {
  std::vector<Row> rows;
  for (size_t i = runs.size() - std::min(runs.size(), count); i < runs.size(); ++i)
    rows.push_back(RowOf(runs[i]));
  return rows;
}

std::vector<Row> RowsFor(const SweepView& view, size_t room) {
  // A few ended and waiting runs are enough. If space is short, they are left out first.
  const size_t few = room >= 20 ? kMostOfAKind : room >= 12 ? 3 : room >= 5 ? 1 : 0;
  std::vector<Row> rows = LastRows(view.ended, few);
  for (Row& row : LastRows(view.failed, few)) rows.push_back(std::move(row));
  const size_t next = std::min(view.next.size(), few);
  const size_t for_active = room - std::min(room, rows.size() + next);
  const bool all = view.active.size() <= for_active;
  const size_t active = all ? view.active.size() : for_active - std::min<size_t>(for_active, 1);
  for (size_t i = 0; i < active; ++i) rows.push_back(RowOf(view.active[i]));
  if (!all && for_active > 0) {
    rows.push_back({"running", absl::StrCat("and ", view.active.size() - active, " more")});
  }
  for (size_t i = 0; i < next; ++i) rows.push_back({"next", view.next[i]});
  return rows;
}

}  // namespace

std::string CountsLine(const std::string& name, const SweepCounts& counts, size_t active,
                       double seconds_left) {
  std::string line = absl::StrCat(name, ": ", counts.finished, " of ", counts.runs, " finished");
  const auto add = [&](size_t count, const char* word) {
    if (count > 0) absl::StrAppend(&line, ", ", count, " ", word);
  };
  add(counts.stopped, "stopped early");
  add(counts.failed, "failed");
  add(counts.interrupted, "interrupted");
  add(active, "running");
  add(counts.waiting, "waiting");
  if (seconds_left >= 0) absl::StrAppend(&line, "  ETA ", ReadableTime(seconds_left));
  return line;
}

std::vector<std::string> SweepLines(const std::string& name, const SweepView& view, int width,
                                    int height) {
  const auto columns = static_cast<size_t>(std::max(width - 1, 0));
  std::vector<std::string> lines = {
      CountsLine(name, view.counts, view.active.size(), view.seconds_left)};
  const bool header = height >= kLinesWithHeader;
  std::vector<Row> rows =
      RowsFor(view, static_cast<size_t>(std::max(height - 1 - (header ? 1 : 0), 0)));
  // Labels get the width that the figures leave. Rows without figures use the full width.
  size_t states = 0, taken = 0;
  std::vector<Row> figures = rows;
  for (Row& row : figures) {
    states = std::max(states, row[0].size());
    row[1].clear();
  }
  for (const std::string& line : Aligned(figures, header)) taken = std::max(taken, line.size());
  const size_t room = std::max<size_t>(kNarrowestLabel, columns - std::min(columns, taken));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() > 2)
      figures[i][1] = rows[i][1].size() > room ? absl::StrCat(StartOf(rows[i][1], room - 3), "...")
                                               : rows[i][1];
  }
  for (std::string& line : Aligned(figures, header)) lines.push_back(std::move(line));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() > 2) continue;
    std::string& line = lines[lines.size() - rows.size() + i];
    line.resize(states + 4, ' ');
    line += rows[i][1];
  }
  for (std::string& line : lines) line = std::string(StartOf(line, columns));
  return lines;
}

void SweepDisplay::Update(const SweepView& view) {
  if (!table()) return;
  // Redraws often enough to show movement, but not faster than people read.
  if (drawn_ > 0 && SteadyNow() - drawn_at_ < kRedrawPeriod) return;
  drawn_at_ = SteadyNow();
  Clear();
  // The cursor needs the last line.
  const std::vector<std::string> lines =
      SweepLines(options_.name, view, TerminalWidth(options_.fd), TerminalHeight(options_.fd) - 1);
  drawn_ = lines.size();
  Write(absl::StrJoin(lines, "\n") + "\n");
}

void SweepDisplay::Note(const std::string& text, bool important) {
  if (options_.quiet && !important) return;
  Clear();
  Write(text + "\n");
}

void SweepDisplay::Event(const std::string& text) {
  if (!table()) Note(text);
}

void SweepDisplay::Clear() {
  if (drawn_ > 0) Write(absl::StrCat("\033[", drawn_, "F\033[J"));
  drawn_ = 0;
}

void SweepDisplay::Write(const std::string& text) {
  // An error is ignored: standard error may be closed.
  (void)!write(options_.fd, text.data(), text.size());
}

}  // namespace psgd
