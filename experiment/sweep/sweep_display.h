// Shows people how a sweep goes: a redrawn table on a terminal, plain lines elsewhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "experiment/launch/terminal.h"
#include "experiment/report/run_data.h"

namespace psgd {

struct SweepCounts {
  size_t runs = 0;
  size_t finished = 0;  // also before this ps-sweep started
  size_t stopped = 0;   // early, by asha
  size_t failed = 0;
  size_t interrupted = 0;  // begun, and to be continued later
  size_t waiting = 0;
};

// A run in progress.
struct ActiveRun {
  std::string label;
  double seconds = 0;  // since it was started
  int epochs = 0;
  const MetricsFollower* metrics = nullptr;
};

// A run that has ended.
struct EndedRun {
  std::string state;   // "finished", "stopped" or "failed"
  std::string label;   // includes the reason of a failure
  double seconds = 0;  // its duration
  std::optional<CurvePoint> last;
};

// The content of the table, which shows as much as fits.
struct SweepView {
  SweepCounts counts;
  double seconds_left = -1;  // negative: unknown
  std::vector<ActiveRun> active;
  std::vector<EndedRun> ended;    // finished or stopped early; the latest is last
  std::vector<EndedRun> failed;   // the latest is last
  std::vector<std::string> next;  // labels of the first waiting runs
};

// The most ended runs, and the most waiting runs, that a view needs.
inline constexpr size_t kMostOfAKind = 5;

// Returns at most `height` lines, each shorter than `width`.
std::vector<std::string> SweepLines(const std::string& name, const SweepView& view, int width,
                                    int height);
std::string CountsLine(const std::string& name, const SweepCounts& counts, size_t active,
                       double seconds_left);

struct SweepDisplayOptions {
  int fd = 2;
  Terminal terminal;
  bool quiet = false;  // only notes about problems
  std::string name;
};

// Not thread-safe.
class SweepDisplay {
 public:
  explicit SweepDisplay(SweepDisplayOptions options) : options_(std::move(options)) {}
  ~SweepDisplay() { Clear(); }

  void Update(const SweepView& view);
  // Writes a line that stays.
  void Note(const std::string& text, bool important = false);
  // Writes a line, unless a table shows the event.
  void Event(const std::string& text);
  void Clear();

 private:
  bool table() const { return options_.terminal.interactive && !options_.quiet; }
  void Write(const std::string& text);

  const SweepDisplayOptions options_;
  size_t drawn_ = 0;  // lines to redraw
  Time drawn_at_{};
};

}  // namespace psgd
