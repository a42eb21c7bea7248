// Live progress of a run, for people: one redrawn line on a terminal, plain lines elsewhere.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "experiment/launch/terminal.h"
#include "proto/control.pb.h"

namespace psgd {

// The rate over the last seconds, and the time left, estimated from the whole run so far.
// Not thread-safe.
class ProgressRate {
 public:
  void Add(const StatusReply& status, Time now);
  double samples_per_second() const;
  // Negative: unknown yet.
  double seconds_left() const;

 private:
  struct Sample {
    Time at;
    double samples;
    double done;
  };
  std::deque<Sample> samples_;  // of the last seconds
  std::optional<Sample> first_;
};

// The share of the run that is done, 0 to 1. train.max_steps may end the run before its epochs.
double ShareDone(const StatusReply& status);

// The progress line, at most `width` wide. If space is short, the least important parts are left
// out.
std::string ProgressBar(const StatusReply& status, const ProgressRate& rate, int width, bool color);
std::string ProgressText(const StatusReply& status, const ProgressRate& rate);
std::string EvaluationText(const EvalResult& result, uint32_t epochs);

struct ProgressOptions {
  int fd = 2;
  Terminal terminal;
  bool quiet = false;  // only notes
};

// Not thread-safe.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(ProgressOptions options) : options_(options) {}
  ~ProgressDisplay() { Clear(); }

  void Update(const StatusReply& status);
  // Writes a line for each evaluation that is not shown yet, in order.
  void ShowEvaluations(const std::vector<EvalResult>& evaluations, uint32_t epochs);
  // Shows each set of choices once. Shows nothing if there are none.
  void ShowChoices(const CodecChoices& choices);
  // Writes a line that stays. Quiet mode shows only `important` lines.
  void Note(const std::string& text, bool important = false);
  // Removes the redrawn line.
  void Clear();

 private:
  void Draw(const StatusReply& status);
  void Write(const std::string& text);

  const ProgressOptions options_;
  ProgressRate rate_;
  bool started_ = false;
  std::pair<uint64_t, double> evaluated_;  // clock and epoch of the last evaluation shown
  std::pair<uint32_t, uint64_t> chosen_;   // worker and clock of the last choices shown
  Time last_plain_{};
  bool drawn_ = false;
};

}  // namespace psgd
