// ps-server: holds the weights of one run.
#include <algorithm>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "apps/exit_code.h"
#include "apps/program_mains.h"
#include "apps/server_arguments.h"
#include "apps/server_start.h"
#include "apps/stop_signals.h"
#include "common/files.h"
#include "common/freed_memory.h"
#include "common/open_files.h"
#include "common/shell_line.h"
#include "common/units.h"
#include "dashboard/live_pages.h"
#include "experiment/record/run_recorder.h"
#include "experiment/record/trace_file.h"
#include "proto/has_journal.h"
#include "server/cluster/room_wait.h"
#include "server/control/server_loop.h"
#include "server/control/server_shares.h"
#include "server/durability/checkpoint_store.h"

namespace psgd {
namespace {

using Arguments = ServerArguments;

constexpr Duration kLook = std::chrono::seconds(1);
constexpr int kFilesForOthers = 32;  // a worker's connections, and a database

// Records the events of the run while this server leads it. Thread-safe.
class Records {
 public:
  void Set(RunRecorder* recorder, TraceFile* trace) {
    std::lock_guard lock(mutex_);
    recorder_ = recorder;
    trace_ = trace;
  }
  // Makes the loop report its events here.
  void ListenTo(ServerLoopOptions* loop) {
    loop->on_news = Teller(&RunRecorder::News);
    loop->on_evaluation = Teller(&RunRecorder::Evaluation);
    loop->on_choices = Teller(&RunRecorder::Choices);
    loop->on_checkpoint = Teller(&RunRecorder::Checkpoint);
    loop->on_spans = [this](uint32_t server, std::vector<TraceSpan> spans) {
      std::lock_guard lock(mutex_);
      if (trace_ != nullptr) trace_->Add(server, std::move(spans));
    };
  }

 private:
  template <typename Event>
  std::function<void(const Event&)> Teller(void (RunRecorder::*tell)(const Event&)) {
    return [this, tell](const Event& event) {
      std::lock_guard lock(mutex_);
      if (recorder_ != nullptr) (recorder_->*tell)(event);
    };
  }

  std::mutex mutex_;  // guards the members below
  RunRecorder* recorder_ = nullptr;
  TraceFile* trace_ = nullptr;
};

void AnnounceReady(const Arguments& arguments, const ServerLoop& server, const std::string& run,
                   const std::string& http, const RunDir& dir,
                   const std::vector<std::string>& notes) {
  if (arguments.json) {
    std::cout << nlohmann::ordered_json{{"event", "ready"},
                                        {"control", server.address()},
                                        {"http", http},
                                        {"run_dir", dir.path()},
                                        {"notes", notes}}
              << std::endl;
    return;
  }
  std::cout << "ready: workers connect with  ps-worker --cpu --server " << server.address()
            << (arguments.tls.given() ? " --tls-dir DIR\n" : "\n");
  if (arguments.etcd.given()) {
    std::cout << "or, whichever server leads:  ps-worker --cpu --etcd " << arguments.etcd.members
              << " --run " << run << "\n";
  }
  if (!http.empty()) {
    const std::string page = (arguments.tls.given() ? "https://" : "http://") + http;
    std::cout << "dashboard: " << page << "/\nmetrics: " << page << "/metrics\n";
  }
  std::cout << "run directory: " << dir.path() << std::endl;
}

void AnnounceJoined(const Arguments& arguments, const ServerLoop& server, uint32_t number,
                    const RunDir& dir) {
  if (arguments.json) {
    std::cout << nlohmann::ordered_json{{"event", "joined"},
                                        {"server", number},
                                        {"control", server.address()},
                                        {"run_dir", dir.path()}}
              << std::endl;
    return;
  }
  std::cout << "joined: as server " << number << " of the run"
            << (arguments.join.empty() ? "" : absl::StrCat(" at ", arguments.join))
            << "\nrun directory: " << dir.path() << std::endl;
}

// A server from start to end.
class Program {
 public:
  Program(const Arguments& arguments, const StopSignals& stops)
      : arguments_(arguments), stops_(stops) {}
  ~Program() { End(); }

  absl::StatusOr<ExitCode> Run() {
    PSGD_ASSIGN_OR_RETURN(start_, StartServer(arguments_, stops_));
    records_.Set(opened().recorder.get(), opened().trace.get());
    records_.ListenTo(&start_.loop);
    auto server = ServerLoop::Start(std::move(start_.loop));
    if (!server.ok()) {
      opened().dir.Abandon();
      return server.status();
    }
    server_ = *std::move(server);
    start_.service->Serve(server_.get());
    ServerStanding known;
    while (true) {
      known = server_->standing().WaitChanged(known, next_look_ - SteadyNow());
      if (known.ended) return Ended(*known.ended);
      if (known.leads) {
        const auto code = Lead(known);
        if (code.ok() && code->has_value()) return **code;
        if (code.ok()) {
          trouble_since_.reset();
        } else if (!MayPass(code.status()) && !WaitsForRoom(code.status(), known)) {
          return code.status();
        }
      } else if (leads_) {
        CeaseToLead();
      } else if (known.server > 0 && !std::exchange(told_joined_, true)) {
        AnnounceJoined(arguments_, *server_, known.server, opened().dir);
      }
      if (const auto code = HearStops(known)) return *code;
      if (SteadyNow() < next_look_) continue;
      WatchOpenFiles();
      next_look_ = SteadyNow() + kLook;
    }
  }

 private:
  OpenedRun& opened() { return start_.opened; }
  const Log& log() { return start_.opened.log; }

  // Does what the server that leads the run does now. Returns how the program ends, if it does.
  absl::StatusOr<std::optional<ExitCode>> Lead(const ServerStanding& known) {
    if (!leads_) PSGD_RETURN_IF_ERROR(BeginToLead());
    Look(known);
    if (!known.trained) return std::nullopt;
    PSGD_ASSIGN_OR_RETURN(const ExitCode code, SaveResults());
    return code;
  }

  // Who is refused for want of a file does not learn why.
  void WatchOpenFiles() {
    if (warned_of_files_ || CanOpenFiles(kFilesForOthers)) return;
    warned_of_files_ = true;
    log()->warn(
        "few more files can be opened; then workers cannot connect and checkpoints fail: {}",
        OpenFilesText());
  }

  // Whether another server is away, or leads by now: that passes within cluster.deadline.
  bool MayPass(const absl::Status& trouble) {
    if (!absl::IsUnavailable(trouble) && !absl::IsDeadlineExceeded(trouble)) return false;
    if (!trouble_since_) {
      trouble_since_ = SteadyNow();
      log()->warn("{}; tries again", std::string(trouble.message()));
    }
    return SteadyNow() - *trouble_since_ < Milliseconds(start_.config.cluster().deadline());
  }

  // Whether the results are to be written again, because the disk is full.
  bool WaitsForRoom(const absl::Status& trouble, const ServerStanding& known) {
    if (!known.trained || !absl::IsResourceExhausted(trouble)) return false;
    if (!room_wait_.begun()) {
      const std::string what =
          absl::StrCat("waiting for room on ", MountPointOf(opened().results.path()),
                       " to save the results: ", trouble.message());
      log()->warn("{}", what);
      server_->standing().SetResultsWaitFor(what);
    }
    return room_wait_.GoesOn(known.asked_to_stop || stops_.count() > 0,
                             Milliseconds(start_.config.cluster().deadline()), SteadyNow());
  }

  absl::Status BeginToLead() {
    if (opened().recorder == nullptr) {
      if (arguments_.json) std::cout << nlohmann::json{{"event", "taking_over"}} << std::endl;
      PSGD_RETURN_IF_ERROR(OpenResults(arguments_, start_.config, start_.credentials, &opened()));
      records_.Set(opened().recorder.get(), opened().trace.get());
    }
    PSGD_ASSIGN_OR_RETURN(status_, server_->Call(StatusRequest()));
    leads_ = true;
    LivePages* const pages = opened().pages.get();
    if (pages != nullptr) pages->Serve(server_.get());
    opened().recorder->BeginsAt(status_, server_->samples_before());
    AnnounceReady(arguments_, *server_, status_.name(), pages == nullptr ? "" : pages->address(),
                  opened().results, start_.notes);
    looked_ = last_sign_ = written_ = unhindered_ = SteadyNow();
    return absl::OkStatus();
  }

  void CeaseToLead() {
    log()->warn("another server leads the run by now; this one goes on with its copies");
    leads_ = false;
    records_.Set(nullptr, nullptr);
    if (opened().pages != nullptr) opened().pages->Detach();
    opened().pages.reset();
    opened().recorder.reset();
    opened().results = opened().dir;  // the server that leads takes the shared directory
  }

  // Acts once per second.
  void Look(const ServerStanding& known) {
    if (SteadyNow() < next_look_) return;
    auto status = server_->Call(StatusRequest());
    if (!status.ok()) return;
    status_ = *std::move(status);
    looked_ = SteadyNow();
    opened().recorder->Progress(status_);
    if (const absl::Status written = opened().trace->Write(opened().results.TraceFile());
        !written.ok()) {
      log()->error("{}", std::string(written.message()));
    }
    const bool anyone = std::ranges::any_of(status_.workers(), &WorkerStatus::live);
    if (known.asked_to_stop) {
      const CheckpointStore checkpoints(opened().results.ServerDir());
      const uint64_t before = std::exchange(checkpoint_bytes_, checkpoints.BytesOnDisk());
      if (anyone || before != checkpoint_bytes_) last_sign_ = looked_;
    } else {
      last_sign_ = looked_;
    }
    const bool unwritten = known.asked_to_stop && !status_.storage_trouble().empty();
    if (!unwritten) written_ = looked_;
    const std::string waits_for = unwritten || known.stop_waits_for_store ? status_.waits_for()
                                  : known.asked_to_stop                   ? StopWaitsFor(status_)
                                                                          : "";
    if (waits_for.empty()) unhindered_ = looked_;
    if (!waits_for.empty() && told_ != waits_for) log()->warn("{}", waits_for);
    told_ = waits_for;
  }

  // What becomes of the run if this server ends now.
  std::string Later() const {
    const EtcdArguments& etcd = arguments_.etcd;
    if (HasJournal(start_.config)) {
      return absl::StrCat(ShellLine({"ps-server", "--recover", start_.opened.dir.path()}),
                          etcd.given() ? absl::StrCat(" --etcd ", etcd.members) : "",
                          " goes on from the journal");
    }
    if (etcd.given()) return "other servers that have its copies go on";
    return "what came after the last checkpoint is lost";
  }

  std::optional<ExitCode> HearStops(const ServerStanding& known) {
    if (stops_.count() >= 2) {
      log()->warn("stopped at once; {}", Later());
      return Interrupted();
    }
    const Duration deadline = Milliseconds(start_.config.cluster().deadline());
    const bool unwritten = known.asked_to_stop && !status_.storage_trouble().empty();
    // Without a journal the run's leader gives up what it cannot write (RunLeader::WaitsForRoom).
    if (known.leads && unwritten && HasJournal(start_.config) && looked_ - written_ > deadline) {
      log()->warn(
          "it was asked to stop, and this could not be written for longer than cluster.deadline: "
          "{}; stopped at once; {}",
          status_.storage_trouble(), Later());
      return Interrupted();
    }
    const bool waits_for_room = unwritten || room_wait_.begun();
    const bool gives_up = looked_ - last_sign_ > deadline || looked_ - unhindered_ > 2 * deadline;
    if (known.asked_to_stop && known.leads && !waits_for_room && gives_up) {
      log()->warn(
          "ends without what is still to be written down: another server, the run store or the "
          "disk does nothing for longer than cluster.deadline; {}",
          Later());
      return Interrupted();
    }
    if (stops_.count() == 0 || draining_) return std::nullopt;
    if (known.leads) {
      draining_ = true;
      DrainRequest request;
      request.set_reason("the server was asked to stop");
      (void)server_->Call(request);
    } else if (!std::exchange(leaving_, true)) {
      log()->info("leaves the run: its shards go to the other servers");
      server_->Leave();
    }
    return std::nullopt;
  }

  // The run goes on elsewhere, or later.
  ExitCode Interrupted() {
    if (leads_) (void)SaveSummary(Summary::Status::kInterrupted, status_.detail());
    return kExitInterrupted;
  }

  absl::Status SaveSummary(Summary::Status outcome, const std::string& error) {
    RunRecorder& recorder = *opened().recorder;
    if (!std::exchange(told_last_, true)) recorder.Progress(status_, /*last=*/true);
    PSGD_RETURN_IF_ERROR(recorder.SaveSummary(status_, outcome, error));
    PSGD_RETURN_IF_ERROR(opened().trace->Write(opened().results.TraceFile()));
    log()->info("run directory: {}", opened().results.path());
    return absl::OkStatus();
  }

  // Saves results after training. REQUIRES: this server leads the run.
  absl::StatusOr<ExitCode> SaveResults() {
    PSGD_ASSIGN_OR_RETURN(status_, server_->Call(StatusRequest()));
    if (status_.total().samples() > 0 && !weights_saved_) {
      PSGD_RETURN_IF_ERROR(
          opened().recorder->SaveWeights([&](const auto& take) { return server_->Weights(take); }));
      weights_saved_ = true;
    }
    const bool failed = status_.state() == StatusReply::FAILED;
    const Summary::Status outcome = failed                      ? Summary::Status::kFailed
                                    : !status_.detail().empty() ? Summary::Status::kInterrupted
                                                                : Summary::Status::kFinished;
    PSGD_RETURN_IF_ERROR(SaveSummary(outcome, status_.detail()));
    server_->standing().SetResultsWaitFor("");
    server_->Close();
    ServerStanding known = server_->standing().now();
    const Time until = SteadyNow() + Milliseconds(start_.config.cluster().deadline());
    while (known.leads && !known.closed && !known.ended && SteadyNow() < until)
      known = server_->standing().WaitChanged(known, kLook);
    if (!known.closed) log()->warn("the run's record could not be closed");
    if (const absl::Status freed = server_->FreeRun(); !freed.ok()) {
      log()->warn(
          "the run's keys stay in etcd, where they are in the way of another run of its name: {}",
          std::string(freed.message()));
    }
    if (failed) return kExitFailed;
    return outcome == Summary::Status::kFinished ? kExitOk : kExitInterrupted;
  }

  // This server no longer belongs to the run.
  absl::StatusOr<ExitCode> Ended(const absl::Status& why) {
    if (absl::IsCancelled(why)) {
      log()->info("{}", std::string(why.message()));
      return kExitInterrupted;
    }
    if (why.ok()) {
      log()->info("the run is over; the server that led it has the results");
      return kExitOk;
    }
    if (leads_) {
      (void)SaveSummary(Summary::Status::kFailed, std::string(why.message()));
      server_->WaitUntilTold();
    }
    return why;
  }

  // Detaches the outer parts first, so that no call arrives while inner parts end.
  void End() {
    if (opened().pages != nullptr) opened().pages->Detach();
    if (server_ != nullptr) server_->Stop();
    start_.service.reset();
    records_.Set(nullptr, nullptr);
    server_.reset();
  }

  const Arguments& arguments_;
  const StopSignals& stops_;
  ServerStart start_;
  Records records_;
  std::unique_ptr<ServerLoop> server_;
  StatusReply status_;  // the last one while this server led the run
  bool leads_ = false;
  bool told_joined_ = false;
  bool warned_of_files_ = false;
  std::optional<Time> trouble_since_;  // as the server that leads the run
  RoomWait room_wait_;                 // of the results
  bool weights_saved_ = false, told_last_ = false;
  bool draining_ = false;
  bool leaving_ = false;
  std::string told_;  // the last shown reason for a delayed stop
  Time looked_{};     // at `status_`; calls in between may wait
  // When a worker was there last, a checkpoint grew, or nobody had asked the run to stop.
  Time last_sign_{};
  uint64_t checkpoint_bytes_ = 0;
  Time unhindered_{};  // when no server and no run store hindered the stop last
  Time written_{};     // when nothing kept a run that was asked to stop from being written last
  Time next_look_{};
};

}  // namespace
}  // namespace psgd

int ps_server_main(int argc, char** argv) {
  using namespace psgd;
  ServerArguments arguments;
  if (const auto code = ParseServerArguments(argc, argv, &arguments)) return *code;
  if (arguments.die_with_parent) DieWithParent();
  const StopSignals stops;
  RaiseOpenFilesLimit();
  const FreedMemoryKeeper keeper;
  Program program(arguments, stops);
  const auto code = program.Run();
  return code.ok() ? *code : Fail("ps-server", code.status());
}
