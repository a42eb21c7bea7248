#include "simulate/calibrate.h"

#include <algorithm>

#include "experiment/config/config_yaml.h"
#include "simulate/modelled_cluster.h"

namespace psgd::sim {
namespace {

constexpr double kLoopback = 20e-6;  // one way, on one host
constexpr double kMessage = 10e-6;   // of a processor, as ps-bench push-pull shows for the smallest
constexpr int kFitRounds = 6;
constexpr double kMostBeside = 0.95;

// What can be read off the run.
SimModel ReadOff(const MeasuredRun& run, double cores) {
  SimModel model;
  SimWorker* worker = model.mutable_worker();
  // Where workers had fewer cores than they would use, their seconds are longer than the
  // processors'.
  const double working = run.compute * run.threads + run.encode;
  const double alone = std::min(1.0, run.cpu_workers / working);
  const double cpu_compute = run.threads > 1
                                 ? std::max(run.cpu_workers - run.encode, 0.1 * run.compute)
                                 : run.compute * alone;
  const double compute = run.threads > 1 ? run.compute : cpu_compute;
  worker->set_threads(std::clamp(cpu_compute / compute, 0.1, run.threads));
  worker->set_sample(compute / run.steps / run.batch);
  worker->set_step(run.data / run.steps);
  if (run.spread > 0) worker->set_spread(std::min(run.spread, 1.0));
  const double encode = run.encode * alone;
  if (run.weights > 0) worker->set_weight(encode / run.steps / run.weights);
  // What other threads of the workers used.
  const double beside = run.threads > 1 ? 0 : run.cpu_workers - compute - encode;
  worker->set_beside(beside > 1e-6 * run.steps ? beside / run.steps : 0);
  const double phases =
      (run.data + run.compute + run.encode + run.wait + run.evaluating) / run.workers;
  worker->set_start(std::max(0.0, run.train_seconds - phases));
  if (run.evaluations > 0) worker->set_evaluation(run.evaluating / run.evaluations);

  SimServer* server = model.mutable_server();
  server->set_cores(cores);
  server->set_message(std::min(kMessage, run.cpu_server / run.messages / 2));
  server->set_byte((run.cpu_server - server->message() * run.messages) / std::max(1.0, run.bytes));
  server->set_beside(0);
  model.mutable_network()->set_together(true);
  model.mutable_network()->set_latency(kLoopback);

  SimMeasured* measured = model.mutable_measured();
  measured->set_run(run.dir);
  measured->set_workers(run.workers);
  measured->set_batch(static_cast<int>(run.batch + 0.5));
  measured->set_codec(run.codec);
  measured->set_samples_per_second(run.samples_per_second);
  model.mutable_failures();
  return model;
}

}  // namespace

absl::StatusOr<Calibration> Calibrate(const MeasuredRun& run, double cores) {
  PSGD_ASSIGN_OR_RETURN(const Workload workload, OpenWorkload(ResolveDefaults(run.config)));
  PSGD_ASSIGN_OR_RETURN(const Traffic traffic, MeasureTraffic(workload));
  SimulationOptions options;
  options.model = ReadOff(run, cores);
  const auto wait = [&]() -> absl::StatusOr<double> {
    PSGD_ASSIGN_OR_RETURN(const Prediction prediction,
                          ModelledCluster(workload, traffic, options).Run());
    return prediction.wait;
  };
  const double measured = run.wait / run.steps;
  PSGD_ASSIGN_OR_RETURN(double simulated, wait());
  if (simulated > measured) {
    // Part of what the server does is not on the way: its threads for input and output work
    // meanwhile.
    double low = 0, high = kMostBeside;
    for (int round = 0; round < kFitRounds; ++round) {
      options.model.mutable_server()->set_beside((low + high) / 2);
      PSGD_ASSIGN_OR_RETURN(simulated, wait());
      (simulated > measured ? low : high) = options.model.server().beside();
    }
  } else {
    for (int round = 0; round < kFitRounds; ++round) {
      const double latency = options.model.network().latency() + (measured - simulated) / 2;
      options.model.mutable_network()->set_latency(std::max(latency, 1e-6));
      PSGD_ASSIGN_OR_RETURN(simulated, wait());
    }
  }
  PSGD_ASSIGN_OR_RETURN(const Prediction again, ModelledCluster(workload, traffic, options).Run());
  return Calibration{options.model, again.run_samples_per_second};
}

}  // namespace psgd::sim
