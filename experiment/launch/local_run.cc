#include "experiment/launch/local_run.h"

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/shell_line.h"
#include "experiment/launch/resume_advice.h"
#include "experiment/launch/run_dir_status.h"
#include "experiment/record/readable.h"
#include "experiment/record/run_dir.h"
#include "experiment/record/run_recorder.h"
#include "optimizers/diverged.h"
#include "proto/has_journal.h"

namespace psgd {
namespace {

constexpr Duration kPeriod = std::chrono::milliseconds(200);
constexpr Duration kJoinPeriod = std::chrono::milliseconds(20);
constexpr Duration kAnswer = std::chrono::milliseconds(1000);
constexpr Duration kJoin = std::chrono::seconds(10);
constexpr Duration kGoodbye = std::chrono::seconds(5);
constexpr Duration kSilence = std::chrono::seconds(2);
constexpr Duration kRestartRetry = std::chrono::seconds(5);

}  // namespace

LocalRun::LocalRun(LocalRunOptions options)
    : options_(std::move(options)),
      start_(SteadyNow()),
      earlier_(options_.resume),
      display_(options_.progress),
      notes_(&display_, !options_.launch.command.empty()) {
  status_.set_name(options_.config.name());
  *status_.mutable_config() = options_.config;
}

// Otherwise a mistake in --set, or a program that does not join or has nothing to do, would stay
// with a good run.
void LocalRun::RestoreEarlier() {
  if (options_.resume.empty() || status_.total().steps() > steps_before_) return;
  const auto summary = ReadSummary(RunDir(options_.resume).SummaryFile());
  if (samples_before_ && summary.ok() && summary->steps > steps_before_) return;
  is_as_before_ = earlier_.Restore();
}

absl::Status LocalRun::Run() {
  auto cluster = LocalCluster::Start(options_.launch);
  PSGD_RETURN_IF_ERROR(cluster.status());
  cluster_ = *std::move(cluster);
  run_dir_ = cluster_->addresses().run_dir;
  last_heard_ = last_going_on_ = SteadyNow();
  client_ = std::make_unique<ControlClient>(ControlClientOptions{
      .server = cluster_->addresses().control,
      .deadline = kAnswer,
      .interrupted =
          [this] {
            const bool go_on = cluster_->leader().Running() && stops() < 2;
            return go_on ? absl::OkStatus() : absl::CancelledError("the run ends");
          },
      .credentials = options_.credentials});
  display_.Note(absl::StrCat("run directory: ", run_dir_));
  for (const std::string& note : cluster_->addresses().notes) {
    display_.Note(note, /*important=*/true);
  }
  if (!cluster_->addresses().http.empty()) {
    display_.Note(absl::StrCat("dashboard: ", options_.credentials ? "https://" : "http://",
                               cluster_->addresses().http, "/ (for Prometheus: /metrics)"));
  }
  const LaunchOptions& launch = options_.launch;
  display_.Note(
      absl::StrCat("watch it with: ps-ctl status ",
                   cluster_->etcd().empty()
                       ? absl::StrCat("--server ", cluster_->addresses().control)
                       : absl::StrCat("--etcd ", cluster_->etcd(), " --run ", launch.run_name),
                   options_.credentials ? " " + ShellLine({"--tls-dir", launch.tls_dir}) : ""));
  if (cluster_->goes_on()) display_.Note("the run goes on where its journals end");
  absl::Status status = StartServers();
  if (status.ok() && cluster_->goes_on()) DismissEarlierWorkers();
  if (status.ok()) status = StartWorkers();
  if (status.ok()) status = Supervise();
  display_.Clear();
  cluster_->KillAll();
  if (status.ok()) goes_on_by_journals_ = false;
  if (!GoesOnByJournals()) cluster_->ForgetRun();
  if (!status.ok() || HadNothingToDo()) RestoreEarlier();
  if (status.ok() && is_as_before_) {
    display_.Note(
        absl::StrCat(run_dir_, " had finished its ", ReadableEpoch(status_.total().epoch()),
                     " epochs, and nothing was left to train: its summary is as before"),
        /*important=*/true);
  }
  return status;
}

bool LocalRun::HadNothingToDo() const {
  if (!earlier_.finished_steps()) return false;
  const auto summary = ReadSummary(RunDir(run_dir_).SummaryFile());
  return summary.ok() && summary->steps == *earlier_.finished_steps();
}

// They ended with the earlier ps-run. The servers need not wait until their leases expire, and
// StartWorkers sees when a worker of this ps-run has joined.
void LocalRun::DismissEarlierWorkers() {
  if (!Ask()) return;
  for (const WorkerStatus& worker : status_.workers()) {
    for (int w = 0; w < options_.config.cluster().workers(); ++w) {
      if (worker.live() && worker.name() == absl::StrCat("worker-", w))
        Dismiss(worker, "the ps-run that ran it has ended");
    }
  }
}

void LocalRun::Dismiss(const WorkerStatus& worker, const std::string& reason) {
  LeaveRequest leave;
  *leave.mutable_key() = worker.key();
  leave.set_reason(reason);
  leave.set_failed(true);
  (void)client_->Leave(leave);
}

absl::Status LocalRun::StartWorkers() {
  const auto all = static_cast<size_t>(options_.config.cluster().workers());
  while (cluster_->workers().size() < all && stop_.reason.empty()) {
    PSGD_RETURN_IF_ERROR(cluster_->StartWorker());
    // A program may take long until it joins.
    if (!options_.launch.command.empty()) continue;
    // Workers start one by one, so that worker 1 of the run is worker-1 of the run directory.
    const std::string& name = cluster_->workers().back()->name();
    const Time start = SteadyNow();
    while (SteadyNow() - start < kJoin && !notes_.Knows(name)) {
      PSGD_RETURN_IF_ERROR(Look());
      if (!stop_.reason.empty() || !cluster_->leader().Running()) return absl::OkStatus();
      std::this_thread::sleep_for(kJoinPeriod);
    }
  }
  return absl::OkStatus();
}

absl::Status LocalRun::Supervise() {
  while (true) {
    while (!cluster_->leader().WaitEnded(kPeriod)) {
      PSGD_RETURN_IF_ERROR(Look());
    }
    if (!MayRecover()) return ServerEnded();
    PSGD_RETURN_IF_ERROR(RecoverServer());
    PSGD_RETURN_IF_ERROR(StartWorkers());
  }
}

bool LocalRun::MayRecover() const {
  const bool died = cluster_->leader().exit_code() < 0;
  // Before training, too: it may have begun after the last answer.
  return died && !IsOver() && !stop_.failed && recoveries_.fruitless < kMostRecoveries &&
         (HasJournal(options_.config) || HasCopies());
}

absl::Status LocalRun::RecoverServer() {
  recoveries_.fruitless = status_.clock() > recoveries_.at_clock ? 0 : recoveries_.fruitless + 1;
  recoveries_.at_clock = status_.clock();
  const std::string how = absl::StrCat("ps-server ", cluster_->leader().HowItEnded());
  const Time died = SteadyNow();
  if (HasCopies()) {
    display_.Note(how, /*important=*/true);
    if (cluster_->WaitTakenOver().ok()) {
      TakenOver(died);
      return absl::OkStatus();
    }
  }
  if (!HasJournal(options_.config)) return Failed(cluster_->Obituary(cluster_->leader()));
  display_.Note(absl::StrCat(how, "; it is started again where its journal ends"),
                /*important=*/true);
  const Time start = SteadyNow();
  const absl::Status recovered = cluster_->RecoverServer();
  // The server was killed again before it was ready. The caller starts it again.
  if (!recovered.ok() && !cluster_->leader().Running() && MayRecover()) return absl::OkStatus();
  if (!recovered.ok()) return Failed(std::string(recovered.message()));
  last_heard_ = last_going_on_ = SteadyNow();
  display_.Note(absl::StrCat("ps-server is back after ", ReadableTime(Seconds(last_heard_ - start)),
                             "; training goes on"));
  return absl::OkStatus();
}

absl::Status LocalRun::Look() {
  if (stops() >= 2) return Failed("stopped at once, without a checkpoint");
  if (stops() == 1 && stop_.reason.empty()) {
    stop_.reason = "interrupted";
    display_.Note(status_.state() == StatusReply::WAITING
                      ? "stopping: training has not begun, so no checkpoint is taken (Ctrl-C again "
                        "stops at once)"
                      : absl::StrCat("stopping: finishing the ",
                                     options_.launch.command.empty() ? "segment" : "step",
                                     " and taking a checkpoint (Ctrl-C again stops at once)"),
                  /*important=*/true);
  }
  const absl::Status etcd = cluster_->KeepEtcd();
  for (const std::string& note : cluster_->TakeNotes()) display_.Note(note, /*important=*/true);
  if (!etcd.ok()) return Failed(std::string(etcd.message()));
  BuryWorkers();
  if (cluster_->HearServers()) TakenOver(SteadyNow());
  PSGD_RETURN_IF_ERROR(RestartServers());
  Poll();
  if (!stop_.reason.empty() && !stop_.sent) Drain();
  return CheckDeadlines();
}

absl::Status LocalRun::CheckDeadlines() {
  if (!cluster_->leader().Running()) return absl::OkStatus();
  const Duration deadline = Milliseconds(options_.config.cluster().deadline());
  const Time now = SteadyNow();
  const Duration silence = now - last_heard_;
  if (silence > deadline) {
    return Failed(absl::StrCat("ps-server has not answered for ",
                               static_cast<int64_t>(Seconds(silence)), " s (cluster.deadline)"));
  }
  if (silence > kSilence && !std::exchange(told_silence_, true)) {
    display_.Note(absl::StrCat("waiting for ps-server at ", cluster_->addresses().control,
                               ", which does not answer; the run fails after ",
                               ReadableTime(Seconds(deadline)), " of it (cluster.deadline)"),
                  /*important=*/true);
  }
  if (AnyoneLives() && now - last_going_on_ > deadline) {
    return Failed(absl::StrCat("the run is over, but not all workers have left it within ",
                               static_cast<int64_t>(Seconds(deadline)), " s (cluster.deadline)"));
  }
  return absl::OkStatus();
}

bool LocalRun::IsOver() const {
  return status_.state() == StatusReply::FINISHED || status_.state() == StatusReply::FAILED;
}

bool LocalRun::AnyoneLives() const {
  return std::ranges::any_of(status_.workers(), &WorkerStatus::live);
}

bool LocalRun::Ask() {
  auto status = client_->Status(StatusRequest());
  if (!status.ok()) return false;
  status_ = *std::move(status);
  if (!samples_before_) {
    samples_before_ = status_.total().samples();
    steps_before_ = status_.total().steps();
  }
  const Time heard = SteadyNow();
  if (std::exchange(told_silence_, false)) {
    display_.Note(absl::StrCat("ps-server answers again, after ",
                               ReadableTime(Seconds(heard - last_heard_))));
  }
  last_heard_ = heard;
  if (!IsOver()) last_going_on_ = last_heard_;
  return true;
}

void LocalRun::Poll() {
  if (!Ask()) return;
  notes_.Show(status_, cluster_->workers(), /*stopping=*/!stop_.reason.empty());
  display_.Update(status_);
  // ps-worker ends with an error instead.
  if (status_.state() == StatusReply::WAITING && !cluster_->workers().empty() &&
      buried_.size() == static_cast<size_t>(options_.config.cluster().workers()) &&
      !AnyoneLives() && stop_.reason.empty()) {
    stop_.reason = absl::StrCat(
        "all workers ended and none had joined the run: does the command join it, as "
        "psgd.torch.join(model, optimizer) does? The logs are in ",
        run_dir_);
    stop_.failed = true;
  }
  const bool ours_ended =
      !cluster_->workers().empty() && buried_.size() == cluster_->workers().size();
  // Workers that people started by hand count as well.
  if (ours_ended && !AnyoneLives() && stop_.reason.empty() &&
      status_.state() == StatusReply::TRAINING) {
    const bool as_meant = std::ranges::all_of(
        status_.workers(), [](const auto& worker) { return worker.note() == "left: done"; });
    stop_.reason = as_meant ? "all workers left the run before its end"
                            : absl::StrCat("no worker is left", WhyTheWorkersLeft());
    stop_.failed = !as_meant;
  }
}

std::string LocalRun::WhyTheWorkersLeft() const {
  uint64_t furthest = 0;
  for (const WorkerStatus& worker : status_.workers())
    furthest = std::max(furthest, worker.clock());
  const auto tells = [&](const WorkerStatus& worker) {
    if (worker.clock() == furthest && SaysDiverged(worker.note())) return 3;
    return absl::StartsWith(worker.note(), "failed: ") ? 2 : worker.note().empty() ? 0 : 1;
  };
  std::string name, why;
  int told = 0;
  for (const WorkerStatus& worker : status_.workers()) {
    if (tells(worker) <= told) continue;
    told = tells(worker);
    name = worker.name();
    why = worker.note();
  }
  return why.empty() ? "" : absl::StrCat("; ", name, " ", why);
}

void LocalRun::BuryWorkers() {
  std::vector<const ChildProcess*> ended;
  for (const auto& worker : cluster_->workers()) {
    if (!worker->Running() && buried_.count(worker->name()) == 0) ended.push_back(worker.get());
  }
  if (ended.empty()) return;
  // The last answer is older than these ends, and training may have begun between the two.
  const bool answered = Ask();
  // The next look asks again.
  if (!answered && (cluster_->leader().Running() || MayRecover())) return;
  for (const ChildProcess* worker : ended) {
    buried_.insert(worker->name());
    if (worker->exit_code() != 0) BuryWorker(*worker, /*state_known=*/answered);
    if (options_.launch.command.empty()) continue;
    const bool goes_on =
        status_.state() == StatusReply::TRAINING && buried_.size() < cluster_->workers().size();
    if (goes_on) cluster_->EndServerBeside(*worker);
    if (answered && worker->exit_code() == 0 && status_.state() == StatusReply::TRAINING) {
      display_.Note(
          absl::StrCat(
              worker->name(), "'s program ended before the run did",
              buried_.size() < cluster_->workers().size() ? "; the other workers go on" : ""),
          /*important=*/true);
    }
    if (command_exit_code_ == 0) command_exit_code_ = std::max(0, worker->exit_code());
  }
}

void LocalRun::BuryWorker(const ChildProcess& worker, bool state_known) {
  for (const WorkerStatus& member : status_.workers()) {
    if (member.name() != worker.name() || !member.live()) continue;
    // The server then need not wait until the worker's lease expires.
    Dismiss(member, absl::StrCat("its process ", worker.HowItEnded()));
  }
  if (worker.exit_code() == kExitStopped && options_.launch.command.empty()) {
    display_.Note(absl::StrCat(worker.name(), " left as it was asked to; the others go on"));
    return;
  }
  if (stop_.failed) return;  // the failure was already shown
  // The advice is long. A run that fails has it once, at its end; the worker's log has it, too.
  display_.Note(absl::StrReplaceAll(cluster_->Obituary(worker),
                                    {{DivergedText(options_.config), "training diverged"}}),
                /*important=*/true);
  if (!state_known) return;  // the servers are gone, and the run's summary says why
  if (status_.state() == StatusReply::WAITING) {
    stop_.reason = absl::StrCat(worker.name(), " ", worker.HowItEnded(), " before training began");
    stop_.failed = true;
    stop_.config_at_fault =
        options_.launch.command.empty() && worker.exit_code() == kExitUsersFault;
  } else if (buried_.size() < cluster_->workers().size()) {
    display_.Note("the other workers go on", /*important=*/true);
  }
}

void LocalRun::Drain() {
  DrainRequest request;
  request.set_reason(stop_.reason);
  request.set_failed(stop_.failed);
  stop_.sent = client_->Drain(request).ok();
}

absl::Status LocalRun::ServerEnded() {
  const ChildProcess& server = cluster_->leader();
  if (stop_.failed && server.exit_code() == 1) {
    return stop_.config_at_fault ? absl::InvalidArgumentError(stop_.reason)
                                 : absl::AbortedError(WithAdvice(stop_.reason));
  }
  if (const std::string why = FailureInSummary(); !why.empty()) {
    return absl::AbortedError(WithAdvice(why));
  }
  if (server.exit_code() != 0 && server.exit_code() != kExitStopped) {
    return Failed(cluster_->Obituary(server));
  }
  WaitForWorkers();
  ShowTheLast();
  if (server.exit_code() == 0) return CheckpointsWritten();
  const std::string& why = stop_.reason.empty() ? status_.detail() : stop_.reason;
  return absl::CancelledError(absl::StrCat(why.empty() ? "drained" : why, ". ", Advice()));
}

std::string LocalRun::FailureInSummary() const {
  const std::string path = RunDir(run_dir_).SummaryFile();
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  // That of a resumed run is there from before.
  if (error || decltype(written)::clock::now() - written > SteadyNow() - start_) return "";
  const auto summary = ReadSummary(path);
  return summary.ok() && summary->status == Summary::Status::kFailed ? summary->error : "";
}

bool LocalRun::GoesOnByJournals() const {
  if (!goes_on_by_journals_)
    goes_on_by_journals_ = HasJournal(options_.config) && cluster_->EtcdHasRun();
  return *goes_on_by_journals_;
}

StartedAs LocalRun::started_as() const {
  StartedAs started = HowStarted(options_.launch);
  if (GoesOnByJournals()) started.servers = cluster_->ServerDirs();
  return started;
}

absl::Status LocalRun::CheckpointsWritten() const {
  const auto summary = ReadSummary(RunDir(run_dir_).SummaryFile());
  PSGD_RETURN_IF_ERROR(Annotate(summary.status(), "the servers ended, and the run has no summary"));
  if (!summary->failed_checkpoint) return absl::OkStatus();
  const bool diverged = SaysDiverged(*summary->failed_checkpoint);
  return DataLossError(
      diverged ? "" : "training is finished, but its last checkpoint could not be written: ",
      *summary->failed_checkpoint, ". The weights are in ", RunDir(run_dir_).WeightsFile());
}

void LocalRun::ShowTheLast() {
  // The server may have ended before the last poll.
  const auto left = ReadRunDirStatus(run_dir_);
  if (!left.ok()) return;
  display_.ShowChoices(left->choices);
  display_.ShowEvaluations(left->evaluations, status_.epochs());
}

absl::Status LocalRun::Failed(std::string what) {
  // The server cannot write a summary itself.
  cluster_->KillAll();
  const bool asked = stops() > 0;
  const Summary summary =
      SummaryOf(status_, asked ? Summary::Status::kInterrupted : Summary::Status::kFailed, what,
                Seconds(SteadyNow() - start_), samples_before_.value_or(0), earlier_.seconds());
  const absl::Status written = WriteSummary(summary, RunDir(run_dir_).SummaryFile());
  if (!written.ok()) display_.Note(std::string(written.message()), /*important=*/true);
  const std::string message = WithAdvice(std::move(what)) + KeysLeft();
  return asked ? absl::CancelledError(message) : absl::UnavailableError(message);
}

std::string LocalRun::WithAdvice(std::string what) const {
  // The newest checkpoint of training that diverged is the wrong one to go on from.
  if (SaysDiverged(what)) return what;
  const bool one_line = what.find('\n') == std::string::npos;
  const char* const between = !one_line ? "\n" : what.ends_with('.') ? " " : ". ";
  return absl::StrCat(std::move(what), between, Advice());
}

std::string LocalRun::Advice() const {
  if (status_.state() == StatusReply::WAITING && !GoesOnByJournals() && !HasCheckpoint(run_dir_)) {
    return "Nothing was trained, so start anew";
  }
  // The same start would fail again.
  const bool begins = status_.state() == StatusReply::WAITING && stop_.failed;
  return absl::StrCat(begins ? "Remove the cause first. " : "",
                      ResumeAdvice(run_dir_, started_as(), /*stopped=*/stops() > 0));
}

std::string LocalRun::KeysLeft() const {
  // An own etcd ends with this program.
  if (options_.launch.etcd.empty() || GoesOnByJournals()) return "";
  return absl::StrCat(
      "\netcd holds the run until it is told that it is over: without --etcd, or after  "
      "etcdctl del --prefix /psgd/",
      options_.launch.run_name, "/");
}

void LocalRun::WaitForWorkers() {
  // Programs that have not joined would look for the servers for long.
  if (stops() > 0 && status_.state() == StatusReply::WAITING) return;
  const Time start = SteadyNow();
  const int asked = stops();
  const bool of_programs = !options_.launch.command.empty();
  bool told = false;
  for (const auto& worker : cluster_->workers()) {
    while (!worker->WaitEnded(kPeriod)) {
      if (SteadyNow() - start < kGoodbye) continue;
      // A program may have work of its own left, as a last evaluation.
      if (!of_programs || stops() > asked) return;
      if (!std::exchange(told, true)) {
        display_.Note("the run is over; waiting for the workers' programs (Ctrl-C ends them)",
                      /*important=*/true);
      }
    }
    const bool is_new = buried_.insert(worker->name()).second;
    if (of_programs && is_new && worker->exit_code() != 0)
      display_.Note(cluster_->Obituary(*worker), /*important=*/true);
  }
}

absl::Status LocalRun::StartServers() {
  // Otherwise the others start with the workers.
  const int first = options_.launch.servers_on_workers ? 1 : options_.config.cluster().servers();
  for (int s = 1; s < first || cluster_->HasEarlierServer(); ++s) {
    PSGD_RETURN_IF_ERROR(cluster_->StartServer());
  }
  client_->SetServers(cluster_->ControlAddresses());
  return absl::OkStatus();
}

void LocalRun::TakenOver(Time since) {
  client_->SetServers(cluster_->ControlAddresses());
  client_->TryAnotherThan(client_->server());
  last_heard_ = last_going_on_ = SteadyNow();
  display_.Note(
      absl::StrCat("the server at ", cluster_->addresses().control, " leads the run",
                   last_heard_ - since > kPeriod
                       ? absl::StrCat(", after ", ReadableTime(Seconds(last_heard_ - since)))
                       : "",
                   "; training goes on"),
      /*important=*/true);
}

absl::Status LocalRun::RestartServers() {
  for (const size_t number : cluster_->TakeDeadServers()) {
    const ChildProcess& died = cluster_->server(number);
    // Its shards moved to other servers.
    if (died.exit_code() == kExitStopped || IsOver()) continue;
    const std::string how = absl::StrCat(died.name(), " ", died.HowItEnded());
    if (!HasJournal(options_.config) && options_.config.cluster().copies() < 2) {
      return Failed(absl::StrCat(how, ", and its shards with it (durability.acknowledge: memory)"));
    }
    display_.Note(absl::StrCat(how, "; it is started again"), /*important=*/true);
    recoveries_.dead.push_back(number);
  }
  std::vector<size_t>& dead = recoveries_.dead;
  if (dead.empty() || IsOver() || SteadyNow() < recoveries_.next_restart ||
      !cluster_->leader().Running()) {
    return absl::OkStatus();
  }
  const absl::Status started = cluster_->RestartServer(dead.front());
  if (started.ok()) {
    dead.erase(dead.begin());
    recoveries_.fruitless_restarts = 0;
    client_->SetServers(cluster_->ControlAddresses());
    return absl::OkStatus();
  }
  recoveries_.next_restart = SteadyNow() + kRestartRetry;
  if (!cluster_->leader().Running() || absl::IsCancelled(started)) return absl::OkStatus();
  if (++recoveries_.fruitless_restarts > kMostRecoveries && !HasCopies())
    return Failed(std::string(started.message()));
  display_.Note(std::string(started.message()), /*important=*/true);
  return absl::OkStatus();
}

}  // namespace psgd
