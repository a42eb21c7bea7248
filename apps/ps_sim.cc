// ps-sim: predicts a run on machines that are not here.
#include <CLI/CLI.hpp>
#include <iostream>

#include "apps/command_line.h"
#include "apps/exit_code.h"
#include "apps/program_mains.h"
#include "common/cores.h"
#include "common/files.h"
#include "common/units.h"
#include "compression/policy.h"
#include "experiment/record/readable.h"
#include "experiment/record/run_config.h"
#include "simulate/calibrate.h"
#include "simulate/model_yaml.h"
#include "simulate/scaling.h"

namespace psgd {
namespace {

constexpr char kExamples[] = R"(Examples:
  ps-run configs/mlp_synthetic.yaml --workers 1 --threads 1 --run-dir runs/small
  ps-sim configs/mlp_synthetic.yaml --calibrate runs/small --workers 1,2,4   # as on this machine
  ps-sim configs/mlp_synthetic.yaml --calibrate runs/small --save small.yaml # keeps the model
  ps-sim configs/mlp_synthetic.yaml --model small.yaml --workers 1-8 --json
  ps-sim configs/sim/alexnet.yaml --model configs/sim/titan_x.yaml --workers 4096 --shards 256
  ps-sim configs/sim/alexnet.yaml --model configs/sim/titan_x.yaml --workers 1,16,256 --global-batch 1024
  ps-sim configs/sim/alexnet.yaml --model configs/sim/titan_x.yaml --also compression.push=topk --svg scaling.svg
  ps-sim configs/sim/alexnet.yaml --model configs/sim/titan_x.yaml --link 1gbit --csv > slow.csv
  ps-sim configs/sim/alexnet.yaml --model configs/sim/titan_x.yaml --link 10gbit --workers 32,64 --servers-on-workers
)";

struct Arguments {
  RunChoice run;
  std::string model, calibrate, save, workers, link, svg;
  double cores = 0;
  std::vector<std::string> also;
  int global_batch = 0;
  uint64_t samples = 0;
  uint64_t clocks = 0, seed = 1;
  int most_flows = 4096;
  bool servers_on_workers = false, json = false, csv = false, quiet = false;
};

void AddOptions(CLI::App& app, Arguments* given) {
  app.add_option("config", given->run.config, "YAML file of the run")
      ->type_name("CONFIG")
      ->required();
  auto* model =
      app.add_option("--model", given->model, "YAML file that says how fast machines and links are")
          ->type_name("FILE");
  app.add_option("--calibrate", given->calibrate,
                 "Measure that in a run of this machine, best of 1 worker with 1 thread")
      ->type_name("RUN_DIR")
      ->excludes(model);
  app.add_option("--cores", given->cores,
                 "Cores that the calibrating run had; default: those that ps-sim has")
      ->check(CLI::Range(0.1, 4096.0));
  app.add_option("--save", given->save,
                 "Write the model there, and simulate nothing; - is standard output")
      ->type_name("FILE");
  app.add_option("--workers", given->workers,
                 "How many, as 1,2,4 or 1-8; default: as the config says")
      ->type_name("LIST");
  app.add_option("--shards", given->run.shards, "Instead of the config's cluster.shards")
      ->type_name("N");
  app.add_flag(
      "--servers-on-workers", given->servers_on_workers,
      "A server beside each worker, as ps-run's; the model's server.hosts (default 0) more "
      "have hosts of their own");
  app.add_option("--global-batch", given->global_batch,
                 "Samples of all workers together (strong scaling); default: each has data.batch")
      ->check(CLI::Range(1, 1 << 26));
  app.add_option("--samples", given->samples,
                 "Of an epoch, for data that are not here; default: those of the config's data")
      ->type_name("N");
  app.add_option("--link", given->link,
                 "Speed of every host's link, each way, as 1gbit; default: as the model says")
      ->type_name("RATE");
  app.add_option("--set", given->run.set,
                 "Change one key of the config: --set compression.push=none (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--also", given->also,
                 "A further curve, with that changed (repeatable); 'NAME: a=1; b=2' changes both")
      ->type_name("[NAME:]KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--clocks", given->clocks,
                 "Clocks to simulate; default: 30 to 400, the fewer the more workers")
      ->check(CLI::Range(10, 1000000));
  app.add_option(
         "--flows", given->most_flows,
         "Pairs of a worker and a shard that are simulated one by one; of more, shards of the same "
         "traffic are simulated as one")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--seed", given->seed, "The same seed gives the same answer")
      ->capture_default_str();
  app.add_option("--svg", given->svg, "Draw samples/s over workers")->type_name("FILE");
  app.add_flag("--json", given->json, "Print a JSON object a line");
  app.add_flag("--csv", given->csv, "Print comma-separated values");
  app.add_flag("--quiet", given->quiet, "No progress, only what went wrong");
}

absl::StatusOr<SimModel> ModelFor(const Arguments& given) {
  if (!given.model.empty()) return sim::LoadModel(given.model);
  if (given.calibrate.empty()) {
    return absl::InvalidArgumentError(
        "nothing says how fast the machines are; say --calibrate RUN_DIR, a run of ps-run, or "
        "--model FILE");
  }
  PSGD_ASSIGN_OR_RETURN(const sim::MeasuredRun run, sim::ReadMeasuredRun(given.calibrate));
  const auto here = static_cast<double>(UsableCores().busy);
  PSGD_ASSIGN_OR_RETURN(const sim::Calibration calibration,
                        sim::Calibrate(run, given.cores > 0 ? given.cores : here));
  if (!given.quiet) {
    std::cerr << "ps-sim: calibrated from " << given.calibrate << ": it had "
              << ReadableCount(run.samples_per_second) << " samples/s, the model gives "
              << ReadableCount(calibration.again) << "\n";
    if (run.workers * run.threads > here) {
      std::cerr << "ps-sim: its workers had more threads than there are cores, which hides what "
                   "they take; calibrate from fewer\n";
    }
  }
  return calibration.model;
}

void WarnOfOther(const SimModel& model, const Config& config) {
  if (!model.has_measured() || model.measured().codec().empty()) return;
  const std::string codec = PushCodecName(config.compression());
  if (codec == model.measured().codec()) return;
  std::cerr << "ps-sim: the model was measured with " << model.measured().codec()
            << ", and this is " << codec << ": what encoding takes is not known of it\n";
}

absl::Status Run(const Arguments& given) {
  PSGD_ASSIGN_OR_RETURN(SimModel model, ModelFor(given));
  if (!given.link.empty()) {
    const auto rate = ParseRate(given.link);
    if (!rate.ok()) return Annotate(rate.status(), "--link");
    model.mutable_network()->set_worker_link(*rate);
    model.mutable_network()->set_server_link(*rate);
  }
  if (given.save == "-") {
    std::cout << sim::FormatModel(model) << std::flush;
    return absl::OkStatus();
  }
  if (!given.save.empty()) return WriteFileAtomically(given.save, sim::FormatModel(model));

  sim::ScalingRequest request;
  RunChoice run = given.run;
  run.simulated = true;
  PSGD_ASSIGN_OR_RETURN(request.config, ReadRunConfig(run));
  if (!model.server().has_hosts()) {
    model.mutable_server()->set_hosts(
        given.servers_on_workers ? 0 : request.config.cluster().servers());
  }
  if (!given.workers.empty()) {
    PSGD_ASSIGN_OR_RETURN(request.workers, sim::ParseWorkers(given.workers));
  }
  request.also = given.also;
  request.name = PushCodecName(request.config.compression());
  request.global_batch = given.global_batch;
  request.samples = given.samples;
  request.options.model = model;
  request.options.servers_on_workers = given.servers_on_workers;
  request.options.seed = given.seed;
  request.options.clocks = given.clocks;
  request.options.most_flows = given.most_flows;
  request.on_note = [](const std::string& note) { std::cerr << "ps-sim: " << note << "\n"; };
  if (!given.quiet) {
    WarnOfOther(model, request.config);
    request.on_prediction = [](const sim::Prediction& p) {
      std::cerr << "ps-sim: " << p.name << ", " << p.workers
                << (p.workers == 1 ? " worker: " : " workers: ")
                << ReadableCount(p.samples_per_second) << " samples/s; " << p.clocks
                << " clocks took " << ReadableTime(p.took) << "\n";
    };
  }
  PSGD_ASSIGN_OR_RETURN(const auto predictions, sim::SimulateScaling(request));
  if (!given.svg.empty()) {
    PSGD_RETURN_IF_ERROR(WriteFileAtomically(
        given.svg, sim::ScalingPlot(request.config.name() + ", predicted", predictions)));
  }
  std::cout << (given.json  ? sim::PredictionJson(predictions)
                : given.csv ? sim::PredictionCsv(predictions)
                            : sim::PredictionTable(predictions))
            << std::flush;
  return std::cout ? absl::OkStatus() : absl::DataLossError("standard output could not be written");
}

}  // namespace
}  // namespace psgd

int ps_sim_main(int argc, char** argv) {
  using namespace psgd;
  Arguments given;
  CLI::App app(std::string(kExamples) +
                   "\nRuns the production protocol with modelled machines and links, up to 4,096 "
                   "workers and 1,024 shards, and predicts samples/s, staleness and bytes.",
               "ps-sim");
  AddOptions(app, &given);
  if (const auto code = ParseCommandLine(app, argc, argv)) return *code;
  const absl::Status status = Run(given);
  return status.ok() ? kExitOk : Fail("ps-sim", status);
}
