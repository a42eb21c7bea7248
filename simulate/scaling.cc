#include "simulate/scaling.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/readable.h"
#include "experiment/report/plots.h"

namespace psgd::sim {
namespace {

constexpr int kMostWorkers = 4096;

struct Curve {
  std::string name;
  std::string assignments;
};

// "fp16: compression.push=fp16": a name may come before what it is for.
Curve ParseCurve(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon > text.find('=')) return {text, text};
  return {std::string(absl::StripAsciiWhitespace(text.substr(0, colon))), text.substr(colon + 1)};
}

absl::StatusOr<Config> Changed(const Config& config, const std::string& assignments) {
  Config changed = config;
  for (const absl::string_view one : absl::StrSplit(assignments, ';', absl::SkipWhitespace())) {
    if (!absl::StrContains(one, '=')) {
      return InvalidArgumentError("--also ", assignments,
                                  ": expected KEY=VALUE, as compression.push=topk");
    }
    PSGD_RETURN_IF_ERROR(ApplySet(std::string(absl::StripAsciiWhitespace(one)), &changed));
  }
  changed = ResolveDefaults(std::move(changed));
  PSGD_RETURN_IF_ERROR(ValidateConfig(changed));
  if (changed.cluster().shards() == 0) {
    return absl::InvalidArgumentError(
        "cluster.shards is auto, which depends on the servers' cores: say how many");
  }
  if (changed.local().least() > 0) {
    return absl::InvalidArgumentError(
        "ps-sim simulates clocks of equally many steps, and local.least lets them grow: predict "
        "both ends, with --set local.least=0 --set local.steps=N");
  }
  return changed;
}

absl::Status CheckWorker(const SimWorker& worker) {
  if (worker.sample() > 0 || worker.step() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the model does not say how long computing takes: worker.sample and worker.step are 0; write "
      "worker: {sample: 1ms}, or let ps-sim measure it with --calibrate RUN_DIR");
}

absl::Status CheckServers(const SimulationOptions& options, Config config, int workers) {
  const int own = options.model.server().hosts();
  if (!options.servers_on_workers) {
    if (own > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "the model's server.hosts is 0, which needs servers beside the workers: say "
        "--servers-on-workers, or 1 host or more");
  }
  if (config.cluster().copies() > 1) {
    return absl::InvalidArgumentError(
        "--servers-on-workers is for one copy of each shard: set cluster.copies to 1");
  }
  if (options.model.failures().every() > 0) {
    return absl::UnimplementedError(
        "ps-sim does not know where shards move when the worker beside their server dies: set the "
        "model's failures.every to 0, or leave --servers-on-workers out");
  }
  config.mutable_cluster()->set_workers(workers);
  config.mutable_cluster()->set_servers(own + workers);
  return Annotate(ValidateConfig(config), absl::StrCat("--servers-on-workers with ", workers,
                                                       workers == 1 ? " worker" : " workers"));
}

absl::StatusOr<int> ShareOf(const ScalingRequest& request, int workers) {
  const int share = request.global_batch / workers;
  if (share == 0) {
    return InvalidArgumentError("--global-batch ", request.global_batch,
                                " is less than a sample for each of ", workers,
                                " workers; give at least ", workers, ", or fewer workers");
  }
  if (share * workers != request.global_batch && request.on_note) {
    request.on_note(absl::StrCat("--global-batch ", request.global_batch, " does not divide by ",
                                 workers, " workers: each has ", share,
                                 share == 1 ? " sample, " : " samples, ", share * workers,
                                 " together"));
  }
  return share;
}

std::string WholeNumber(double value) { return absl::StrFormat("%.4g", value); }

}  // namespace

absl::StatusOr<std::vector<int>> ParseWorkers(const std::string& text) {
  std::vector<int> workers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<std::string> ends = absl::StrSplit(part, '-');
    int first = 0, last = 0;
    const bool numbers = ends.size() <= 2 && absl::SimpleAtoi(ends.front(), &first) &&
                         absl::SimpleAtoi(ends.back(), &last);
    if (!numbers || first < 1 || last < first || last > kMostWorkers) {
      return InvalidArgumentError("--workers: \"", std::string(part),
                                  "\" is no number of workers from 1 to ", kMostWorkers,
                                  ", as in 1,2,4 or 1-4");
    }
    for (int n = first; n <= last; ++n) workers.push_back(n);
  }
  std::ranges::sort(workers);
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  return workers;
}

absl::StatusOr<std::vector<Prediction>> SimulateScaling(const ScalingRequest& request) {
  PSGD_RETURN_IF_ERROR(CheckWorker(request.options.model.worker()));
  std::vector<Curve> curves = {{request.name, ""}};
  for (const std::string& also : request.also) curves.push_back(ParseCurve(also));
  std::vector<Prediction> predictions;
  for (const Curve& curve : curves) {
    PSGD_ASSIGN_OR_RETURN(const Config config, Changed(request.config, curve.assignments));
    PSGD_ASSIGN_OR_RETURN(Workload workload, OpenWorkload(config));
    if (request.samples > 0) workload.samples = request.samples;
    PSGD_ASSIGN_OR_RETURN(const Traffic traffic, MeasureTraffic(workload));
    std::vector<int> counts = request.workers;
    if (counts.empty()) counts = {config.cluster().workers()};
    for (const int workers : counts)
      PSGD_RETURN_IF_ERROR(CheckServers(request.options, config, workers));
    for (const int workers : counts) {
      workload.config.mutable_cluster()->set_workers(workers);
      if (request.global_batch > 0) {
        PSGD_ASSIGN_OR_RETURN(const int share, ShareOf(request, workers));
        workload.config.mutable_data()->set_batch(share);
      }
      PSGD_ASSIGN_OR_RETURN(Prediction prediction,
                            ModelledCluster(workload, traffic, request.options).Run());
      prediction.name = curve.name;
      if (request.on_prediction) request.on_prediction(prediction);
      predictions.push_back(std::move(prediction));
    }
  }
  return predictions;
}

std::string ScalingPlot(const std::string& title, const std::vector<Prediction>& predictions) {
  XyPlot plot{"scaling",
              title,
              "",
              {"workers", true, false, WholeNumber, {}},
              {"samples/s", true, false, ReadableCount, {}},
              {},
              {}};
  std::vector<double> counts;
  double best_of_one = 0;
  for (const Prediction& p : predictions) {
    if (plot.series.empty() || plot.series.back().name != p.name) {
      const size_t number = plot.series.size();
      plot.series.push_back({.name = p.name,
                             .css_class = absl::StrCat("c", number % kSeriesColors),
                             .shape = static_cast<int>(number) % Svg::kShapes,
                             .line = true});
    }
    plot.series.back().points.push_back(
        {static_cast<double>(p.workers), p.samples_per_second, 0,
         absl::StrCat(p.workers, " workers: ", ReadableCount(p.samples_per_second), " samples/s, ",
                      BoundBy(p))});
    counts.push_back(p.workers);
    best_of_one = std::max(best_of_one, p.samples_per_second / p.workers);
  }
  std::ranges::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  plot.x.ticks = counts;
  PlotSeries ideal = {.name = "ideal", .css_class = "ideal", .shape = -1, .line = true};
  for (const double count : counts) ideal.points.push_back({count, best_of_one * count});
  plot.below.push_back(std::move(ideal));
  plot.description =
      absl::StrCat(plot.series.size(), " curves over ", counts.size(), " numbers of workers.");
  return Draw(plot).Document();
}

}  // namespace psgd::sim
