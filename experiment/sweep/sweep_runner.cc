#include "experiment/sweep/sweep_runner.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/first_measure.h"
#include "experiment/launch/local_run.h"
#include "experiment/launch/resume_advice.h"
#include "experiment/record/readable.h"
#include "experiment/record/run_dir.h"
#include "experiment/record/summary.h"
#include "server/durability/checkpoint_files.h"

namespace psgd {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(50);
constexpr Duration kLookPeriod = std::chrono::milliseconds(500);
constexpr int kLogLines = 24;
constexpr int kMostPlaces = 5;
constexpr size_t kUnbegun = 3;  // runs that fail before they train: the sweep is at fault
// A file that another machine writes to a shared folder may appear late.
constexpr Duration kSettles = std::chrono::seconds(60);

bool HasFinished(const SweepDir& dir, const std::string& id) {
  const auto summary = ReadSummary(RunDir(dir.RunPath(id)).SummaryFile());
  return summary.ok() && summary->status == Summary::Status::kFinished;
}

// True if the run has a checkpoint to go on from.
bool CanGoOn(const SweepDir& dir, const std::string& id) {
  const std::string run = dir.RunPath(id);
  return FileExists(RunDir(run).ConfigFile()) && HasCheckpoint(run);
}

std::string ResultText(const CurvePoint& point) {
  const Score& score = point.score;
  if (score.metric == nullptr) return "loss " + ReadableLoss(point.loss);
  const std::string text = score.metric->Text(score.value);
  return score.metric->share ? text : absl::StrCat(score.metric->name, " ", text);
}

// The last message of ps-run about itself, after the last line of a worker's program, which it
// shows.
std::string LastWords(const std::string& log, const PlannedRun& run) {
  const std::string tail = TailOfFile(log, kLogLines);
  const size_t own = tail.rfind("ps-run: ");
  if (own != std::string::npos) {
    constexpr std::string_view kShown = "\n  | ";
    const size_t shown = tail.rfind(kShown, own);
    const std::string words = tail.substr(own + sizeof "ps-run: " - 1);
    if (shown == std::string::npos || run.launch.command().empty()) return words;
    const size_t begin = shown + kShown.size();
    return absl::StrCat(tail.substr(begin, tail.find('\n', begin) - begin), "; ", words);
  }
  const size_t line = tail.rfind('\n');
  return line == std::string::npos ? tail : tail.substr(line + 1);
}

void Keep(std::vector<EndedRun>* last, EndedRun run) {
  if (last->size() == kMostOfAKind) last->erase(last->begin());
  last->push_back(std::move(run));
}

// Which of the workers fails first is chance.
std::string WithoutNumbers(const std::string& failure) {
  static const std::regex kWorker("worker-[0-9]+");
  return std::regex_replace(failure, kWorker, "a worker");
}

}  // namespace

SweepRunner::SweepRunner(SweepRunnerOptions options, std::vector<PlannedRun> runs,
                         RunPlaces* places)
    : options_(std::move(options)),
      runs_(std::move(runs)),
      dir_(options_.dir),
      places_(*places),
      display_(options_.display) {
  counts_.runs = runs_.size();
  if (options_.asha) rungs_.emplace(*options_.asha, dir_, runs_);
}

absl::Status SweepRunner::Run() {
  for (const std::string& note : options_.notes) display_.Note("note: " + note);
  PSGD_RETURN_IF_ERROR(TakeStock());
  while (!active_.empty() || (!waiting_.empty() && stops() == 0)) {
    PassOnStops();
    PSGD_RETURN_IF_ERROR(places_.Look());
    for (const auto& active : active_) places_.Attend(*active->child);
    for (const std::string& news : places_.TakeNews()) display_.Note(news, /*important=*/true);
    if (stops() == 0) PSGD_RETURN_IF_ERROR(StartRuns());
    FollowMetrics();
    PSGD_RETURN_IF_ERROR(ReapEnded());
    Show();
    std::this_thread::sleep_for(kTick);
  }
  display_.Clear();
  display_.Note(CountsLine(options_.display.name, counts_, 0, -1));
  PSGD_RETURN_IF_ERROR(broken_);
  if (counts_.waiting + counts_.interrupted > 0) {
    return absl::CancelledError("stopped; the same command goes on where this one ended");
  }
  if (counts_.failed == 0) return absl::OkStatus();
  const bool alike = counts_.failed > 1 && failures_.size() == 1;
  return absl::AbortedError(
      absl::StrCat(counts_.failed, " of ", counts_.runs, " runs failed",
                   alike ? absl::StrCat(", all of them so: ", *failures_.begin()) : "",
                   "; their logs are in ", dir_.path(), "/logs; --retry-failed repeats them"));
}

absl::Status SweepRunner::ForgetWhatIsRepeated() {
  for (const PlannedRun& run : runs_) {
    const std::optional<Outcome> outcome = dir_.ReadOutcome(run.id);
    if (!outcome) continue;
    if (options_.retry_failed && outcome->kind == Outcome::Kind::kFailed &&
        !HasFinished(dir_, run.id)) {
      PSGD_RETURN_IF_ERROR(dir_.PutAway(run.id));
      dir_.ForgetOutcome(run.id);
      dir_.ForgetRungs(run.id);
    }
  }
  const size_t forgotten = ForgetStopped(options_.asha ? &*options_.asha : nullptr, dir_, runs_);
  if (forgotten > 0) {
    display_.Note(absl::StrCat(
        forgotten, forgotten == 1 ? " run that was" : " runs that were",
        " stopped early may go on: what stopped them is not what the sweep's file says now"));
  }
  return absl::OkStatus();
}

absl::Status SweepRunner::TakeStock() {
  PSGD_RETURN_IF_ERROR(ForgetWhatIsRepeated());
  if (rungs_) rungs_->Recall();
  for (const PlannedRun& run : runs_) {
    const std::optional<Outcome> outcome = dir_.ReadOutcome(run.id);
    if (outcome && outcome->kind == Outcome::Kind::kStopped) {
      ++counts_.stopped;
    } else if (HasFinished(dir_, run.id)) {
      MetricsFollower metrics(RunDir(dir_.RunPath(run.id)).MetricsFile());
      if (rungs_ && !outcome) metrics.Look();
      if (outcome) {
        ++counts_.finished;
      } else {
        CountDone(run, metrics);
      }
    } else if (outcome && outcome->kind == Outcome::Kind::kFailed) {
      ++counts_.failed;
      failures_.insert(WithoutNumbers(outcome->detail));
      Keep(&last_failed_,
           {"failed", absl::StrCat(run.LabelWithSeed(), ": ", outcome->detail), 0, {}});
      display_.Note(absl::StrCat("failed before: ", run.LabelWithSeed(), ": ", outcome->detail,
                                 " (--retry-failed repeats it)"),
                    /*important=*/true);
    } else {
      waiting_.push_back(&run);
    }
  }
  counts_.waiting = waiting_.size();
  const size_t known = counts_.finished + counts_.stopped;
  if (known > 0) display_.Note(absl::StrCat(known, " of ", runs_.size(), " runs are done already"));
  return absl::OkStatus();
}

bool SweepRunner::SlotIsFree(size_t slot) const {
  return std::ranges::none_of(active_, [&](const auto& active) { return active->slot == slot; });
}

absl::Status SweepRunner::StartRuns() {
  for (size_t slot = 0; slot < places_.slots(); ++slot) {
    if (!SlotIsFree(slot) || !places_.Usable(slot)) continue;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      const PlannedRun* run = waiting_[i];
      PSGD_ASSIGN_OR_RETURN(const bool started, Start(*run, slot));
      // The run that reaches a rung first is compared with fewer runs. With one slot, runs keep
      // their order.
      if (!started && rungs_ && places_.slots() == 1) break;
      if (!started) continue;
      waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
      counts_.waiting = waiting_.size();
      break;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SweepRunner::Start(const PlannedRun& run, size_t slot) {
  auto active = std::make_unique<Active>();
  active->run = &run;
  active->slot = slot;
  PSGD_ASSIGN_OR_RETURN(active->lock, HeldLock::Try(dir_.RunLock(run.id)));
  bool taken = active->lock == nullptr;
  if (!taken) {
    PSGD_ASSIGN_OR_RETURN(taken, places_.StillRuns(run));
  }
  if (taken) {
    if (!told_of_locks_)
      display_.Note("waiting until the processes of an interrupted sitting have ended");
    told_of_locks_ = true;
    return false;
  }
  active->metrics = std::make_unique<MetricsFollower>(RunDir(dir_.RunPath(run.id)).MetricsFile());
  // A run of an earlier ps-sweep may have finished since TakeStock.
  if (HasFinished(dir_, run.id)) {
    active->metrics->Look();
    CountDone(run, *active->metrics);
    return true;
  }
  active->resumed = CanGoOn(dir_, run.id);
  if (active->resumed) {
    active->metrics->Look();
    if (!GoesOn(run, *active->metrics)) {
      ++counts_.stopped;
      return true;
    }
  } else {
    std::error_code error;
    std::filesystem::remove_all(dir_.RunPath(run.id), error);
    if (error)
      return UnavailableError("cannot remove ", dir_.RunPath(run.id), ": ", error.message());
  }
  auto command = places_.Command(run, slot, active->resumed);
  if (!command.ok()) {
    Fail(run, std::string(command.status().message()));
    return true;
  }
  active->command = *std::move(command);
  PSGD_RETURN_IF_ERROR(StartChild(active.get()));
  display_.Event(absl::StrCat(active->resumed ? "goes on: " : "starts: ", run.LabelWithSeed(),
                              "  (", run.id, ")", places_.Where(slot)));
  active_.push_back(std::move(active));
  return true;
}

absl::Status SweepRunner::StartChild(Active* active) {
  const RunCommand& command = active->command;
  ChildOptions child;
  child.name = command.is_ps_run ? "ps-run" : command.argv.front();
  child.argv = command.argv;
  if (command.is_ps_run) child.stderr_file = dir_.LogFile(active->run->id);
  child.cores = command.cores;
  child.listens = command.listens;
  if (command.takes_lock) {
    active->lock.reset();
  } else {
    child.keep_open = active->lock->descriptor();
  }
  PSGD_ASSIGN_OR_RETURN(active->child, ChildProcess::Start(std::move(child)));
  active->start = SteadyNow();
  return absl::OkStatus();
}

void SweepRunner::Fail(const PlannedRun& run, const std::string& detail) {
  const absl::Status written = dir_.WriteOutcome(run.id, {Outcome::Kind::kFailed, detail, 0});
  ++counts_.failed;
  failures_.insert(WithoutNumbers(detail));
  Keep(&last_failed_, {"failed", absl::StrCat(run.LabelWithSeed(), ": ", detail), 0, {}});
  display_.Note(absl::StrCat("failed: ", run.LabelWithSeed(), ": ", detail,
                             written.ok() ? "" : absl::StrCat(" (", written.message(), ")")),
                /*important=*/true);
}

absl::Status SweepRunner::ReapEnded() {
  for (size_t i = 0; i < active_.size();) {
    if (active_[i]->child->Running() || IsSettling(active_[i].get())) {
      ++i;
      continue;
    }
    const std::unique_ptr<Active> active = std::move(active_[i]);
    active_.erase(active_.begin() + static_cast<ptrdiff_t>(i));
    PSGD_RETURN_IF_ERROR(Ended(*active));
  }
  return absl::OkStatus();
}

bool SweepRunner::IsSettling(Active* active) const {
  if (active->child->exit_code() != 0 || HasFinished(dir_, active->run->id)) return false;
  if (!active->ended) active->ended = SteadyNow();
  return stops() < 2 && SteadyNow() - *active->ended < kSettles;
}

absl::Status SweepRunner::Ended(Active& active) {
  const PlannedRun& run = *active.run;
  const int code = active.child->exit_code();
  active.metrics->Look();
  if (active.stopped_early || HasFinished(dir_, run.id)) {
    ++ended_;
    seconds_ended_ += Seconds(SteadyNow() - active.start);
    const size_t stopped = counts_.stopped;
    if (active.stopped_early) {
      ++counts_.stopped;
    } else {
      CheckMeasured(active, /*ended=*/true);
      CountDone(run, *active.metrics);
    }
    TellNote(run);
    const auto& curve = active.metrics->curve();
    const bool early = counts_.stopped > stopped;
    const double seconds = Seconds(SteadyNow() - active.start);
    Keep(&last_ended_, {early ? "stopped" : "finished", run.LabelWithSeed(), seconds,
                        curve.empty() ? std::nullopt : std::optional(curve.back())});
    display_.Event(absl::StrCat(early ? "stopped early: " : "finished: ", run.LabelWithSeed(),
                                curve.empty() ? "" : ": " + ResultText(curve.back()), " in ",
                                ReadableTime(seconds)));
    return absl::OkStatus();
  }
  if (stops() > 0 || code == kExitStopped) {
    // The next ps-sweep continues this run.
    ++counts_.interrupted;
    if (stops() == 0)
      display_.Note(absl::StrCat("somebody stopped: ", run.LabelWithSeed()), /*important=*/true);
    return absl::OkStatus();
  }
  if (const auto why = places_.Lost(active.slot, *active.child)) {
    PutElsewhere(active, *why);
    return absl::OkStatus();
  }
  if (active.resumed) {
    // The checkpoint may be the cause, so the run starts again from the beginning.
    display_.Note(absl::StrCat("could not go on: ", run.LabelWithSeed(), ": ",
                               LastWords(dir_.LogFile(run.id), run), "; it begins again"),
                  /*important=*/true);
    PSGD_RETURN_IF_ERROR(dir_.PutAway(run.id));
    Wait(run);
    return absl::OkStatus();
  }
  std::string words = LastWords(dir_.LogFile(run.id), run);
  if (words.empty()) words = absl::StrCat("ps-run ", active.child->HowItEnded());
  Fail(run, words);
  TellIfNoneBegins(active, words);
  return absl::OkStatus();
}

void SweepRunner::TellIfNoneBegins(const Active& run, const std::string& why) {
  const auto trains = [](const Active& active) {
    const Record& progress = active.metrics->progress();
    return progress.is_object() && NumberIn(progress, "samples") > 0;
  };
  const auto other = [&](const std::unique_ptr<Active>& active) { return trains(*active); };
  if (trains(run) || std::ranges::any_of(active_, other)) return;
  if (++unbegun_ != kUnbegun || counts_.finished + counts_.stopped > 0 || waiting_.empty()) return;
  display_.Note(
      absl::StrCat("the first ", kUnbegun, " runs all failed before training began, so the ",
                   waiting_.size(), " left may as well; Ctrl-C ends the sweep. The last: ", why),
      /*important=*/true);
}

void SweepRunner::TellNote(const PlannedRun& run) {
  if (run.launch.command().empty()) return;  // told before the runs
  const auto summary = ReadSummary(RunDir(dir_.RunPath(run.id)).SummaryFile());
  if (!summary.ok() || summary->note.empty()) return;
  if (noted_.emplace(run.label, summary->note).second)
    display_.Note(absl::StrCat("note: ", run.label, ": ", summary->note));
}

void SweepRunner::PutElsewhere(const Active& active, const std::string& why) {
  const PlannedRun& run = *active.run;
  if (++lost_places_[run.id] >= kMostPlaces) {
    Fail(run, absl::StrCat("lost its place ", kMostPlaces, " times; the last time: ", why));
    return;
  }
  display_.Note(absl::StrCat("lost its place", places_.Where(active.slot), ": ",
                             run.LabelWithSeed(), "  (", run.id, "): ", why),
                /*important=*/true);
  Wait(run);
}

void SweepRunner::Wait(const PlannedRun& run) {
  waiting_.push_front(&run);
  counts_.waiting = waiting_.size();
}

void SweepRunner::FollowMetrics() {
  const Time now = SteadyNow();
  if (now - looked_ < kLookPeriod) return;
  looked_ = now;
  for (const auto& active : active_) {
    active->metrics->Look();
    // What a run logged before it was resumed may be of an earlier program.
    if (!active->resumed) CheckMeasured(*active, /*ended=*/false);
    if (!broken_.ok()) return;
    if (active->stopped_early || GoesOn(*active->run, *active->metrics)) continue;
    active->stopped_early = true;
    places_.Stop(*active->run, *active->child, /*at_once=*/false);
  }
}

void SweepRunner::CheckMeasured(const Active& active, bool ended) {
  if (rungs_ && broken_.ok()) broken_ = rungs_->CheckMeasured(*active.run, *active.metrics, ended);
}

void SweepRunner::CountDone(const PlannedRun& run, const MetricsFollower& metrics) {
  // The run may have ended before its last evaluations were read.
  const bool finished = GoesOn(run, metrics);
  (finished ? counts_.finished : counts_.stopped) += 1;
  // A decision stays, whatever the order of runs in a later ps-sweep.
  if (finished && rungs_) (void)dir_.WriteOutcome(run.id, {Outcome::Kind::kFinished, "", 0});
  if (finished && !rungs_) dir_.ForgetOutcome(run.id);
}

bool SweepRunner::GoesOn(const PlannedRun& run, const MetricsFollower& metrics) {
  return !rungs_ || rungs_->GoesOn(run, metrics.curve());
}

void SweepRunner::PassOnStops() {
  const int now = std::min(stops(), 2);
  if (now <= passed_stops_) return;
  passed_stops_ = now;
  if (now == 1 && !active_.empty()) {
    display_.Note("stopping: runs take a checkpoint (Ctrl-C again stops at once)",
                  /*important=*/true);
  }
  for (const auto& active : active_) {
    places_.Stop(*active->run, *active->child, /*at_once=*/now > 1);
  }
}

void SweepRunner::Show() {
  SweepView view;
  view.counts = counts_;
  for (const auto& active : active_) {
    view.active.push_back({active->run->LabelWithSeed(), Seconds(SteadyNow() - active->start),
                           active->run->config.train().epochs(), active->metrics.get()});
  }
  view.ended = last_ended_;
  view.failed = last_failed_;
  for (size_t i = 0; i < std::min(waiting_.size(), kMostOfAKind); ++i) {
    view.next.push_back(waiting_[i]->LabelWithSeed());
  }
  if (ended_ > 0) {
    const double each = seconds_ended_ / static_cast<double>(ended_);
    view.seconds_left =
        each * (static_cast<double>(waiting_.size()) + 0.5 * static_cast<double>(active_.size())) /
        static_cast<double>(places_.slots());
  }
  display_.Update(view);
}

}  // namespace psgd
