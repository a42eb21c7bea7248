// ps-run: executes a whole run on this machine.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/command_line.h"
#include "apps/etcd_arguments.h"
#include "apps/exit_code.h"
#include "apps/program_mains.h"
#include "apps/stop_signals.h"
#include "apps/tls_arguments.h"
#include "common/cores.h"
#include "common/files.h"
#include "common/shell_line.h"
#include "engine/runtime/plugin.h"
#include "experiment/config/other_names.h"
#include "experiment/launch/command_gpus.h"
#include "experiment/launch/local_run.h"
#include "experiment/launch/preflight.h"
#include "experiment/launch/resume_advice.h"
#include "experiment/launch/summary_text.h"
#include "experiment/launch/terminal.h"
#include "experiment/record/run_config.h"
#include "experiment/record/run_dir.h"
#include "optimizers/diverged.h"
#include "proto/has_journal.h"
#include "server/durability/journal_folder.h"
#include "train/gpu_devices.h"

namespace psgd {
namespace {

constexpr char kExamples[] = R"(Examples:
  ps-run configs/fashion_mnist.yaml
  ps-run configs/fashion_mnist.yaml --shards 8 --workers 4 --run-dir runs/wide
  ps-run configs/fashion_mnist.yaml --set compression.push=onebit --set train.epochs=2
  ps-run configs/cifar10_resnet20.yaml --gpu 0-7 --precision bf16   # a worker on each GPU
  ps-run configs/fashion_mnist.yaml --http 7080       # a dashboard at http://127.0.0.1:7080
  ps-run my.yaml --set cluster.servers=3 --set cluster.copies=2 # any server may die, with its disk
  ps-run --resume runs/wide                # go on from its newest checkpoint
  ps-run --resume runs/wide --checkpoint before-decay --set optimizer.sgd.learning_rate=0.01
  ps-run configs/mlp_synthetic.yaml --json --quiet > summary.json
  ps-run examples/cluster.yaml --workers 2 -- python3 examples/fashion_mnist.py   # docs/pytorch.md
)";

constexpr size_t kMostSummaryBytes = size_t{1} << 20;

struct Arguments {
  RunChoice run;
  int threads = 0;
  std::string gpu;
  std::string precision = "fp32";
  std::string http;
  int trace = 0;
  std::string tls_dir;
  EtcdArguments etcd;
  std::string bind;
  std::vector<std::string> worker_prefixes;
  bool servers_on_workers = false;
  bool insecure = false;
  std::vector<std::string> command;  // what follows --
  bool json = false;
  bool quiet = false;
};

int DefaultThreads(const Config& config) {
  return std::max(1, static_cast<int>(UsableCores().busy) / config.cluster().workers());
}

void PrintResult(const Arguments& arguments, const std::string& run_dir, const StartedAs& started) {
  const RunDir dir(run_dir);
  const auto summary = ReadSummary(dir.SummaryFile());
  if (summary.ok() && SaysDiverged(summary->note))
    std::cerr << "ps-run: note: " << summary->note << "\n";
  if (arguments.json) {
    const auto text = ReadSmallFile(dir.SummaryFile(), kMostSummaryBytes);
    if (text.ok()) std::cout << *text << std::flush;
    return;
  }
  if (!summary.ok()) return;
  // There is nothing to show except the error.
  if (summary->steps == 0 && summary->status != Summary::Status::kFinished) return;
  std::cout << "\n"
            << SummaryText(*summary, run_dir) << "\n"
            << NextCommands(*summary, run_dir, started) << std::flush;
}

// A list of GPUs for each worker. If a worker's GPUs share its batches (node.reduce), there is one
// worker by default, and workers get equal parts of the GPUs. Otherwise each GPU has its own
// worker.
absl::StatusOr<std::vector<std::string>> GpusOfWorkers(Arguments* arguments) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<GpuDevice> devices, ChooseGpus(arguments->gpu));
  PSGD_ASSIGN_OR_RETURN(const Config config, ReadRunConfig(arguments->run));
  const bool shared = config.node().reduce() != NodeConfig::NONE;
  RunChoice& run = arguments->run;
  if (run.workers == 0 && run.resume.empty()) {
    run.workers = shared ? 1 : static_cast<int>(devices.size());
  }
  const size_t workers = run.workers > 0 ? run.workers : config.cluster().workers();
  if (shared && devices.size() % workers != 0) {
    return InvalidArgumentError("--gpu ", arguments->gpu, ": ", devices.size(),
                                " GPUs do not divide among ", workers,
                                " workers; choose --workers, or node.reduce: none");
  }
  std::vector<std::string> lists(shared ? workers : devices.size());
  for (size_t i = 0; i < devices.size(); ++i) {
    std::string& list = lists[i * lists.size() / devices.size()];
    absl::StrAppend(&list, list.empty() ? "" : ",", devices[i].index);
  }
  return lists;
}

// The lists of GPUs for workers that run a command: each worker sees one GPU.
absl::StatusOr<std::vector<std::string>> GpusOfCommands(Arguments* arguments) {
  if (!arguments->worker_prefixes.empty()) {
    return absl::InvalidArgumentError(
        "--gpu and --worker-prefix: the prefix also says which GPUs a command sees, as 'env "
        "CUDA_VISIBLE_DEVICES=0' or 'srun --gpus=1'; leave --gpu out");
  }
  PSGD_ASSIGN_OR_RETURN(const std::vector<std::string> names, GpusForCommands(arguments->gpu));
  RunChoice& run = arguments->run;
  if (run.workers == 0 && run.resume.empty()) run.workers = static_cast<int>(names.size());
  if (run.workers > 0 && static_cast<size_t>(run.workers) < names.size()) {
    return InvalidArgumentError("--gpu ", arguments->gpu, " names ", names.size(), " GPUs for ",
                                run.workers, run.workers == 1 ? " worker" : " workers",
                                ", but each worker of a command sees one GPU; name as many GPUs "
                                "as workers, or set CUDA_VISIBLE_DEVICES and leave --gpu out");
  }
  return names;
}

void PrintNotes(const Arguments& arguments, const std::vector<std::string>& notes) {
  if (arguments.quiet) return;
  for (const std::string& note : notes) std::cerr << "ps-run: note: " << note << "\n";
}

// Where data.path leads from the config's folder and not from the current one. Empty: it does not.
std::string WhereDataLie(const Arguments& arguments, const Config& config) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path path = config.data().path();
  const fs::path folder = fs::path(arguments.run.config).parent_path();
  const fs::path beside = folder / path.lexically_relative(fs::current_path(error));
  if (error || path.empty() || folder.empty() || fs::exists(path, error) ||
      !fs::exists(beside, error))
    return "";
  return absl::StrCat("; data.path is relative to the current folder, and the config has ",
                      beside.string(), " beside it: start ps-run in ", folder.string(),
                      ", or say --set ", ShellLine({"data.path=" + beside.string()}));
}

// What the workers run, against the config's model and the checkpoint that the run goes on from.
absl::Status CheckWorkers(const Arguments& arguments, const Config& config) {
  std::optional<CheckpointManifest> checkpoint;
  if (!arguments.run.resume.empty()) {
    checkpoint = ChosenCheckpoint(arguments.run.resume, arguments.run.checkpoint);
    if (checkpoint) PSGD_RETURN_IF_ERROR(CheckGoesOn(*checkpoint, config));
  }
  if (arguments.command.empty() && !arguments.run.resume.empty() && config.model().has_client()) {
    return InvalidArgumentError(
        "a program trains the run in ", arguments.run.resume, ": give its command again, as in  ",
        ShellLine({"ps-run", "--resume", arguments.run.resume}), " -- python3 train.py");
  }
  if (arguments.command.empty()) {
    const auto checked = CheckTrainable(config, /*begins=*/arguments.run.resume.empty(),
                                        checkpoint ? &*checkpoint : nullptr);
    if (!checked.ok()) {
      return absl::Status(checked.status().code(), absl::StrCat(checked.status().message(),
                                                                WhereDataLie(arguments, config)));
    }
    PrintNotes(arguments, checked->notes);
    return absl::OkStatus();
  }
  PSGD_RETURN_IF_ERROR(CheckBringsModel(config));
  if (arguments.precision != "fp32") {
    return absl::InvalidArgumentError(
        "--precision is for ps-worker: a command after -- chooses its precision itself");
  }
  return absl::OkStatus();
}

// A run with an etcd of its own goes on where its journals end, unless the options change it.
absl::Status ChooseWhereToGoOn(const Arguments& arguments, LocalRunOptions* options) {
  const RunChoice& run = arguments.run;
  LaunchOptions& launch = options->launch;
  launch.goes_on = launch.resumes && HasJournal(options->config) && run.checkpoint.empty() &&
                   run.set.empty() && run.shards.empty() && run.workers == 0;
  if (!launch.resumes || launch.goes_on || !HasJournal(options->config) ||
      !HasEtcdData(RunDir(run.resume).ServerDir()))
    return absl::OkStatus();
  const std::string whole = absl::StrCat(ShellLine({"ps-run", "--resume", run.resume}),
                                         " alone goes on where its journals end");
  if (!HasCheckpoint(run.resume)) {
    return InvalidArgumentError("no change is possible, because ", run.resume,
                                " has no checkpoint to go back to; ", whole);
  }
  PrintNotes(arguments,
             {absl::StrCat("goes back to a checkpoint, because of the options; ", whole)});
  return absl::OkStatus();
}

// Servers of one machine know nothing of each other's cores.
absl::Status CheckPin(const LocalRunOptions& options) {
  const ClusterConfig& cluster = options.config.cluster();
  const int here = ServersHere(options.launch, cluster.servers());
  if (!cluster.pin() || here == 1) return absl::OkStatus();
  return InvalidArgumentError("cluster.pin is for a server that is alone on its machine, and ",
                              here,
                              " servers start here, which would all take the same cores; set "
                              "cluster.pin to false, or start fewer servers here");
}

// `command_exit_code`: of the first worker that failed, if workers run a command; 0: none did.
absl::Status Run(Arguments arguments, const StopSignals& stops, int* command_exit_code) {
  PSGD_ASSIGN_OR_RETURN(const Precision precision, PrecisionNamed(arguments.precision));
  // Checked before any process starts, because a worker would report the error late.
  if (arguments.gpu.empty() && arguments.command.empty()) {
    PSGD_RETURN_IF_ERROR(CheckPrecision("onednn", "", precision));
  }
  LocalRunOptions options;
  options.launch.precision = arguments.precision;
  if (!arguments.gpu.empty() && !arguments.command.empty()) {
    PSGD_ASSIGN_OR_RETURN(options.launch.gpus, GpusOfCommands(&arguments));
  } else if (!arguments.gpu.empty() && arguments.worker_prefixes.empty()) {
    PSGD_ASSIGN_OR_RETURN(options.launch.gpus, GpusOfWorkers(&arguments));
  } else if (!arguments.gpu.empty()) {
    options.launch.gpus = {arguments.gpu};  // as each worker sees its GPUs
  }
  std::vector<std::string> notes;
  PSGD_ASSIGN_OR_RETURN(options.config, ReadRunConfig(arguments.run, &notes));
  PrintNotes(arguments, notes);
  if (arguments.servers_on_workers &&
      (options.config.cluster().copies() > 1 || arguments.etcd.given())) {
    return absl::InvalidArgumentError(
        "--servers-on-workers is for one copy of each shard, without etcd: ps-run does not watch "
        "those servers, of which one might have to lead; start ps-server --join on the workers' "
        "machines instead");
  }
  options.launch.workers = options.config.cluster().workers();
  options.launch.worker_prefixes = arguments.worker_prefixes;
  options.launch.servers_on_workers = arguments.servers_on_workers;
  if (arguments.servers_on_workers) {
    const int workers = options.launch.workers;
    const int servers = workers + (WorkerBesideFirst(options.launch) ? 0 : 1);
    arguments.run.set.push_back(absl::StrCat("cluster.servers=", servers));
    auto config = ReadRunConfig(arguments.run);
    PSGD_RETURN_IF_ERROR(
        Annotate(config.status(), absl::StrCat("--servers-on-workers with ", workers,
                                               workers == 1 ? " worker" : " workers")));
    options.config = *std::move(config);
  }
  PSGD_RETURN_IF_ERROR(CheckPin(options));
  if (arguments.gpu.empty() && options.config.node().reduce() == NodeConfig::NCCL) {
    return absl::InvalidArgumentError(
        "node.reduce: nccl is for GPUs, and without --gpu workers train on the processor; say "
        "--gpu 0-7, or set node.reduce to none");
  }
  if (!arguments.run.resume.empty() && arguments.run.checkpoint.empty()) {
    PSGD_RETURN_IF_ERROR(CheckUnfinished(arguments.run.resume, options.config));
  }
  PSGD_RETURN_IF_ERROR(CheckWorkers(arguments, options.config));
  options.launch.command = arguments.command;
  options.resume = arguments.run.resume;
  options.launch.seed = options.config.seed();
  options.launch.run = ArgumentsOfServer(arguments.run);
  options.launch.resumes = !options.resume.empty();
  options.launch.run_dir = options.launch.resumes ? options.resume : arguments.run.run_dir;
  if (!arguments.http.empty()) options.launch.pages.push_back("--http=" + arguments.http);
  if (arguments.trace > 0)
    options.launch.pages.push_back(absl::StrCat("--trace=", arguments.trace));
  if (!arguments.bind.empty()) options.launch.listen.push_back("--bind=" + arguments.bind);
  if (arguments.insecure) options.launch.listen.push_back("--insecure");
  options.launch.insecure = arguments.insecure;
  options.launch.tls_dir = arguments.tls_dir;
  PSGD_ASSIGN_OR_RETURN(options.credentials, LoadTls({arguments.tls_dir, {}, {}, {}}, "admin"));
  options.launch.run_name = options.config.name();
  options.launch.own_etcd = options.config.cluster().copies() > 1 && !arguments.etcd.given();
  if (options.launch.own_etcd) PSGD_RETURN_IF_ERROR(ChooseWhereToGoOn(arguments, &options));
  if (arguments.etcd.given()) {
    PSGD_RETURN_IF_ERROR(CheckSettles(options.config));
    arguments.etcd.run = options.config.name();
    // Only checks that etcd can be opened; the servers use it.
    PSGD_RETURN_IF_ERROR(OpenEtcd(arguments.etcd, options.credentials).status());
    options.launch.etcd = arguments.etcd.members;
  }
  options.launch.threads =
      arguments.threads > 0 ? arguments.threads : DefaultThreads(options.config);
  options.launch.ready_deadline = Milliseconds(options.config.cluster().deadline());
  options.launch.stops = &stops.count();
  options.stops = &stops.count();
  options.progress.fd = STDERR_FILENO;
  options.progress.terminal = DescribeTerminal(STDERR_FILENO);
  options.progress.quiet = arguments.quiet;

  LocalRun run(std::move(options));
  const absl::Status status = run.Run();
  *command_exit_code = run.command_exit_code();
  if (!run.run_dir().empty() && (status.ok() || !run.is_as_before()))
    PrintResult(arguments, run.run_dir(), run.started_as());
  if (status.ok() && !std::cout) {
    return DataLossError("the result could not be written to standard output; it is in ",
                         run.run_dir());
  }
  return status;
}

}  // namespace
}  // namespace psgd

int ps_run_main(int argc, char** argv) {
  using namespace psgd;
  Arguments arguments;
  CLI::App app(
      std::string(kExamples) +
          "\nRuns a training job on this machine: starts a ps-server and its workers, shows "
          "progress, ends with a summary. Ctrl-C once stops with a checkpoint, twice at once.",
      "ps-run");
  app.add_option("config", arguments.run.config, "YAML file that describes the run")
      ->type_name("CONFIG");
  auto* resume = app.add_option("--resume", arguments.run.resume, "Run directory to go on from")
                     ->type_name("RUN_DIR");
  app.add_option("--checkpoint", arguments.run.checkpoint,
                 "Of the run to go on with; default: the newest that is sound")
      ->type_name("ID|NAME")
      ->needs(resume);
  app.add_option("--set", arguments.run.set, "Change one key: --set train.epochs=2 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--shards", arguments.run.shards,
                 "Threads that hold the weights, or auto: as many as the cores serve "
                 "(cluster.shards)")
      ->type_name("N");
  app.add_option("--workers", arguments.run.workers, "Processes that train (cluster.workers)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--threads", arguments.threads, "Of each worker; default: cores / workers")
      ->check(CLI::Range(1, 1024));
  app.add_option("--gpu", arguments.gpu,
                 "Train on these GPUs, as 0-7 or 0,2: a worker on each, or --workers in turn; a "
                 "command after -- sees its GPU alone (CUDA_VISIBLE_DEVICES)")
      ->type_name("LIST");
  app.add_option(
         "--precision", arguments.precision,
         "What to compute in: fp32, bf16 or, on a GPU, tf32 or fp16; weights and updates stay fp32")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}));
  app.add_option("--run-dir", arguments.run.run_dir,
                 "Where the run leaves its files; default: runs/NAME-TIME")
      ->type_name("DIR")
      ->check(NotEmpty)
      ->excludes(resume);
  app.add_option("--http", arguments.http,
                 "Port, or HOST:PORT, of the dashboard and /metrics; 0: any free one");
  app.add_option("--trace", arguments.trace,
                 "Leave trace.json, for Perfetto: what workers and shards do in so many steps")
      ->type_name("STEPS")
      ->check(CLI::Range(1, 100000));
  app.add_option("--tls-dir", arguments.tls_dir,
                 "Folder with the certificates of a server, workers and an admin, as "
                 "scripts/make-certs.sh makes it: all talk securely")
      ->type_name("DIR");
  AddEtcdOption(app, arguments.etcd,
                "Members of etcd, where the run's servers settle who leads and say where that is");
  app.add_option("--bind", arguments.bind,
                 "Address that the server listens on, for workers elsewhere; default: loopback")
      ->type_name("ADDRESS");
  app.add_flag("--insecure", arguments.insecure, "Listen on a public --bind without certificates");
  app.add_option(
         "--worker-prefix", arguments.worker_prefixes,
         "Words before a worker's command, as 'ip netns exec host-2' or 'srun --het-group=1' "
         "(repeatable: for the workers in turn; '' for one on this machine)")
      ->type_name("WORDS")
      ->allow_extra_args(false);
  app.add_flag(
      "--servers-on-workers", arguments.servers_on_workers,
      "Beside each worker, or each command after --, runs a ps-server, so that the traffic of the "
      "weights is shared by all machines; the first server is beside a worker without "
      "--worker-prefix, or beside none, and then there is one server more than workers");
  app.add_flag("--json", arguments.json, "Print summary.json instead of the table");
  app.add_flag("--quiet", arguments.quiet, "No progress, only what went wrong");
  // The command has options of its own.
  const auto dashes =
      std::find_if(argv, argv + argc, [](absl::string_view word) { return word == "--"; });
  if (dashes != argv + argc) arguments.command.assign(dashes + 1, argv + argc);
  argc = static_cast<int>(dashes - argv);
  const auto hint = [&](const std::string& option, const std::string& value) -> std::string {
    const bool may_be_command = !absl::StartsWith(option, "-") && !absl::EndsWith(option, ".yaml");
    if (may_be_command) {
      return absl::StrCat("; if that is the workers' command, put -- before it: -- ", value);
    }
    return HintForOption(option, value,
                         OptimizerOf(ReadRunConfig(arguments.run).value_or(Config())));
  };
  if (const auto code = ParseCommandLine(app, argc, argv, hint)) return *code;
  if (arguments.run.config.empty() && arguments.run.resume.empty()) {
    return Fail("ps-run", absl::InvalidArgumentError(
                              "no run given; say ps-run CONFIG.yaml, or ps-run --resume RUN_DIR"));
  }
  if (!arguments.run.config.empty() && !arguments.run.resume.empty()) {
    return Fail("ps-run",
                InvalidArgumentError("leave out ", arguments.run.config, ": ", arguments.run.resume,
                                     " has the config of its run, which --set KEY=VALUE changes"));
  }
  const StopSignals stops;
  int command_exit_code = 0;
  const absl::Status status = Run(arguments, stops, &command_exit_code);
  if (status.ok()) return kExitOk;
  const int code = Fail("ps-run", status);
  // After a stop on request the exit code tells of the stop, and not of a worker's command.
  return command_exit_code == 0 || absl::IsCancelled(status) ? code : command_exit_code;
}
