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

// The rate over the last seconds, and the time that is left as the whole run so far foretells it.
// Not thread-safe.
class ProgressRate {
 public:
  void Add(const StatusReply& status, Time now);
  double samples_per_second() const;
  // Negative: there is no telling yet.
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

// The share of the run that is done, 0 to 1; train.max_steps may end it before its epochs.
double ShareDone(const StatusReply& status);

// The line, no wider than `width`: what matters least goes first where the space is short.
std::string ProgressBar(const StatusReply& status, const ProgressRate& rate, int width, bool color);
std::string ProgressText(const StatusReply& status, const ProgressRate& rate);
std::string EvaluationText(const EvalResult& result, uint32_t epochs);

struct ProgressOptions {
  int fd = 2;
  Terminal terminal;
  bool quiet = false;                                // notes only
  Duration plain_period = std::chrono::seconds(10);  // between plain lines
};

// Not thread-safe.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(ProgressOptions options) : options_(options) {}
  ~ProgressDisplay() { Clear(); }

  void Update(const StatusReply& status);
  // A line for each that has not had one yet, in the order they were made.
  void ShowEvaluations(const std::vector<EvalResult>& evaluations, uint32_t epochs);
  // Once each; none where there are none.
  void ShowChoices(const CodecChoices& choices);
  // A line that stays; shown even when quiet if it is `important`.
  void Note(const std::string& text, bool important = false);
  // Takes the redrawn line away.
  void Clear();

 private:
  void Draw(const StatusReply& status);
  void Write(const std::string& text);

  const ProgressOptions options_;
  ProgressRate rate_;
  bool started_ = false;
  std::pair<uint64_t, double> evaluated_;  // clock and epoch of the last that was shown
  std::pair<uint32_t, uint64_t> chosen_;   // worker and clock of the choices shown last
  Time last_plain_{};
  bool drawn_ = false;
};

}  // namespace psgd
