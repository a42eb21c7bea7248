// ps-server: holds the weights of one run.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/command_line.h"
#include "apps/exit_code.h"
#include "apps/stop_signals.h"
#include "apps/tls_arguments.h"
#include "dashboard/live_pages.h"
#include "engine/onnx/import.h"
#include "experiment/config_yaml.h"
#include "experiment/resume_check.h"
#include "experiment/run_dir.h"
#include "experiment/run_recorder.h"
#include "experiment/trace_file.h"
#include "net/address.h"
#include "server/parameter_server.h"

namespace psgd {
namespace {

constexpr char kExamples[] = R"(Examples:
  ps-server --shards 4 --config configs/fashion_mnist.yaml
  ps-server --config configs/fashion_mnist.yaml --port 7070 --set cluster.workers=4
  ps-server --config my.yaml --http 7080                     # a dashboard at http://127.0.0.1:7080
  ps-server --config my.yaml --bind 10.0.0.1 --tls-dir certs # workers on other machines
  ps-server --resume runs/fashion-mnist-20260101-120000      # go on from its last checkpoint
  ps-server --recover runs/fashion-mnist-20260101-120000     # or where its journal ends, workers and all
)";

struct Arguments {
  std::string config;
  std::vector<std::string> set;
  int shards = 0;
  int workers = 0;
  std::string run_dir;
  std::string resume;
  std::string recover;
  std::string checkpoint;
  std::string bind = "127.0.0.1";
  std::string advertise;
  int port = 7070;
  std::string http = "off";
  uint64_t trace = 0;
  bool insecure = false;
  TlsArguments tls;
  bool json = false;
  bool quiet = false;
  bool die_with_parent = false;
  std::string log_level = "info";
};

// The directory of the run that is to go on; empty: it is a new one.
const std::string& EarlierRun(const Arguments& arguments) {
  return arguments.recover.empty() ? arguments.resume : arguments.recover;
}

absl::StatusOr<Config> ReadConfig(const Arguments& arguments) {
  const std::string& earlier = EarlierRun(arguments);
  const std::string path = earlier.empty() ? arguments.config : RunDir(earlier).ConfigFile();
  PSGD_ASSIGN_OR_RETURN(Config config, LoadConfig(path));
  for (const std::string& assignment : arguments.set) {
    PSGD_RETURN_IF_ERROR(ApplySet(assignment, &config));
  }
  if (arguments.shards > 0) config.mutable_cluster()->set_shards(arguments.shards);
  if (arguments.workers > 0) config.mutable_cluster()->set_workers(arguments.workers);
  config = ResolveDefaults(std::move(config));
  PSGD_RETURN_IF_ERROR(ValidateConfig(config));
  return config;
}

absl::Status CheckBind(const Arguments& arguments, absl::string_view option,
                       const std::string& host) {
  const bool loopback = host == "localhost" || host.rfind("127.", 0) == 0;
  if (loopback || arguments.insecure || arguments.tls.given()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " ", host,
                   " lets other machines connect, and nothing checks who they are; make "
                   "certificates (scripts/make-certs.sh DIR ",
                   host,
                   ") and add --tls-dir DIR here and to the "
                   "workers; or, on a network that you trust, add --insecure"));
}

absl::StatusOr<std::shared_ptr<const Credentials>> ServerCredentials(const TlsArguments& tls) {
  PSGD_ASSIGN_OR_RETURN(auto credentials, LoadTls(tls, "server"));
  if (credentials == nullptr || credentials->role == Role::kServer) return credentials;
  return absl::InvalidArgumentError(
      absl::StrCat("the certificate is one of role ", RoleName(credentials->role),
                   ", not server (its OU); workers would not believe it"));
}

absl::StatusOr<LoadedCheckpoint> LoadChosen(const CheckpointStore& store, const std::string& chosen) {
  if (chosen.empty()) return store.LoadNewest();
  PSGD_ASSIGN_OR_RETURN(const uint64_t id, store.Find(chosen));
  return store.Load(id);
}

// Where the pages are; nothing: nowhere.
absl::StatusOr<std::optional<HttpServerOptions>> PagesAddress(const Arguments& arguments) {
  if (arguments.http == "off") return std::nullopt;
  HttpServerOptions options;
  const size_t colon = arguments.http.rfind(':');
  options.host = colon == std::string::npos ? arguments.bind : arguments.http.substr(0, colon);
  const std::string port = arguments.http.substr(colon == std::string::npos ? 0 : colon + 1);
  const bool good =
      absl::SimpleAtoi(port, &options.port) && options.port >= 0 && options.port < 65536;
  if (!good || options.host.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--http ", arguments.http,
                     " is not a port; write --http 7080, --http 127.0.0.1:7080, or --http off"));
  }
  PSGD_RETURN_IF_ERROR(CheckBind(arguments, "--http", options.host));
  return options;
}

absl::StatusOr<std::unique_ptr<LivePages>> OpenPages(
    const Arguments& arguments, const RunDir& dir, const Config& config,
    std::shared_ptr<const Credentials> credentials) {
  PSGD_ASSIGN_OR_RETURN(const auto address, PagesAddress(arguments));
  if (!address) return nullptr;
  LivePagesOptions options;
  options.http = *address;
  options.credentials = std::move(credentials);
  options.names = {arguments.bind, arguments.advertise, address->host};
  std::erase(options.names, "");
  options.config = FormatConfig(config);
  options.run_dir = dir.path();
  return LivePages::Listen(std::move(options));
}

void Announce(const Arguments& arguments, const ParameterServer& server, const std::string& http,
              const RunDir& dir) {
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
  if (!http.empty()) {
    const std::string page = (arguments.tls.given() ? "https://" : "http://") + http;
    std::cout << "dashboard: " << page << "/\nmetrics: " << page << "/metrics\n";
  }
  std::cout << "run directory: " << dir.path() << std::endl;
}

// Serves until the run is over or a stop was asked for; says how it ended.
Summary::Status Serve(ParameterServer& server, const StopSignals& stops, const Log& log,
                      const std::function<void(const StatusReply&)>& each_second) {
  bool draining = false;
  while (!server.WaitFinished(std::chrono::seconds(1))) {
    if (const auto status = server.Status(StatusRequest()); status.ok()) {
      each_second(*status);
    }
    if (stops.count() >= 2) {
      log->warn("stopped at once; what came after the last checkpoint is lost");
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
  if (status.ok() && status->state() == StatusReply::FAILED) return Summary::Status::kFailed;
  const bool drained = status.ok() && !status->detail().empty();
  return drained ? Summary::Status::kInterrupted : Summary::Status::kFinished;
}

absl::StatusOr<ExitCode> Run(const Arguments& arguments, const StopSignals& stops) {
  PSGD_ASSIGN_OR_RETURN(const Config config, ReadConfig(arguments));
  PSGD_RETURN_IF_ERROR(CheckBind(arguments, "--bind", arguments.bind));
  PSGD_ASSIGN_OR_RETURN(const auto credentials, ServerCredentials(arguments.tls));
  if (!arguments.advertise.empty()) {
    PSGD_RETURN_IF_ERROR(Annotate(ParseAddress(absl::StrCat("tcp://", arguments.advertise, ":1")).status(),
                                  "--advertise takes a host without a port"));
  }
  PSGD_RETURN_IF_ERROR(PagesAddress(arguments).status());

  RunDirOptions dir_options;
  const std::string& earlier = EarlierRun(arguments);
  dir_options.path = earlier.empty() ? arguments.run_dir : earlier;
  dir_options.resume = !earlier.empty();
  dir_options.name = config.name();
  dir_options.now = std::time(nullptr);
  dir_options.config_yaml = FormatConfig(config);
  if (dir_options.resume && arguments.checkpoint.empty()) {
    PSGD_RETURN_IF_ERROR(CheckUnfinished(dir_options.path, config));
  }
  PSGD_ASSIGN_OR_RETURN(RunDir dir, RunDir::Create(dir_options));
  std::error_code made;
  std::filesystem::create_directories(dir.ServerDir(), made);
  if (made) {
    return absl::UnavailableError(absl::StrCat("cannot make ", dir.ServerDir(), ": ",
                                               made.message(), "; is the disk full or read-only?"));
  }
  LogOptions log_options;
  log_options.name = "server";
  log_options.file = dir.ServerDir() + "/server.log";
  log_options.to_stderr = !arguments.quiet;
  log_options.level = arguments.log_level;
  PSGD_ASSIGN_OR_RETURN(const Log log, MakeLog(log_options));
  auto opened = OpenPages(arguments, dir, config, credentials);
  if (!opened.ok()) {
    dir.Abandon();  // or it would be in the way of the next attempt
    return opened.status();
  }
  const std::unique_ptr<LivePages> pages = *std::move(opened);
  RunRecorder::Observer observer;
  if (pages) observer = [&](const Record& record) { pages->Observe(record); };
  PSGD_ASSIGN_OR_RETURN(const auto recorder, RunRecorder::Open(dir, log, observer));

  const std::string& reached = arguments.advertise.empty() ? arguments.bind : arguments.advertise;
  if (credentials && reached != "0.0.0.0" && !CredentialsAreFor(*credentials, reached)) {
    log->warn("the certificate is not for {}: workers have to use a name that it is for as --server "
              "(scripts/make-certs.sh --renew server DIR {} makes one that is)", reached, reached);
  }
  ParameterServerOptions options;
  options.config = config;
  options.host = arguments.bind;
  options.advertise = arguments.advertise;
  options.control_port = arguments.port;
  options.credentials = credentials;
  options.run_dir = dir.path();
  options.checkpoint_dir = dir.ServerDir();
  options.recover = !arguments.recover.empty();
  if (config.model().has_onnx() && earlier.empty()) {
    auto given = ReadOnnxWeights(config.model().onnx());
    if (!given.ok()) {
      dir.Abandon();
      return given.status();
    }
    options.given = std::make_shared<const GivenWeights>(*std::move(given));
  }
  options.log = log;
  options.on_news = [&](const std::string& text) { recorder->News(text); };
  options.on_evaluation = [&](const EvalResult& result) { recorder->Evaluation(result); };
  options.on_choices = [&](const CodecChoices& choices) { recorder->Choices(choices); };
  options.on_checkpoint = [&](const CheckpointInfo& info) { recorder->Checkpoint(info); };
  TraceFile trace;
  options.trace_steps = arguments.trace;
  if (arguments.trace > 0) {
    options.on_spans = [&](std::vector<TraceSpan> spans) { trace.Add(std::move(spans)); };
  }
  if (!arguments.resume.empty()) {
    const CheckpointStore store(dir.ServerDir());
    PSGD_ASSIGN_OR_RETURN(LoadedCheckpoint loaded, LoadChosen(store, arguments.checkpoint));
    // Later ones than the chosen stay as they are.
    if (!arguments.checkpoint.empty()) {
      PSGD_ASSIGN_OR_RETURN(options.last_checkpoint, store.LastId());
    }
    for (const std::string& note : loaded.notes()) log->warn("{}", note);
    options.resume = std::make_shared<LoadedCheckpoint>(std::move(loaded));
  }
  const auto started = ParameterServer::Start(std::move(options));
  if (!started.ok()) {
    dir.Abandon();
    return started.status();
  }
  const std::unique_ptr<ParameterServer>& server = *started;
  if (pages) pages->Serve(server.get());
  const absl::Cleanup detach = [&] {
    if (pages) pages->Detach();
  };
  PSGD_ASSIGN_OR_RETURN(const StatusReply before, server->Status(StatusRequest()));
  recorder->ResumedAfter(before.total().samples());
  Announce(arguments, *server, pages ? pages->address() : "", dir);

  const Summary::Status outcome = Serve(*server, stops, log, [&](const StatusReply& status) {
    recorder->Progress(status);
    if (const absl::Status written = trace.Write(dir.TraceFile()); !written.ok()) {
      log->error("{}", std::string(written.message()));
    }
  });
  PSGD_ASSIGN_OR_RETURN(const StatusReply status, server->Status(StatusRequest()));
  if (status.total().steps() > 0) PSGD_RETURN_IF_ERROR(recorder->SaveWeights(*server));
  recorder->Progress(status, /*last=*/true);
  PSGD_RETURN_IF_ERROR(recorder->SaveSummary(status, outcome, status.detail()));
  PSGD_RETURN_IF_ERROR(trace.Write(dir.TraceFile()));
  log->info("run directory: {}", dir.path());
  switch (outcome) {
    case Summary::Status::kFinished: return kExitOk;
    case Summary::Status::kInterrupted: return kExitInterrupted;
    case Summary::Status::kFailed: return kExitFailed;
  }
  return kExitFailed;
}

}  // namespace
}  // namespace psgd

int main(int argc, char** argv) {
  using namespace psgd;
  Arguments arguments;
  CLI::App app(std::string(kExamples) + "\nHolds the weights of one training run on its shards.",
               "ps-server");
  auto* config = app.add_option("--config", arguments.config, "YAML file that describes the run");
  auto* resume = app.add_option("--resume", arguments.resume, "Run directory to go on from");
  resume->excludes(config);
  app.add_option("--checkpoint", arguments.checkpoint,
                 "Of that run, by id or name; default: the newest that is sound")
      ->needs(resume);
  auto* recover =
      app.add_option("--recover", arguments.recover,
                     "Run directory whose server died; go on where its journal ends, at its addresses")
          ->excludes(config)
          ->excludes(resume);
  app.add_option("--set", arguments.set, "Change one key: --set train.epochs=2 (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--shards", arguments.shards, "Threads that hold the weights (cluster.shards)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--workers", arguments.workers, "Workers to wait for (cluster.workers)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--run-dir", arguments.run_dir, "Where the run leaves its files")
      ->excludes("--resume");
  app.add_option("--bind", arguments.bind, "Address to listen on")->capture_default_str();
  app.add_option("--advertise", arguments.advertise, "Address workers are told to connect to");
  app.add_option("--port", arguments.port, "Control port; 0 takes any free one")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  app.add_option("--http", arguments.http,
                 "Port, or HOST:PORT, of the dashboard and /metrics; 0: any free one; off: none")
      ->capture_default_str();
  app.add_option("--trace", arguments.trace,
                 "Leave trace.json, for Perfetto: what workers and shards do in so many steps")
      ->type_name("STEPS")
      ->check(CLI::Range(1, 100000));
  AddTlsOptions(app, arguments.tls, "server");
  app.add_flag("--insecure", arguments.insecure, "Allow --bind to a public address, unprotected");
  app.add_flag("--json", arguments.json, "Announce the addresses as one JSON line");
  app.add_flag("--quiet", arguments.quiet, "Log to the run directory only");
  app.add_option("--log-level", arguments.log_level, "trace, debug, info, warn, error")
      ->capture_default_str();
  app.add_flag("--die-with-parent", arguments.die_with_parent,
               "End when the process that started this one ends");
  // It is the run that it was, where it was.
  for (const char* other : {"--set", "--shards", "--workers", "--run-dir", "--bind", "--advertise", "--port"}) {
    recover->excludes(other);
  }
  if (const auto code = ParseCommandLine(app, argc, argv)) return *code;
  if (arguments.config.empty() && EarlierRun(arguments).empty()) {
    return Fail("ps-server",
                absl::InvalidArgumentError(
                    "no run given; say --config FILE, --resume RUN_DIR or --recover RUN_DIR"));
  }
  if (arguments.die_with_parent) DieWithParent();
  const StopSignals stops;
  const auto code = Run(arguments, stops);
  return code.ok() ? *code : Fail("ps-server", code.status());
}
