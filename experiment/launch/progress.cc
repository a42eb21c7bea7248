#include "experiment/launch/progress.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/metrics.h"
#include "common/units.h"
#include "experiment/launch/codec_choices_text.h"
#include "experiment/record/detail_record.h"
#include "experiment/record/evaluation_record.h"
#include "experiment/record/readable.h"
#include "proto/local_steps.h"
#include "proto/measure_of.h"
#include "proto/phases.h"

namespace psgd {
namespace {

constexpr Duration kWindow = std::chrono::seconds(10);
constexpr Duration kPlainPeriod = std::chrono::seconds(10);  // between lines where nobody watches
constexpr double kLeastDone = 0.005;    // below this, the time left cannot be estimated
constexpr double kNotableStall = 0.05;  // a smaller stall is not shown
constexpr int kWidestBar = 30;
constexpr int kNarrowestBar = 8;
constexpr char kGreen[] = "\033[32m";
constexpr char kDim[] = "\033[2m";
constexpr char kPlain[] = "\033[0m";
constexpr char kEraseLine[] = "\r\033[K";

std::pair<uint64_t, double> MadeAt(const EvalResult& result) {
  return {result.clock(), result.epoch()};
}

std::string Staleness(const StatusReply& status) {
  const CountHistogram seen = CountHistogram::FromCounts(status.total().pull_staleness());
  return absl::StrFormat("stale %.1f/%d", seen.Mean(), seen.max());
}

std::string Pushed(const StatusReply& status) {
  const double sent = static_cast<double>(status.total().bytes_pushed());
  const double dense = static_cast<double>(status.total().bytes_pushed_dense());
  return absl::StrCat("pushed ", HumanBytes(sent), " of ", HumanBytes(dense),
                      sent > 0 ? absl::StrCat(" (", ReadableRatio(dense, sent), ")") : "");
}

std::string Epoch(const StatusReply& status) {
  return absl::StrFormat("epoch %.2f/%d", status.epoch(), status.epochs());
}

std::string Rate(const ProgressRate& rate) {
  return absl::StrCat(ReadableCount(rate.samples_per_second()), " samples/s");
}

std::string Left(const ProgressRate& rate) {
  return rate.seconds_left() < 0 ? "" : absl::StrCat("ETA ", ReadableTime(rate.seconds_left()));
}

std::string Bar(double share, int width, bool color) {
  const int full = std::clamp(static_cast<int>(share * width), 0, width);
  std::string done(full, '=');
  if (full > 0 && full < width) done.back() = '>';
  const std::string rest(width - full, '.');
  if (!color) return absl::StrCat("[", done, rest, "]");
  return absl::StrCat("[", kGreen, done, kPlain, kDim, rest, kPlain, "]");
}

// A part of the line. If space is short, the part with the highest rank is dropped first.
struct Part {
  std::string text;
  int rank = 0;
};

std::vector<Part> Parts(const StatusReply& status, const ProgressRate& rate) {
  std::vector<Part> parts{{Epoch(status), 0}};
  if (TellsLoss(status))
    parts.push_back({absl::StrCat("loss ", status.train_loss() < 1e6
                                               ? absl::StrFormat("%.3f", status.train_loss())
                                               : absl::StrFormat("%.3g", status.train_loss())),
                     1});
  if (TellsAccuracy(status)) {
    parts.push_back({absl::StrFormat("train %.1f %%", status.train_accuracy() * 100), 4});
  }
  const Score test =
      status.evaluations().empty() ? Score() : ScoreOf(*status.evaluations().rbegin());
  if (test.metric != nullptr && test.metric->share) {
    parts.push_back({absl::StrFormat("test %.1f %%", test.value * 100), 3});
  } else if (test.metric != nullptr) {
    parts.push_back(
        {absl::StrCat("test ", test.metric->name, " ", test.metric->ShortText(test.value)), 3});
  }
  parts.push_back({Rate(rate), 5});
  if (const double stall = InputStall(status.total()); stall >= kNotableStall) {
    parts.push_back({absl::StrFormat("data wait %.0f %%", 100 * stall), 3});
  }
  parts.push_back({Staleness(status), 7});
  parts.push_back({Pushed(status), 6});
  if (const std::string left = Left(rate); !left.empty()) parts.push_back({left, 2});
  return parts;
}

int WidthOf(const std::vector<Part>& parts) {
  int width = 0;
  for (const Part& part : parts) width += 2 + static_cast<int>(part.text.size());
  return width;
}

}  // namespace

void ProgressRate::Add(const StatusReply& status, Time now) {
  samples_.push_back({now, static_cast<double>(status.total().samples()), ShareDone(status)});
  if (!first_) first_ = samples_.back();
  while (samples_.size() > 2 && now - samples_.front().at > kWindow) samples_.pop_front();
}

double ProgressRate::samples_per_second() const {
  if (samples_.size() < 2) return 0;
  const double seconds = Seconds(samples_.back().at - samples_.front().at);
  return seconds > 0 ? (samples_.back().samples - samples_.front().samples) / seconds : 0;
}

double ProgressRate::seconds_left() const {
  if (samples_.empty()) return -1;
  const Sample& now = samples_.back();
  const double done = now.done - first_->done;
  if (done < kLeastDone) return -1;
  return (1 - now.done) * Seconds(now.at - first_->at) / done;
}

double ShareDone(const StatusReply& status) {
  double share = status.epochs() > 0 ? status.epoch() / status.epochs() : 0;
  if (const auto steps = status.config().train().max_steps(); steps > 0) {
    // Clocks of local steps may have fewer steps than configured: an epoch ends some, and
    // local.least shortens others. The steps of a usual worker say how far the run is.
    const Config& config = status.config();
    const double done =
        TakesLocalSteps(config.local())
            ? static_cast<double>(status.total().steps()) / std::max(1, config.cluster().workers())
            : static_cast<double>(status.clock());
    share = std::max(share, done / static_cast<double>(steps));
  }
  return std::clamp(share, 0.0, 1.0);
}

std::string ProgressBar(const StatusReply& status, const ProgressRate& rate, int width,
                        bool color) {
  std::vector<Part> parts = Parts(status, rate);
  // The last column is for the cursor.
  const int room = width - 1;
  while (parts.size() > 1 && WidthOf(parts) + kNarrowestBar + 2 > room) {
    parts.erase(std::ranges::max_element(parts, {}, &Part::rank));
  }
  std::string line;
  const int bar = std::min(kWidestBar, room - WidthOf(parts) - 2);
  if (bar >= kNarrowestBar) line = Bar(ShareDone(status), bar, color);
  for (const Part& part : parts) absl::StrAppend(&line, line.empty() ? "" : "  ", part.text);
  if (bar < kNarrowestBar) line.resize(std::min<size_t>(line.size(), std::max(room, 0)));
  return line;
}

std::string ProgressText(const StatusReply& status, const ProgressRate& rate) {
  std::string line;
  for (const Part& part : Parts(status, rate)) {
    absl::StrAppend(&line, line.empty() ? "" : ", ", part.text);
  }
  return line;
}

std::string EvaluationText(const EvalResult& result, uint32_t epochs) {
  return absl::StrFormat("epoch %s/%d: test %s", ReadableEpoch(result.epoch()), epochs,
                         ResultText(result));
}

void ProgressDisplay::Update(const StatusReply& status) {
  const Time now = SteadyNow();
  if (!started_) {
    // Evaluations before a resume are not new.
    started_ = true;
    if (!status.evaluations().empty()) evaluated_ = MadeAt(*status.evaluations().rbegin());
    last_plain_ = now;
  }
  if (status.state() != StatusReply::WAITING) rate_.Add(status, now);
  const auto shown = evaluated_;
  ShowEvaluations({status.evaluations().begin(), status.evaluations().end()}, status.epochs());
  if (evaluated_ != shown) last_plain_ = now;
  ShowChoices(status.choices());
  if (options_.quiet) return;
  if (options_.terminal.interactive) {
    Draw(status);
  } else if (now - last_plain_ >= kPlainPeriod) {
    last_plain_ = now;
    const bool waiting = status.state() == StatusReply::WAITING;
    Note(waiting ? absl::StrCat("waiting: ", status.detail()) : ProgressText(status, rate_));
  }
}

void ProgressDisplay::ShowEvaluations(const std::vector<EvalResult>& evaluations, uint32_t epochs) {
  for (const EvalResult& result : evaluations) {
    if (MadeAt(result) <= evaluated_) continue;
    evaluated_ = MadeAt(result);
    Note(EvaluationText(result, epochs));
  }
}

void ProgressDisplay::ShowChoices(const CodecChoices& choices) {
  const std::pair<uint32_t, uint64_t> made{choices.worker(), choices.clock()};
  if (choices.tensors().empty() || made == chosen_) return;
  chosen_ = made;
  // The text begins and ends with line ends; Note adds one.
  Note(std::string(absl::StripAsciiWhitespace(CodecChoicesText(choices))));
}

void ProgressDisplay::Draw(const StatusReply& status) {
  const int width = TerminalWidth(options_.fd);
  std::string line;
  if (status.state() == StatusReply::WAITING) {
    line = absl::StrCat("waiting: ", status.detail()).substr(0, std::max(width - 1, 0));
  } else {
    line = ProgressBar(status, rate_, width, options_.terminal.color);
  }
  Write(absl::StrCat(kEraseLine, line));
  drawn_ = true;
}

void ProgressDisplay::Note(const std::string& text, bool important) {
  if (options_.quiet && !important) return;
  Clear();
  Write(absl::StrCat(text, "\n"));
}

void ProgressDisplay::Clear() {
  if (drawn_) Write(kEraseLine);
  drawn_ = false;
}

void ProgressDisplay::Write(const std::string& text) {
  // An error is ignored: standard error may be closed.
  (void)!write(options_.fd, text.data(), text.size());
}

}  // namespace psgd
