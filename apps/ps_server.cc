// ps-server: holds the weights of one run.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/exit_code.h"
#include "apps/join_run.h"
#include "apps/opened_run.h"
#include "apps/server_arguments.h"
#include "apps/stop_signals.h"
#include "common/units.h"
#include "dashboard/live_pages.h"
#include "engine/onnx/import.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/resume_check.h"
#include "experiment/record/run_config.h"
#include "experiment/record/run_dir.h"
#include "experiment/record/run_recorder.h"
#include "experiment/record/trace_file.h"
#include "net/address.h"
#include "server/control/follower.h"
#include "server/control/parameter_server.h"
#include "server/control/server_shares.h"

namespace psgd {
namespace {

using Arguments = ServerArguments;

// The directory of the run that is to go on; empty: it is a new one.
const std::string& EarlierRun(const Arguments& arguments) {
  return arguments.recover.empty() ? arguments.resume : arguments.recover;
}

absl::StatusOr<Config> ReadConfig(const Arguments& arguments) {
  return ReadRunConfig({.config = arguments.config,
                        .resume = EarlierRun(arguments),
                        .checkpoint = {},
                        .set = arguments.set,
                        .shards = arguments.shards,
                        .workers = arguments.workers,
                        .run_dir = {}});
}

absl::StatusOr<LoadedCheckpoint> LoadChosen(const CheckpointStore& store,
                                            const std::string& chosen) {
  if (chosen.empty()) return store.LoadNewest();
  PSGD_ASSIGN_OR_RETURN(const uint64_t id, store.Find(chosen));
  return store.Load(id);
}

struct Resumed {
  std::shared_ptr<const LoadedCheckpoint> checkpoint;  // null: the run is new
  uint64_t last = 0;  // later ones than the chosen stay as they are
};

absl::StatusOr<Resumed> LoadResumed(const Arguments& arguments) {
  Resumed resumed;
  if (arguments.resume.empty()) return resumed;
  const CheckpointStore store(RunDir(arguments.resume).ServerDir());
  PSGD_ASSIGN_OR_RETURN(LoadedCheckpoint loaded, LoadChosen(store, arguments.checkpoint));
  resumed.checkpoint = std::make_shared<LoadedCheckpoint>(std::move(loaded));
  if (!arguments.checkpoint.empty()) {
    PSGD_ASSIGN_OR_RETURN(resumed.last, store.LastId());
  }
  return resumed;
}

// `opened` must outlive the server.
ParameterServerOptions ServerOptions(const Arguments& arguments, const Config& config,
                                     std::shared_ptr<const Credentials> credentials,
                                     const OpenedRun& opened) {
  ParameterServerOptions options;
  options.config = config;
  options.host = arguments.bind;
  options.advertise = arguments.advertise;
  options.control_port = arguments.port;
  options.credentials = std::move(credentials);
  options.run_dir = opened.results.path();
  options.checkpoint_dir = opened.results.ServerDir();
  options.journal_dir = opened.dir.ServerDir();
  options.log = opened.log;
  RunRecorder* const recorder = opened.recorder.get();
  options.on_news = [recorder](const std::string& text) { recorder->News(text); };
  options.on_evaluation = [recorder](const EvalResult& result) { recorder->Evaluation(result); };
  options.on_choices = [recorder](const CodecChoices& choices) { recorder->Choices(choices); };
  options.on_checkpoint = [recorder](const CheckpointInfo& info) { recorder->Checkpoint(info); };
  options.trace_steps = arguments.trace;
  if (arguments.trace > 0) {
    options.on_spans = [trace = opened.trace.get()](uint32_t server, std::vector<TraceSpan> spans) {
      trace->Add(server, std::move(spans));
    };
  }
  return options;
}

void Announce(const Arguments& arguments, const ParameterServer& server, const std::string& run,
              const std::string& http, const RunDir& dir) {
  if (arguments.json) {
    std::cout << nlohmann::ordered_json{{"event", "ready"},
                                        {"control", server.control_address()},
                                        {"http", http},
                                        {"run_dir", dir.path()}}
              << std::endl;
    return;
  }
  std::cout << "ready: workers connect with  ps-worker --cpu --server " << server.control_address()
            << (arguments.tls.given() ? " --tls-dir DIR\n" : "\n");
  if (arguments.etcd.given()) {
    std::cout << "or, wherever the server moves:  ps-worker --cpu --etcd " << arguments.etcd.members
              << " --run " << run << "\n";
  }
  if (!http.empty()) {
    const std::string page = (arguments.tls.given() ? "https://" : "http://") + http;
    std::cout << "dashboard: " << page << "/\nmetrics: " << page << "/metrics\n";
  }
  std::cout << "run directory: " << dir.path() << std::endl;
}

void AnnounceEvent(const Arguments& arguments, const std::string& event) {
  if (arguments.json) std::cout << nlohmann::json{{"event", event}} << std::endl;
}

void AnnounceFollowing(const Arguments& arguments, const Follower& follower,
                       const std::string& address, const RunDir& dir) {
  if (arguments.json) {
    std::cout << nlohmann::ordered_json{{"event", "following"},
                                        {"control", address},
                                        {"replica", follower.replica()},
                                        {"run_dir", dir.path()}}
              << std::endl;
    return;
  }
  std::cout << "following: as server " << follower.replica() << " of the run; it takes over if "
            << arguments.follow << " dies\nrun directory: " << dir.path() << std::endl;
}

// Serves until the run is over or a stop was asked for; says how it ended.
absl::StatusOr<Summary::Status> Serve(ParameterServer& server, const StopSignals& stops,
                                      const Log& log,
                                      const std::function<void(const StatusReply&)>& each_second) {
  bool draining = false;
  std::string told;
  Time last_worker = SteadyNow();
  while (!server.WaitFinished(std::chrono::seconds(1))) {
    if (const std::string why = server.deposed(); !why.empty())
      return absl::FailedPreconditionError(why);
    if (const auto status = server.Status(StatusRequest()); status.ok()) {
      each_second(*status);
      const bool anyone = std::any_of(status->workers().begin(), status->workers().end(),
                                      [](const WorkerStatus& worker) { return worker.live(); });
      if (anyone || !draining) last_worker = SteadyNow();
      const std::string waits_for = draining ? StopWaitsFor(*status) : "";
      if (!waits_for.empty() && told != waits_for) log->warn("{}", waits_for);
      told = waits_for;
      const Duration deadline = Milliseconds(status->config().cluster().deadline());
      if (SteadyNow() - last_worker > deadline) {
        log->warn(
            "ends without what is still to be written down: no worker is left, and a follower, "
            "another "
            "server or the disk does not answer");
        return Summary::Status::kInterrupted;
      }
    }
    if (stops.count() >= 2) {
      log->warn("stopped at once; {}",
                server.HasJournal()
                    ? "ps-server --recover of its run directory goes on from the journal"
                    : "what came after the last checkpoint is lost");
      return Summary::Status::kInterrupted;
    }
    if (stops.count() == 1 && !draining) {
      draining = true;
      DrainRequest request;
      request.set_reason("the server was asked to stop");
      (void)server.Drain(request);
    }
  }
  const auto status = server.Status(StatusRequest());
  if (server.lost() || (status.ok() && status->state() == StatusReply::FAILED)) {
    return Summary::Status::kFailed;
  }
  const bool drained = status.ok() && !status->detail().empty();
  return drained ? Summary::Status::kInterrupted : Summary::Status::kFinished;
}

absl::StatusOr<ExitCode> Lead(const Arguments& arguments, ParameterServer& server,
                              OpenedRun& opened, const StopSignals& stops) {
  RunRecorder& recorder = *opened.recorder;
  LivePages* const pages = opened.pages.get();
  if (pages != nullptr) pages->Serve(&server);
  const absl::Cleanup detach = [&] {
    if (pages != nullptr) pages->Detach();
  };
  PSGD_ASSIGN_OR_RETURN(const StatusReply before, server.Status(StatusRequest()));
  recorder.BeginsAt(before, server.samples_before());
  Announce(arguments, server, before.name(), pages == nullptr ? "" : pages->address(),
           opened.results);

  const std::string trace_file = opened.results.TraceFile();
  const auto each_second = [&](const StatusReply& status) {
    recorder.Progress(status);
    if (const absl::Status written = opened.trace->Write(trace_file); !written.ok()) {
      opened.log->error("{}", std::string(written.message()));
    }
  };
  PSGD_ASSIGN_OR_RETURN(const Summary::Status outcome,
                        Serve(server, stops, opened.log, each_second));
  PSGD_ASSIGN_OR_RETURN(const StatusReply status, server.Status(StatusRequest()));
  if (server.Finished()) {
    if (const absl::Status ended = server.EndChain(); !ended.ok()) {
      opened.log->warn(
          "the run's keys stay in etcd, where they are in the way of another run of its name: {}",
          std::string(ended.message()));
    }
  }
  if (status.total().steps() > 0 && !server.lost())
    PSGD_RETURN_IF_ERROR(recorder.SaveWeights(server));
  recorder.Progress(status, /*last=*/true);
  PSGD_RETURN_IF_ERROR(recorder.SaveSummary(status, outcome, status.detail()));
  PSGD_RETURN_IF_ERROR(opened.trace->Write(trace_file));
  opened.log->info("run directory: {}", opened.results.path());
  switch (outcome) {
    case Summary::Status::kFinished:
      return kExitOk;
    case Summary::Status::kInterrupted:
      return kExitInterrupted;
    case Summary::Status::kFailed:
      return kExitFailed;
  }
  return kExitFailed;
}

// Null: nobody asked for it.
absl::StatusOr<std::shared_ptr<ChainStore>> Chains(const Arguments& arguments, const Config& config,
                                                   std::shared_ptr<const Credentials> credentials) {
  if (!arguments.etcd.given()) return nullptr;
  PSGD_RETURN_IF_ERROR(CheckSettles(config));
  EtcdArguments etcd = arguments.etcd;
  etcd.run = config.name();
  return OpenEtcd(etcd, std::move(credentials), Milliseconds(config.durability().takeover()));
}

absl::Status CheckFollow(const Arguments& arguments) {
  if (arguments.etcd.given())
    return Annotate(CheckRunName(arguments.follow), "--follow with --etcd");
  for (const absl::string_view leader : absl::StrSplit(arguments.follow, ',')) {
    PSGD_RETURN_IF_ERROR(Annotate(ParseAddress(absl::StrCat("tcp://", leader)).status(),
                                  "--follow takes HOST:PORT, or several with commas"));
  }
  return absl::OkStatus();
}

// Which server this one is, if its run directory knows that.
absl::StatusOr<FollowerRecord> FollowsAs(const Arguments& arguments, const EarlierServer& earlier) {
  FollowerRecord self = earlier.record;
  const auto asked = static_cast<uint32_t>(arguments.replica);
  if (asked == 0 || asked == self.replica()) return self;
  if (earlier.kind != EarlierServer::Kind::kNone) {
    return absl::FailedPreconditionError(
        absl::StrCat(earlier.text, ", not server ", asked,
                     ": take an empty directory as --run-dir, or leave out --replica ", asked));
  }
  self.set_replica(asked);
  return self;
}

absl::StatusOr<ExitCode> Follow(const Arguments& arguments, const StopSignals& stops) {
  PSGD_RETURN_IF_ERROR(CheckFollow(arguments));
  PSGD_ASSIGN_OR_RETURN(const auto credentials, ServerCredentials(arguments.tls));
  PSGD_RETURN_IF_ERROR(PagesAddress(arguments).status());
  PSGD_ASSIGN_OR_RETURN(auto service,
                        ControlService::Start(arguments.bind, arguments.port, credentials.get()));
  PSGD_ASSIGN_OR_RETURN(const EarlierServer earlier,
                        TakeUpRunDir(arguments.run_dir, EarlierServer::Kind::kOfChain));
  FollowerOptions options;
  if (arguments.etcd.given()) {
    EtcdArguments etcd = arguments.etcd;
    etcd.run = arguments.follow;
    PSGD_ASSIGN_OR_RETURN(options.chains, OpenEtcd(etcd, credentials));
  } else {
    options.leaders = absl::StrSplit(arguments.follow, ',');
  }
  options.host = arguments.bind;
  options.advertise = arguments.advertise;
  options.control_port = service->port();
  PSGD_ASSIGN_OR_RETURN(options.self, FollowsAs(arguments, earlier));
  PSGD_ASSIGN_OR_RETURN(const int64_t deadline, ParseMilliseconds(arguments.connect_deadline));
  options.connect_deadline = Milliseconds(deadline);
  options.credentials = credentials;
  options.interrupted = [&] {
    return stops.count() == 0 ? absl::OkStatus() : absl::CancelledError("stopped; the run goes on");
  };
  options.tell = [&](FollowerNews news) {
    AnnounceEvent(arguments, news == FollowerNews::kMayNotLead ? "may_not_lead" : "follows_again");
  };
  auto connected = Follower::Connect(std::move(options));
  if (earlier.kind != EarlierServer::Kind::kNone &&
      absl::IsFailedPrecondition(connected.status())) {
    return Annotate(connected.status(), earlier.text);
  }
  PSGD_ASSIGN_OR_RETURN(const auto follower, std::move(connected));
  const Config& config = follower->config();

  RunDirOptions dir_options;
  dir_options.path = arguments.run_dir;
  dir_options.resume =
      !arguments.run_dir.empty() && std::filesystem::exists(RunDir(arguments.run_dir).ConfigFile());
  dir_options.name = absl::StrCat(config.name(), "-server-", follower->replica());
  dir_options.now = std::time(nullptr);
  PSGD_ASSIGN_OR_RETURN(OpenedRun opened, OpenRun(arguments, dir_options));
  PSGD_RETURN_IF_ERROR(opened.dir.SaveConfig(FormatConfig(config)));
  AnnounceFollowing(arguments, *follower, absl::StrCat(arguments.bind, ":", service->port()),
                    opened.dir);
  const auto end = follower->Follow(opened.dir.ServerDir(), opened.log);
  if (!end.ok()) return end.status();
  if (*end == Follower::End::kOver) {
    opened.log->info("the run is over; its leader has the results");
    return kExitOk;
  }
  AnnounceEvent(arguments, "taking_over");
  PSGD_RETURN_IF_ERROR(OpenResults(arguments, config, credentials, &opened));
  ParameterServerOptions server_options = ServerOptions(arguments, config, credentials, opened);
  FollowedRun followed = follower->TakeOver();
  followed.service = std::move(service);
  PSGD_ASSIGN_OR_RETURN(const auto server,
                        ParameterServer::TakeOver(std::move(server_options), std::move(followed)));
  return Lead(arguments, *server, opened, stops);
}

absl::StatusOr<ExitCode> Run(const Arguments& arguments, const StopSignals& stops) {
  PSGD_RETURN_IF_ERROR(CheckBind(arguments, "--bind", arguments.bind));
  if (!arguments.advertise.empty()) {
    PSGD_RETURN_IF_ERROR(
        Annotate(ParseAddress(absl::StrCat("tcp://", arguments.advertise, ":1")).status(),
                 "--advertise takes a host without a port"));
  }
  if (!arguments.follow.empty()) return Follow(arguments, stops);
  if (!arguments.join.empty()) return JoinRun(arguments, stops);
  PSGD_ASSIGN_OR_RETURN(const Config config, ReadConfig(arguments));
  PSGD_ASSIGN_OR_RETURN(const auto credentials, ServerCredentials(arguments.tls));
  PSGD_RETURN_IF_ERROR(PagesAddress(arguments).status());
  PSGD_ASSIGN_OR_RETURN(const auto failpoint, PlanFailpoint(arguments.failpoint));
  PSGD_ASSIGN_OR_RETURN(const auto chains, Chains(arguments, config, credentials));

  RunDirOptions dir_options;
  const std::string& earlier = EarlierRun(arguments);
  dir_options.path = earlier.empty() ? arguments.run_dir : earlier;
  dir_options.resume = !earlier.empty();
  dir_options.name = config.name();
  dir_options.now = std::time(nullptr);
  if (dir_options.resume && arguments.checkpoint.empty()) {
    PSGD_RETURN_IF_ERROR(CheckUnfinished(dir_options.path, config));
  }
  PSGD_ASSIGN_OR_RETURN(OpenedRun opened, OpenRun(arguments, dir_options));
  // Before anything of the run is written: one that cannot be gone on with stays as it is.
  PSGD_ASSIGN_OR_RETURN(Resumed resumed, LoadResumed(arguments));
  PSGD_RETURN_IF_ERROR(opened.dir.SaveConfig(FormatConfig(config)));
  if (const absl::Status open = OpenResults(arguments, config, credentials, &opened); !open.ok()) {
    opened.dir.Abandon();  // or it would be in the way of the next attempt
    return open;
  }

  const std::string& reached = arguments.advertise.empty() ? arguments.bind : arguments.advertise;
  if (credentials && reached != "0.0.0.0" && !CredentialsAreFor(*credentials, reached)) {
    opened.log->warn(
        "the certificate is not for {}: workers have to use a name that it is for as --server "
        "(scripts/make-certs.sh --renew server DIR {} makes one that is)",
        reached, reached);
  }
  ParameterServerOptions options = ServerOptions(arguments, config, credentials, opened);
  options.recover = !arguments.recover.empty();
  options.recover_here = arguments.elsewhere;
  options.chains = chains;
  options.failpoint = failpoint;
  if (config.model().has_onnx() && earlier.empty()) {
    auto given = ReadOnnxWeights(config.model().onnx());
    if (!given.ok()) {
      opened.dir.Abandon();
      return given.status();
    }
    options.given = std::make_shared<const GivenWeights>(*std::move(given));
  }
  if (resumed.checkpoint != nullptr) {
    for (const std::string& note : resumed.checkpoint->notes()) opened.log->warn("{}", note);
    options.resume =
        std::move(resumed.checkpoint);  // the weights of a run stay no longer than it wants them
    options.last_checkpoint = resumed.last;
  }
  const auto started = ParameterServer::Start(std::move(options));
  if (!started.ok()) {
    opened.dir.Abandon();
    return started.status();
  }
  return Lead(arguments, **started, opened, stops);
}

}  // namespace
}  // namespace psgd

int main(int argc, char** argv) {
  using namespace psgd;
  ServerArguments arguments;
  if (const auto code = ParseServerArguments(argc, argv, &arguments)) return *code;
  if (arguments.die_with_parent) DieWithParent();
  const StopSignals stops;
  const auto code = Run(arguments, stops);
  return code.ok() ? *code : Fail("ps-server", code.status());
}
