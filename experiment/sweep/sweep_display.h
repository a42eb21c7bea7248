// How a sweep is going, for people: a table that is redrawn on a terminal, plain lines elsewhere.
#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "experiment/report/run_data.h"
#include "experiment/terminal.h"

namespace psgd {

struct SweepCounts {
  size_t runs = 0;
  size_t finished = 0;  // in this sitting or before
  size_t stopped = 0;   // early, by asha
  size_t failed = 0;
  size_t waiting = 0;
};

// A run that goes on.
struct ActiveRun {
  std::string label;
  double seconds = 0;  // since it was started
  int epochs = 0;
  const MetricsFollower* metrics = nullptr;
};

// "  push topk, staleness 4, seed 1  epoch 1.28/2  loss 0.371  test 79.6 %  8.13 k samples/s  43
// s", no wider than `width`.
std::string ActiveLine(const ActiveRun& run, int width);
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

  // `seconds_left` is negative while there is no telling.
  void Update(const SweepCounts& counts, const std::vector<ActiveRun>& active, double seconds_left);
  // A line that stays.
  void Note(const std::string& text, bool important = false);
  void Clear();

 private:
  void Write(const std::string& text);

  const SweepDisplayOptions options_;
  size_t drawn_ = 0;  // lines that are to be redrawn
  Time drawn_at_{};
};

}  // namespace psgd
