// How a sweep is going, for people: a table that is redrawn on a terminal, plain lines elsewhere.
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
  size_t finished = 0;  // in this sitting or before
  size_t stopped = 0;   // early, by asha
  size_t failed = 0;
  size_t interrupted = 0;  // begun, and to go on another time
  size_t waiting = 0;
};

// A run that goes on.
struct ActiveRun {
  std::string label;
  double seconds = 0;  // since it was started
  int epochs = 0;
  const MetricsFollower* metrics = nullptr;
};

// A run that does not any more.
struct EndedRun {
  std::string state;   // "finished", "stopped" or "failed"
  std::string label;   // with the reason, if it failed
  double seconds = 0;  // that it took
  std::optional<CurvePoint> last;
};

// What the table shows, as far as there is room for it.
struct SweepView {
  SweepCounts counts;
  double seconds_left = -1;  // negative while there is no telling
  std::vector<ActiveRun> active;
  std::vector<EndedRun> ended;    // well or stopped early; the latest comes last
  std::vector<EndedRun> failed;   // likewise
  std::vector<std::string> next;  // labels of the first of those that wait
};

// As many of those that ended, and of those that wait, as a view needs to have.
inline constexpr size_t kMostOfAKind = 5;

// Lines of the table, no more than `height`, none of `width` or wider.
std::vector<std::string> SweepLines(const std::string& name, const SweepView& view, int width,
                                    int height);
std::string CountsLine(const std::string& name, const SweepCounts& counts, size_t active,
                       double seconds_left);

struct SweepDisplayOptions {
  int fd = 2;
  Terminal terminal;
  bool quiet = false;  // notes of what went wrong only
  std::string name;
};

// Not thread-safe.
class SweepDisplay {
 public:
  explicit SweepDisplay(SweepDisplayOptions options) : options_(std::move(options)) {}
  ~SweepDisplay() { Clear(); }

  void Update(const SweepView& view);
  // A line that stays.
  void Note(const std::string& text, bool important = false);
  // What the table tells, where there is one; elsewhere a line.
  void Event(const std::string& text);
  void Clear();

 private:
  bool table() const { return options_.terminal.interactive && !options_.quiet; }
  void Write(const std::string& text);

  const SweepDisplayOptions options_;
  size_t drawn_ = 0;  // lines that are to be redrawn
  Time drawn_at_{};
};

}  // namespace psgd
