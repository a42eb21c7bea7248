#include "experiment/sweep/sweep_display.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiment/readable.h"

namespace psgd {
namespace {

constexpr Duration kRedrawPeriod = std::chrono::milliseconds(250);
constexpr int kNarrowestLabel = 24;
constexpr size_t kMostLines = 12;  // of runs that go on

}  // namespace

std::string ActiveLine(const ActiveRun& run, int width) {
  std::string figures;
  const Record& progress = run.metrics->progress();
  if (progress.is_object()) {
    absl::StrAppendFormat(&figures, "  epoch %.2f/%d  loss %.3f", NumberIn(progress, "epoch"),
                          run.epochs, NumberIn(progress, "loss"));
  } else {
    figures = "  starting";
  }
  if (!run.metrics->curve().empty()) {
    absl::StrAppendFormat(&figures, "  test %.1f %%", run.metrics->curve().back().accuracy * 100);
  }
  if (progress.is_object()) {
    absl::StrAppend(&figures, "  ", ReadableCount(NumberIn(progress, "samples_per_second")),
                    " samples/s");
  }
  absl::StrAppend(&figures, "  ", ReadableTime(run.seconds));
  const int room = std::max(kNarrowestLabel, width - 3 - static_cast<int>(figures.size()));
  std::string label = run.label;
  if (static_cast<int>(label.size()) > room)
    label = label.substr(0, static_cast<size_t>(room) - 3) + "...";
  return absl::StrCat("  ", label, figures).substr(0, static_cast<size_t>(std::max(width - 1, 0)));
}

std::string CountsLine(const std::string& name, const SweepCounts& counts, size_t active,
                       double seconds_left) {
  std::string line = absl::StrCat(name, ": ", counts.finished, " of ", counts.runs, " finished");
  const auto add = [&](size_t count, const char* word) {
    if (count > 0) absl::StrAppend(&line, ", ", count, " ", word);
  };
  add(counts.stopped, "stopped early");
  add(counts.failed, "failed");
  add(active, "running");
  add(counts.waiting, "waiting");
  if (seconds_left >= 0) absl::StrAppend(&line, "  ETA ", ReadableTime(seconds_left));
  return line;
}

void SweepDisplay::Update(const SweepCounts& counts, const std::vector<ActiveRun>& active,
                          double seconds_left) {
  if (options_.quiet || !options_.terminal.interactive) return;
  // Often enough to see it move, and no faster than anybody reads.
  if (drawn_ > 0 && SteadyNow() - drawn_at_ < kRedrawPeriod) return;
  drawn_at_ = SteadyNow();
  Clear();
  const int width = TerminalWidth(options_.fd);
  std::string text = CountsLine(options_.name, counts, active.size(), seconds_left)
                         .substr(0, static_cast<size_t>(std::max(width - 1, 0))) +
                     "\n";
  drawn_ = 1;
  for (const ActiveRun& run : active) {
    if (drawn_ > kMostLines) break;
    absl::StrAppend(&text, ActiveLine(run, width), "\n");
    ++drawn_;
  }
  Write(text);
}

void SweepDisplay::Note(const std::string& text, bool important) {
  if (options_.quiet && !important) return;
  Clear();
  Write(text + "\n");
}

void SweepDisplay::Clear() {
  if (drawn_ > 0) Write(absl::StrCat("\033[", drawn_, "F\033[J"));
  drawn_ = 0;
}

void SweepDisplay::Write(const std::string& text) {
  // Nothing can be done for somebody who closed standard error.
  (void)!write(options_.fd, text.data(), text.size());
}

}  // namespace psgd
