// ps-ctl: shows and controls a run.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/command_line.h"
#include "apps/ctl_examples.h"
#include "apps/ctl_server.h"
#include "apps/ctl_ui.h"
#include "apps/etcd_arguments.h"
#include "apps/exit_code.h"
#include "apps/program_mains.h"
#include "apps/tls_arguments.h"
#include "apps/wait_note.h"
#include "common/atomic_file.h"
#include "common/cores.h"
#include "common/suggest.h"
#include "experiment/launch/checkpoint_report.h"
#include "experiment/launch/data_record.h"
#include "experiment/launch/onnx_report.h"
#include "experiment/launch/predictions.h"
#include "experiment/launch/run_dir_status.h"
#include "experiment/launch/status_text.h"
#include "experiment/launch/trained_weights.h"
#include "experiment/launch/verify_report.h"
#include "experiment/record/evaluation_record.h"
#include "experiment/record/readable.h"
#include "experiment/record/run_dir.h"
#include "net/address.h"
#include "proto/measure_of.h"
#include "server/durability/best_checkpoint.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/server_record.h"

namespace psgd {
namespace {

struct Arguments {
  RunServers servers;
  EtcdArguments etcd;
  TlsArguments tls;
  std::string run_dir;
  bool json = false;
  std::string checkpoint;
  bool average = false;
  std::string name;
  int keep = 0;
  std::string data;
  std::string out;
  std::string onnx;
  std::string action;
  std::string shape;
  std::string engine = "onednn";
  int threads = 0;
  std::string reason = "ps-ctl drain";
  std::optional<uint32_t> worker;
  CtlUiOptions ui;
  std::vector<std::string> assignments;
};

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::cerr << "ps-ctl: " << note << "\n";
}

// `run_dir` is the syntax for a run directory in this command.
absl::Status NeedsTarget(const Arguments& arguments, absl::string_view run_dir) {
  if (!arguments.servers.addresses.empty() || !arguments.run_dir.empty()) return absl::OkStatus();
  return InvalidArgumentError("which run? say --server HOST:PORT for a running one, or ", run_dir);
}

// For commands that ask a running server.
absl::StatusOr<std::unique_ptr<ControlClient>> Connect(const Arguments& arguments) {
  if (!arguments.servers.addresses.empty()) return ConnectServer(arguments.servers, arguments.tls);
  return absl::InvalidArgumentError(
      "which run? say --server HOST:PORT, or --etcd HOST:PORT --run NAME");
}

absl::StatusOr<WeightsCollector> Weights(const Arguments& arguments) {
  PSGD_RETURN_IF_ERROR(NeedsTarget(arguments, "--run-dir RUN_DIR"));
  if (!arguments.servers.addresses.empty()) {
    PSGD_ASSIGN_OR_RETURN(const auto client, ConnectServer(arguments.servers, arguments.tls));
    return WeightsOfServer(*client);
  }
  std::vector<std::string> notes;
  PSGD_ASSIGN_OR_RETURN(const CheckpointStore store, CheckpointsOf(arguments.run_dir));
  std::optional<uint64_t> checkpoint;
  if (!arguments.checkpoint.empty()) {
    PSGD_ASSIGN_OR_RETURN(checkpoint, store.Find(arguments.checkpoint));
  }
  const auto which = arguments.average ? WhichWeights::kAverage : WhichWeights::kPresent;
  auto weights = WeightsOfRun(arguments.run_dir, checkpoint, which, &notes);
  if (weights.ok() && arguments.checkpoint == kBest &&
      !weights->config().durability().keep_best()) {
    notes.push_back(absl::StrCat("best is checkpoint ", *checkpoint,
                                 ", the best of those that are left: the run did not keep its best "
                                 "one (durability.keep_best)"));
  }
  PrintNotes(notes);
  return weights;
}

// Where the servers answer that ps-run began and whose run goes on; empty: it does not, or they do
// not say. The first server comes last: it may be dead, and another run may have its port by now.
std::vector<std::string> ServersOfLiveRun(const std::string& run_dir) {
  if (!FileExists(RunDir(run_dir).ConfigFile()) || RunDir::Take(run_dir).ok()) return {};
  std::vector<std::string> places;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir, ignored)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "server-")) places.push_back(entry.path().string());
    if (absl::StartsWith(name, "worker-")) places.push_back((entry.path() / "server").string());
  }
  std::ranges::sort(places);
  places.push_back(run_dir);
  std::vector<std::string> addresses;
  for (const std::string& place : places) {
    const auto record = LoadServerRecord(RunDir(place).ServerDir());
    if (!record.ok()) continue;
    addresses.push_back(HostPort(ReachedAs(*record), static_cast<int>(record->control_port())));
  }
  return addresses;
}

// Whether the directory that a server names is this one. It may name it from another folder, or on
// another machine.
bool IsSameDir(const std::string& named, const std::string& run_dir) {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::canonical(run_dir, error);
  const std::filesystem::path there = named;
  if (there.is_absolute() && std::filesystem::exists(there, error))
    return std::filesystem::equivalent(there, here, error);
  return there.filename() == here.filename();
}

// Asks all at once: the dead among them cost no time. Each alone only if another run's answers.
absl::StatusOr<StatusReply> AskLiveRun(const std::vector<std::string>& servers,
                                       const Arguments& arguments) {
  std::vector<std::string> asked = {absl::StrJoin(servers, ",")};
  if (servers.size() > 1) asked.insert(asked.end(), servers.begin(), servers.end());
  absl::Status why;
  for (const std::string& addresses : asked) {
    auto live = ReachServer({.addresses = addresses, .find = {}}, arguments.tls);
    if (live.ok() && IsSameDir(live->run_dir(), arguments.run_dir)) return live;
    why.Update(live.ok() ? FailedPreconditionError("the server that answers is of the run in ",
                                                   live->run_dir())
                         : live.status());
    if (absl::IsUnavailable(live.status()) && addresses == asked.front()) break;
  }
  return why;
}

absl::Status Status(const Arguments& arguments) {
  PSGD_RETURN_IF_ERROR(NeedsTarget(arguments, "the run directory itself: ps-ctl status RUN_DIR"));
  if (!arguments.servers.addresses.empty()) {
    PSGD_ASSIGN_OR_RETURN(const StatusReply status, ReachServer(arguments.servers, arguments.tls));
    std::cout << (arguments.json ? StatusJson(status) : StatusText(status));
    return absl::OkStatus();
  }
  PSGD_ASSIGN_OR_RETURN(RunDirStatus status, ReadRunDirStatus(arguments.run_dir));
  const std::vector<std::string> servers = ServersOfLiveRun(arguments.run_dir);
  if (!servers.empty()) {
    const auto live = AskLiveRun(servers, arguments);
    if (live.ok()) {
      status.live = *live;
    } else {
      status.notes.push_back(absl::StrCat(
          "the run's server at ", absl::StrJoin(servers, ","),
          " does not tell about its servers, shards and workers: ", live.status().message()));
    }
  }
  PrintNotes(status.notes);
  std::cout << (arguments.json ? RunDirStatusJson(status).dump(2) + "\n"
                               : RunDirStatusText(status));
  return absl::OkStatus();
}

absl::Status Checkpoint(const Arguments& arguments) {
  if (!arguments.name.empty()) PSGD_RETURN_IF_ERROR(CheckName(arguments.name));
  PSGD_ASSIGN_OR_RETURN(const auto client, Connect(arguments));
  CheckpointRequest request;
  request.set_name(arguments.name);
  PSGD_ASSIGN_OR_RETURN(const CheckpointReply reply, [&] {
    const WaitNote note(
        "ps-ctl",
        "waiting until the workers have finished their segment (cluster.segment) and the "
        "checkpoint is written; Ctrl-C ends the waiting, not the checkpoint");
    return client->Checkpoint(request);
  }());
  std::cout << (arguments.json
                    ? MessageJson(reply)
                    : absl::StrFormat("checkpoint %d%s at epoch %.2f, clock %d\n", reply.id(),
                                      reply.name().empty() ? "" : " (" + reply.name() + ")",
                                      reply.epoch(), reply.clock()));
  return absl::OkStatus();
}

absl::Status Checkpoints(const Arguments& arguments) {
  PSGD_RETURN_IF_ERROR(
      NeedsTarget(arguments, "the run directory itself: ps-ctl checkpoints RUN_DIR"));
  if (!arguments.servers.addresses.empty()) {
    PSGD_ASSIGN_OR_RETURN(const StatusReply status, ReachServer(arguments.servers, arguments.tls));
    std::cout << CheckpointList({status.checkpoints().begin(), status.checkpoints().end()},
                                arguments.json);
    return absl::OkStatus();
  }
  std::vector<std::string> notes;
  PSGD_ASSIGN_OR_RETURN(const auto checkpoints, CheckpointsIn(arguments.run_dir, &notes));
  PrintNotes(notes);
  std::cout << CheckpointList(checkpoints, arguments.json);
  return absl::OkStatus();
}

absl::Status Verify(const Arguments& arguments) {
  PSGD_ASSIGN_OR_RETURN(const VerifiedRun verified, VerifyRun(arguments.run_dir));
  std::cout << VerifiedText(verified, arguments.json);
  return VerifiedStatus(arguments.run_dir, verified);
}

absl::Status Prune(const Arguments& arguments) {
  PSGD_ASSIGN_OR_RETURN(const std::string removed,
                        PruneCheckpoints(arguments.run_dir, arguments.keep, arguments.json));
  std::cout << removed;
  return absl::OkStatus();
}

// Where a command tells what it wrote to `out`: not among the bytes of an --out /dev/stdout.
std::ostream& ToldOf(const std::string& out) {
  return IsStandardOutput(out) ? std::cerr : std::cout;
}

// A file of another kind's name would mislead the program that opens it.
absl::Status CheckWeightsName(absl::string_view path) {
  for (const absl::string_view ending : {".pt", ".pth", ".bin", ".ckpt", ".h5", ".npz", ".onnx"}) {
    if (!absl::EndsWithIgnoreCase(path, ending)) continue;
    return InvalidArgumentError(
        "--out ", path, " is named as ", ending, ", but --out writes .safetensors",
        ending == ".onnx" ? "; say --onnx FILE.onnx for the network"
                          : "; say --out FILE.safetensors, which Python loads with "
                            "safetensors.torch.load_file(FILE)");
  }
  return absl::OkStatus();
}

absl::Status Export(const Arguments& arguments) {
  if (arguments.out.empty() && arguments.onnx.empty()) {
    return absl::InvalidArgumentError(
        "where to? say --out FILE.safetensors, --onnx FILE.onnx, or both");
  }
  PSGD_RETURN_IF_ERROR(CheckWeightsName(arguments.out));
  PSGD_ASSIGN_OR_RETURN(const WeightsCollector weights, Weights(arguments));
  if (const absl::Status finite = weights.CheckFinite(); !finite.ok())
    PrintNotes({std::string(finite.message())});
  if (!arguments.out.empty()) PSGD_RETURN_IF_ERROR(weights.Write(arguments.out));
  if (!arguments.onnx.empty()) PSGD_RETURN_IF_ERROR(WriteOnnx(weights, arguments.onnx));
  const std::string written = arguments.out.empty() ? arguments.onnx : arguments.out;
  PSGD_ASSIGN_OR_RETURN(const DataRecordFile data, WriteDataRecord(weights, written));
  if (!data.note.empty()) PrintNotes({data.note});
  std::ostream& told = ToldOf(written);
  uint64_t elements = 0;
  for (int p = 0; p < weights.model().parameters_size(); ++p) elements += weights.values(p).size();
  if (arguments.json) {
    told << Record{{"out", written},
                   {"data", data.path},
                   {"parameters", weights.model().parameters_size()},
                   {"elements", elements}}
         << "\n";
  } else {
    told << absl::StrFormat("%s: %d parameters, %d weights\n", written,
                            weights.model().parameters_size(), elements);
    if (!data.path.empty()) {
      told << data.path << ": the " << (data.note.empty() ? "scales and " : "")
           << "names of the network's inputs and outputs\n";
    }
  }
  return absl::OkStatus();
}

EvaluateOptions EngineOf(const Arguments& arguments) {
  EvaluateOptions options;
  options.engine = arguments.engine;
  options.threads =
      arguments.threads > 0 ? arguments.threads : static_cast<int>(UsableCores().busy);
  return options;
}

absl::Status Eval(const Arguments& arguments) {
  PSGD_ASSIGN_OR_RETURN(const WeightsCollector weights, Weights(arguments));
  const EvaluateOptions options = EngineOf(arguments);
  PSGD_ASSIGN_OR_RETURN(const EvalResult result, [&] {
    const WaitNote note("ps-ctl",
                        absl::StrCat("going through the test set here, with ", options.threads,
                                     options.threads == 1 ? " thread" : " threads"));
    return EvaluateWeights(weights, options);
  }());
  if (arguments.json) {
    std::cout << Record{{"test_accuracy",
                         result.has_accuracy() ? Record(result.accuracy()) : Record()},
                        {"test_loss", result.loss()},
                        {"test_measures", MeasuresOf(result)},
                        {"samples", result.samples()},
                        {"seconds", result.seconds()}}
              << "\n";
  } else {
    std::cout << absl::StrFormat("test %s (%d samples in %s)\n", ResultText(result),
                                 result.samples(), ReadableTime(result.seconds()));
  }
  return absl::OkStatus();
}

absl::Status PredictData(const Arguments& arguments) {
  if (arguments.json && arguments.out.empty()) {
    return absl::InvalidArgumentError(
        "--json needs --out FILE, because predictions are CSV; add --out, or leave --json out");
  }
  PSGD_ASSIGN_OR_RETURN(const WeightsCollector weights, Weights(arguments));
  std::unique_ptr<AtomicFile> file;
  if (!arguments.out.empty()) {  // before the work, which an error would waste
    PSGD_ASSIGN_OR_RETURN(file, AtomicFile::Create(arguments.out));
  }
  const EvaluateOptions options = EngineOf(arguments);
  PSGD_ASSIGN_OR_RETURN(const Predictions made, [&] {
    const WaitNote note("ps-ctl",
                        absl::StrCat("predicting ", arguments.data, " here, with ", options.threads,
                                     options.threads == 1 ? " thread" : " threads"));
    return PredictNew(weights, arguments.data, options);
  }());
  PrintNotes(made.notes);
  if (file == nullptr) {
    std::cout << made.csv;
    return absl::OkStatus();
  }
  PSGD_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(made.csv))));
  PSGD_RETURN_IF_ERROR(file->Commit());
  if (arguments.json) {
    ToldOf(arguments.out) << Record{{"out", arguments.out}, {"predictions", made.samples}} << "\n";
  } else {
    ToldOf(arguments.out) << absl::StrFormat("%s: %d %s\n", arguments.out, made.samples,
                                             made.samples == 1 ? "prediction" : "predictions");
  }
  return absl::OkStatus();
}

absl::Status Drain(const Arguments& arguments) {
  PSGD_ASSIGN_OR_RETURN(const auto client, Connect(arguments));
  DrainRequest request;
  request.set_reason(arguments.reason);
  if (arguments.worker) request.set_worker(*arguments.worker);
  PSGD_ASSIGN_OR_RETURN(const StatusReply before, client->Status(StatusRequest()));
  PSGD_RETURN_IF_ERROR(client->Drain(request).status());
  if (arguments.json) {
    std::cout << Record{{"draining", true}} << "\n";
  } else {
    std::cout << (arguments.worker ? "the worker pushes what it holds back, and leaves\n"
                  : before.state() == StatusReply::WAITING
                      ? "draining: training has not begun, so the run ends without a checkpoint\n"
                      : "draining: the run ends after this segment and a checkpoint\n");
  }
  return absl::OkStatus();
}

absl::Status CheckOnnxFile(const Arguments& arguments) {
  std::error_code error;
  if (!std::filesystem::exists(arguments.onnx, error)) {
    return NotFoundError(arguments.onnx,
                         ": no such file; check the spelling and the folder it is relative to");
  }
  PSGD_ASSIGN_OR_RETURN(const SampleShape shape, ParseSampleShape(arguments.shape));
  PSGD_ASSIGN_OR_RETURN(const OnnxCheck check, CheckOnnx(arguments.onnx, shape));
  std::cout << OnnxCheckText(arguments.onnx, check, arguments.json);
  return OnnxCheckStatus(arguments.onnx, check);
}

absl::Status Ui(const Arguments& arguments) {
  return ServeRuns(arguments.run_dir, arguments.ui, arguments.json);
}

absl::Status Set(const Arguments& arguments) {
  PSGD_ASSIGN_OR_RETURN(const SetHyperRequest request, ParseAssignments(arguments.assignments));
  PSGD_ASSIGN_OR_RETURN(const auto client, Connect(arguments));
  PSGD_ASSIGN_OR_RETURN(const SetHyperReply reply, client->SetHyper(request));
  std::cout << (arguments.json
                    ? MessageJson(reply)
                    : absl::StrFormat("learning rate %g before schedule, weight decay %g "
                                      "(version %d)\n",
                                      reply.hyper().learning_rate(), reply.hyper().weight_decay(),
                                      reply.hyper().version()));
  return absl::OkStatus();
}

absl::Status Rebalance(const Arguments& arguments) {
  PSGD_ASSIGN_OR_RETURN(const RebalanceRequest request, ParseMoves(arguments.assignments));
  PSGD_ASSIGN_OR_RETURN(const auto client, Connect(arguments));
  PSGD_ASSIGN_OR_RETURN(const RebalanceReply reply, client->Rebalance(request));
  std::cout << (arguments.json ? MessageJson(reply) : OwnersText(reply));
  return absl::OkStatus();
}

using Action = absl::Status (*)(const Arguments&);

// Declares the subcommands and their options. Sets *chosen to the given subcommand.
void Describe(CLI::App& app, Arguments& arguments, Action* chosen) {
  const auto add = [&](const char* name, const char* text, const char* examples, Action action) {
    CLI::App* command = app.add_subcommand(name, text);
    command->footer(std::string("Examples:\n") + examples);
    command->callback([chosen, action] { *chosen = action; });
    command->add_flag("--json", arguments.json, "For machines");
    return command;
  };
  const auto server = [&](CLI::App* command) {
    AddTlsOptions(*command, arguments.tls, "admin");
    CLI::Option* const named =
        command->add_option("--server", arguments.servers.addresses, "Of a running ps-server")
            ->type_name("HOST:PORT");
    return std::pair(named, AddEtcdOptions(*command, arguments.etcd, named));
  };
  using Where = std::pair<CLI::Option*, CLI::Option*>;
  const auto only_run_dir = [&](CLI::App* command) {
    return command->add_option("--run-dir,run_dir", arguments.run_dir, "Of a run, over or not")
        ->type_name("RUN_DIR");
  };
  const auto run_dir = [&](CLI::App* command, Where excluded) {
    only_run_dir(command)->excludes(excluded.first)->excludes(excluded.second);
  };
  const auto run_dir_or_checkpoint = [&](CLI::App* command, Where excluded) {
    run_dir(command, excluded);
    command
        ->add_option("--checkpoint", arguments.checkpoint,
                     "This one, as 3, or best; default: the newest sound")
        ->type_name("ID|NAME")
        ->excludes(excluded.first)
        ->excludes(excluded.second);
    command
        ->add_flag("--average", arguments.average,
                   "The moving average of the weights (train.average)")
        ->excludes(excluded.first)
        ->excludes(excluded.second);
  };
  CLI::App* status =
      add("status", "Progress, shards, workers, checkpoints, evaluations", kStatusExamples, Status);
  run_dir(status, server(status));
  CLI::App* checkpoint = add("checkpoint", "Take a checkpoint now and wait until it is written",
                             kCheckpointExamples, Checkpoint);
  server(checkpoint);
  checkpoint->add_option("--name", arguments.name,
                         "What it is called; a named one is never pruned");
  CLI::App* checkpoints =
      add("checkpoints", "Those that there are, newest first", kCheckpointsExamples, Checkpoints);
  run_dir(checkpoints, server(checkpoints));
  only_run_dir(add("verify", "Whether checkpoints and journal are sound; exit code 1 if one is not",
                   kVerifyExamples, Verify))
      ->required();
  CLI::App* prune = add("prune", "Remove older checkpoints of a run that is over; not named ones",
                        kPruneExamples, Prune);
  only_run_dir(prune)->required();
  prune->add_option("--keep", arguments.keep, "So many of the newest stay")
      ->required()
      ->check(CLI::Range(1, 1 << 20));
  CLI::App* save = add(
      "export", "Write the weights as .safetensors, which PyTorch loads, or the network as ONNX",
      kExportExamples, Export);
  run_dir_or_checkpoint(save, server(save));
  save->add_option("--out", arguments.out, ".safetensors to write")->type_name("FILE");
  save->add_option("--onnx", arguments.onnx, "ONNX file to write")->type_name("FILE");
  CLI::App* onnx = add("onnx", "Whether psgd takes an ONNX file; exit code 1 if it does not",
                       kOnnxExamples, CheckOnnxFile);
  onnx->add_option("action", arguments.action, "List what the file needs, and what is refused")
      ->required()
      ->check(CLI::IsMember({"check"}));
  onnx->add_option("file", arguments.onnx, "ONNX file")->type_name("FILE")->required();
  onnx->add_option("--shape", arguments.shape,
                   "Of a sample, if the file leaves it open: 3,224,224 for images, 128 for tokens")
      ->type_name("SIZES");
  const auto engine = [&](CLI::App* command) {
    command->add_option("--engine", arguments.engine, "onednn, or reference (slow, plain loops)")
        ->capture_default_str()
        ->check(CLI::IsMember({"onednn", "reference"}));
    command->add_option("--threads", arguments.threads, "Default: all cores")
        ->check(CLI::Range(1, 1024));
  };
  CLI::App* eval = add("eval", "Test accuracy and loss of the weights", kEvalExamples, Eval);
  run_dir_or_checkpoint(eval, server(eval));
  engine(eval);
  CLI::App* predict = add("predict", "What the network says of new rows, texts or images, as CSV",
                          kPredictExamples, PredictData);
  run_dir_or_checkpoint(predict, server(predict));
  predict
      ->add_option("--data,data", arguments.data,
                   "As the run's data, without the target: a table, arrays, texts or images")
      ->type_name("FILE|FOLDER")
      ->required();
  predict->add_option("--out", arguments.out, "CSV file to write; default: stdout")
      ->type_name("FILE");
  engine(predict);
  CLI::App* drain = add("drain", "End the run in order, with a checkpoint", kDrainExamples, Drain);
  server(drain);
  drain->add_option("--reason", arguments.reason, "For the log")->capture_default_str();
  drain->add_option("--worker", arguments.worker, "This one alone: it leaves, and the run goes on")
      ->type_name("NUMBER");
  CLI::App* rebalance = add("rebalance", "Move shards to other servers while training goes on",
                            kRebalanceExamples, Rebalance);
  server(rebalance);
  rebalance
      ->add_option("--move", arguments.assignments,
                   "These alone; default: as even as can be (repeatable)")
      ->type_name("SHARD=SERVER");
  CLI::App* ui =
      add("ui", "Serve a page with the dashboard of recorded runs, side by side", kUiExamples, Ui);
  ui->add_option("runs", arguments.run_dir, "Folder that the runs lie in, or one run's own")
      ->type_name("RUNS_DIR")
      ->required();
  ui->add_option("--port", arguments.ui.port, "Of the page; 0: any free one")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  ui->add_option("--bind", arguments.ui.bind, "Address that the page is served on")
      ->type_name("ADDRESS")
      ->capture_default_str();
  ui->add_flag("--insecure", arguments.ui.insecure,
               "Allow --bind to a public address; pages only show");
  CLI::App* set = add("set", "Change hyper-parameters while training goes on", kSetExamples, Set);
  server(set);
  set->add_option("assignments", arguments.assignments, "learning_rate=0.01 weight_decay=0.0005")
      ->type_name("KEY=VALUE")
      ->required();
}

// Suggests a command; CLI11 would only say that a subcommand is required.
absl::Status CheckCommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return absl::OkStatus();
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return absl::OkStatus();
  return InvalidArgumentError("no command \"", argv[1], "\"", Suggest(argv[1], names),
                              " (there are: ", absl::StrJoin(names, ", "), ")");
}

}  // namespace
}  // namespace psgd

int ps_ctl_main(int argc, char** argv) {
  using namespace psgd;
  Arguments arguments;
  CLI::App app(
      "Looks at a run and steers it: a running ps-server's, or one that left a run directory.",
      "ps-ctl");
  app.formatter(std::make_shared<ExamplesFirst>());
  app.footer(absl::StrCat("Examples:\n", kStatusExamples, kCheckpointExamples, kCheckpointsExamples,
                          kVerifyExamples, kPruneExamples, kExportExamples, kOnnxExamples,
                          kEvalExamples, kPredictExamples, kSetExamples, kDrainExamples,
                          kRebalanceExamples, kUiExamples));
  app.require_subcommand(1);
  Action chosen = nullptr;
  Describe(app, arguments, &chosen);
  if (const absl::Status known = CheckCommand(app, argc, argv); !known.ok()) {
    return Fail("ps-ctl", known);
  }
  const OptionHint hint = [](const std::string& option, const std::string& value) {
    return option == "--http" ? absl::StrCat("; ps-ctl ui has --port ", value) : std::string();
  };
  if (const auto code = ParseCommandLine(app, argc, argv, hint)) return *code;
  absl::Status status = FindServers(arguments.etcd, arguments.tls, &arguments.servers);
  if (status.ok()) status = chosen(arguments);
  if (status.ok() && !std::cout.flush()) {
    status = absl::DataLossError("the result could not be written to standard output");
  }
  return status.ok() ? kExitOk : Fail("ps-ctl", status);
}
