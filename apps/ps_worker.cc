// ps-worker: computes gradients for a run.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/command_line.h"
#include "apps/etcd_arguments.h"
#include "apps/exit_code.h"
#include "apps/program_mains.h"
#include "apps/stop_signals.h"
#include "apps/tls_arguments.h"
#include "common/freed_memory.h"
#include "common/open_files.h"
#include "common/units.h"
#include "engine/runtime/memory_report.h"
#include "engine/runtime/plugin.h"
#include "engine/runtime/replicas.h"
#include "experiment/config/config_yaml.h"
#include "experiment/launch/joined_server.h"
#include "experiment/record/cache_file.h"
#include "proto/micro_batch.h"
#include "train/dry_run.h"
#include "train/gpu_devices.h"
#include "train/node.h"

namespace psgd {
namespace {

constexpr char kExamples[] = R"(Examples:
  ps-worker --cpu --server 127.0.0.1:7070
  ps-worker --cpu --threads 2 --server head-node:7070
  ps-worker --cpu --etcd 127.0.0.1:2379 --run my-run          # wherever the server is by now
  ps-worker --gpu 0-7 --server head-node:7070                 # a replica on each GPU
  ps-worker --gpu 0 --precision bf16 --server head-node:7070
  ps-worker --cpu --server head-node:7070 --tls-dir certs     # of a secured server
  ps-worker --cpu --threads 8 --precision bf16 --server head-node:7070   # with avx512_bf16
  ps-worker --cpu --server head-node:7070 --with-server /var/tmp/psgd --tls-dir certs
  ps-worker --cpu --drain-deadline 2m --server head-node:7070   # of one whose notice is so long
  ps-worker --cpu --dry-run configs/fashion_mnist.yaml        # memory it takes, largest batch
)";

constexpr Duration kFindPeriod = std::chrono::milliseconds(200);

struct Arguments {
  std::string server;
  EtcdArguments etcd;
  std::string dry_run;  // the path of a config
  std::vector<std::string> set;
  bool cpu = false;
  std::string gpu;
  int replicas = 1;
  int threads = 1;
  std::string engine = "onednn";
  std::string precision = "fp32";
  std::string engine_choices = CacheFile("cudnn-engines");
  std::string name;
  TlsArguments tls;
  std::string with_server;
  std::string link;
  bool insecure = false;
  std::string step_delay = "0ms";
  std::string connect_deadline = "60s";
  std::string push_log;
  std::string drain_deadline = "30s";
  std::string log_file;
  std::string log_level = "info";
  bool quiet = false;
  bool die_with_parent = false;
};

// Host names may have any characters; others than those of a worker's name become '-'.
std::string DefaultName() {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  std::string name = absl::StrCat(host, "-", getpid());
  for (char& c : name) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '_' && c != '-') c = '-';
  }
  constexpr size_t kMost = 60;  // of 64, because a replica's number may follow
  return name.substr(name.size() > kMost ? name.size() - kMost : 0);
}

// The trainer's devices: GPUs, or replicas on the CPU.
absl::StatusOr<TrainerOptions> ReplicasGiven(const Arguments& arguments) {
  TrainerOptions options;
  options.backend = arguments.engine;
  options.threads = arguments.threads;
  options.replicas = arguments.replicas;
  PSGD_ASSIGN_OR_RETURN(options.precision, PrecisionNamed(arguments.precision));
  if (!arguments.gpu.empty()) {
    PSGD_ASSIGN_OR_RETURN(options.gpus, ChooseGpus(arguments.gpu));
    if (arguments.engine_choices != "none") options.choices = arguments.engine_choices;
    return options;
  }
  // Checked before a server counts on this worker.
  PSGD_RETURN_IF_ERROR(CheckPrecision(options.backend, "", options.precision));
  return options;
}

// A dry run needs no device options: it takes the first GPU, or else the CPU.
void ChooseForDryRun(Arguments* arguments) {
  if (arguments->cpu || !arguments->gpu.empty()) return;
  const absl::Status found = ChooseGpus("0").status();
  if (found.ok()) {
    arguments->gpu = "0";
    std::cerr << "ps-worker: on GPU 0; for the processor say --cpu\n";
  } else {
    arguments->cpu = true;
    std::cerr << "ps-worker: on the processor, for no GPU can be used here (" << found.message()
              << ")\n";
  }
}

absl::Status DryRun(const Arguments& arguments) {
  PSGD_ASSIGN_OR_RETURN(Config config, LoadConfig(arguments.dry_run, arguments.set));
  config = ResolveDefaults(std::move(config));
  PSGD_RETURN_IF_ERROR(ValidateConfig(config));
  PSGD_ASSIGN_OR_RETURN(const TrainerOptions options, ReplicasGiven(arguments));
  const std::vector<NetworkOptions> networks = NetworksOf(options);
  PSGD_ASSIGN_OR_RETURN(const size_t available, AvailableToEach(networks));
  if (config.node().reduce() == NodeConfig::NCCL) PSGD_RETURN_IF_ERROR(CheckDevicesMeet(networks));
  if (config.node().reduce() != NodeConfig::NONE) {
    PSGD_ASSIGN_OR_RETURN(const int batch,
                          BatchOfReplica(MicroBatchOf(config.data()), networks.size()));
    config.mutable_data()->set_micro_batch(batch);
  }
  PSGD_ASSIGN_OR_RETURN(const std::string text, DryRunText(config, networks[0], available));
  std::cout << text;
  return absl::OkStatus();
}

// Sets the addresses of the run's servers and a way to find them later. Waits until there are any.
absl::Status FindServers(const Arguments& arguments, const StopSignals& stops,
                         TrainerOptions* options) {
  if (!arguments.etcd.given()) {
    PSGD_RETURN_IF_ERROR(CheckServerAddress(arguments.server));
    options->server = arguments.server;
    return absl::OkStatus();
  }
  PSGD_ASSIGN_OR_RETURN(const auto etcd, OpenEtcd(arguments.etcd, options->credentials));
  options->find_servers = [etcd] { return ServersOf(*etcd, etcd->run()); };
  const Time start = SteadyNow();
  auto servers = options->find_servers();
  while (!servers.ok() && !absl::IsFailedPrecondition(servers.status()) && stops.count() == 0 &&
         SteadyNow() - start < options->connect_deadline) {
    std::this_thread::sleep_for(kFindPeriod);
    servers = options->find_servers();
  }
  PSGD_RETURN_IF_ERROR(servers.status());
  options->server = absl::StrJoin(*servers, ",");
  return CheckServerAddress(options->server);
}

absl::StatusOr<Duration> DurationOf(const char* option, const std::string& text) {
  PSGD_ASSIGN_OR_RETURN(const int64_t milliseconds, ParseMilliseconds(text));
  if (milliseconds >= 0) return Milliseconds(milliseconds);
  return InvalidArgumentError(option, " ", text, " is negative");
}

absl::Status Run(const Arguments& arguments, const StopSignals& stops) {
  PSGD_ASSIGN_OR_RETURN(TrainerOptions options, ReplicasGiven(arguments));
  options.replaces = !arguments.name.empty();
  options.name = options.replaces ? arguments.name : DefaultName();
  PSGD_ASSIGN_OR_RETURN(options.credentials, LoadTls(arguments.tls, "worker"));
  options.stops = &stops.count();
  options.stop_asked = &stops.first();
  PSGD_ASSIGN_OR_RETURN(options.step_delay, DurationOf("--step-delay", arguments.step_delay));
  options.push_log = arguments.push_log;
  PSGD_ASSIGN_OR_RETURN(const int64_t deadline, ParseMilliseconds(arguments.connect_deadline));
  options.connect_deadline = Milliseconds(deadline);
  PSGD_ASSIGN_OR_RETURN(options.drain_deadline,
                        DurationOf("--drain-deadline", arguments.drain_deadline));
  PSGD_RETURN_IF_ERROR(FindServers(arguments, stops, &options));
  LogOptions log;
  log.name = "worker";
  log.file = arguments.log_file;
  log.to_stderr = !arguments.quiet;
  log.level = arguments.log_level;
  PSGD_ASSIGN_OR_RETURN(options.log, MakeLog(log));
  if (!options.choices.empty() && !CanAppend(options.choices)) {
    options.log->warn(
        "{} cannot be written, so cuDNN's engines are measured at each start; --engine-choices "
        "names another file, or none",
        options.choices);
  }
  std::unique_ptr<JoinedServer> beside;
  if (!arguments.with_server.empty()) {
    if (!arguments.tls.ca.empty()) {
      return absl::InvalidArgumentError(
          "--with-server needs a certificate of its own: say --tls-dir, whose folder has "
          "server.crt "
          "beside worker.crt");
    }
    PSGD_ASSIGN_OR_RETURN(
        beside, JoinedServer::Start({.server = options.server.substr(0, options.server.find(',')),
                                     .run_dir = arguments.with_server,
                                     .link = arguments.link,
                                     .tls_dir = arguments.tls.dir,
                                     .insecure = arguments.insecure,
                                     .deadline = options.connect_deadline,
                                     .stops = &stops.count()}));
  }
  const absl::Status trained = TrainNode(options);
  if (beside != nullptr) beside->End();
  return trained;
}

}  // namespace
}  // namespace psgd

int ps_worker_main(int argc, char** argv) {
  using namespace psgd;
  Arguments arguments;
  CLI::App app(
      std::string(kExamples) +
          "\nComputes gradients for the run that a ps-server holds: everything else it needs "
          "to know comes from there.",
      "ps-worker");
  auto* server = app.add_option("--server", arguments.server, "HOST:PORT of the ps-server");
  AddEtcdOptions(app, arguments.etcd, server);
  auto* dry_run =
      app.add_option(
             "--dry-run", arguments.dry_run,
             "Only print what memory a replica of this config would take, and the largest batch")
          ->type_name("CONFIG")
          ->excludes(server);
  app.add_option("--set", arguments.set,
                 "With --dry-run: change one key, --set data.batch=64 (repeatable)")
      ->type_name("KEY=VALUE")
      ->needs(dry_run);
  auto* cpu = app.add_flag("--cpu", arguments.cpu, "Train on the processor");
  auto* gpu =
      app.add_option("--gpu", arguments.gpu,
                     "Train on these GPUs: 0, 0-7 or 0,2,4-6; 0,0,0 for three replicas on one")
          ->type_name("LIST")
          ->excludes(cpu);
  app.add_option("--replicas", arguments.replicas,
                 "On the processor, as many as a GPU list would make: workers of their own, or one "
                 "that shares its batches, as the run's node.reduce says")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024))
      ->excludes(gpu);
  app.add_option("--threads", arguments.threads, "Processor threads of a step")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--engine", arguments.engine, "onednn, or reference (slow, plain loops)")
      ->capture_default_str()
      ->check(CLI::IsMember({"onednn", "reference"}));
  app.add_option(
         "--precision", arguments.precision,
         "What to compute in: fp32, bf16 or, on a GPU, tf32 or fp16; weights and updates stay fp32")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}));
  app.add_option("--engine-choices", arguments.engine_choices,
                 "On GPUs, the file that remembers which of cuDNN's engines is the fastest for "
                 "each convolution, so that it is measured once; none: each start measures. "
                 "Default: ~/.cache/psgd/cudnn-engines");
  app.add_option("--name", arguments.name,
                 "Name of this worker, which no other has: a new process takes the place of one "
                 "that died; default: HOST-PID");
  AddTlsOptions(app, arguments.tls, "worker");
  auto* with_server =
      app.add_option(
             "--with-server", arguments.with_server,
             "Also run a ps-server on this machine, which joins the run and keeps its files "
             "in this directory")
          ->type_name("RUN_DIR")
          ->needs(server);
  app.add_flag("--insecure", arguments.insecure,
               "That server may listen on a public address without certificates")
      ->needs(with_server);
  app.add_option("--link", arguments.link,
                 "Speed of this machine's link, as 10gbit, which that server tells the run "
                 "(ps-server --link)")
      ->type_name("RATE")
      ->needs(with_server);
  app.add_option("--step-delay", arguments.step_delay,
                 "Wait so long in every step, to see what a slow worker does")
      ->capture_default_str();
  app.add_option("--connect-deadline", arguments.connect_deadline,
                 "Give up when no server answers for so long")
      ->capture_default_str();
  app.add_option("--push-log", arguments.push_log,
                 "List each acknowledged push in this file, to compare with the journals")
      ->type_name("FILE");
  app.add_option("--drain-deadline", arguments.drain_deadline,
                 "Be gone so long after SIGTERM or Ctrl-C, pushed residual or not")
      ->capture_default_str();
  app.add_option("--log-file", arguments.log_file, "Also log to this file");
  app.add_option("--log-level", arguments.log_level, "trace, debug, info, warn, error")
      ->capture_default_str();
  app.add_flag("--quiet", arguments.quiet, "Do not log to the terminal");
  app.add_flag("--die-with-parent", arguments.die_with_parent,
               "End when the process that started this one ends");
  if (const auto code = ParseCommandLine(app, argc, argv)) return *code;
  if (!arguments.dry_run.empty()) ChooseForDryRun(&arguments);
  if (!arguments.cpu && arguments.gpu.empty()) {
    return Fail("ps-worker",
                absl::InvalidArgumentError("say what to train on: --cpu, or --gpu 0 (or 0-7)"));
  }
  if (!arguments.dry_run.empty()) {
    const absl::Status status = DryRun(arguments);
    return status.ok() ? kExitOk : Fail("ps-worker", status);
  }
  if (arguments.server.empty() && !arguments.etcd.given()) {
    return Fail("ps-worker",
                absl::InvalidArgumentError(
                    "no server given; say --server HOST:PORT, which ps-server prints, or --etcd "
                    "HOST:PORT --run NAME"));
  }
  if (arguments.die_with_parent) DieWithParent();
  const StopSignals stops;
  RaiseOpenFilesLimit();
  const FreedMemoryKeeper keeper;
  const absl::Status status = Run(arguments, stops);
  if (!status.ok()) return Fail("ps-worker", status);
  return stops.count() > 0 ? kExitInterrupted : kExitOk;
}
