#include "bench/step_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/philox.h"
#include "engine/memory_report.h"
#include "engine/network.h"
#include "proto/initialize.h"

namespace psgd {
namespace {

constexpr uint64_t kSeed = 1;
constexpr double kTolerance = 1e-3;  // of the reference's largest gradient of each parameter
constexpr double kCoarseTolerance = 0.1;  // where products are rounded to tf32, bf16 or fp16

struct Replica {
  std::unique_ptr<Network> network;
  std::vector<float> images;
  std::vector<int32_t> tokens;  // of sequences, then without images
  std::vector<int32_t> labels;
};

NetworkOptions OptionsOf(const StepBenchOptions& options, const std::string& backend) {
  return {.backend = backend,
          .precision = backend == "reference" ? Precision::kFp32 : options.precision,
          .threads = options.threads,
          .seed = kSeed,
          .plugin_dir = options.plugin_dir};
}

absl::StatusOr<Replica> MakeReplica(const StepBenchOptions& options, const std::string& backend,
                                    int batch) {
  Replica replica;
  PSGD_ASSIGN_OR_RETURN(replica.network, Network::Create(options.model, options.shape, batch,
                                                         OptionsOf(options, backend)));
  const ModelSpec& spec = replica.network->spec();
  for (int i = 0; i < spec.parameters_size(); ++i) {
    FillInitial(spec.parameters(i), kSeed, i, 0, replica.network->parameter(i));
  }
  replica.network->InvalidateParameters();
  const InputShape& shape = options.shape;
  RandomStream random(MakeKey(kSeed, RandomPurpose::kSynthetic), 0);
  replica.images.resize(size_t{1} * batch * shape.channels * shape.height * shape.width);
  for (float& pixel : replica.images) pixel = random.NextUnit();
  replica.tokens.resize(size_t{1} * batch * shape.length);
  for (int32_t& token : replica.tokens) token = random.NextBelow(shape.vocabulary);
  replica.labels.resize(shape.IsSequence() ? replica.tokens.size() : batch);
  for (int32_t& label : replica.labels) label = random.NextBelow(shape.classes);
  return replica;
}

absl::StatusOr<Network::Result> RunStep(Replica* replica, uint64_t step) {
  replica->network->InvalidateParameters();  // as after every pull
  return replica->network->TrainStep({replica->images, replica->tokens}, replica->labels, step,
                                     nullptr);
}

absl::StatusOr<bool> Verify(const StepBenchOptions& options) {
  constexpr int kBatch = 2;
  PSGD_ASSIGN_OR_RETURN(Replica tested, MakeReplica(options, options.backend, kBatch));
  PSGD_ASSIGN_OR_RETURN(Replica reference, MakeReplica(options, "reference", kBatch));
  PSGD_ASSIGN_OR_RETURN(const Network::Result result, RunStep(&tested, 0));
  PSGD_ASSIGN_OR_RETURN(const Network::Result expected, RunStep(&reference, 0));
  const double tolerance = options.precision == Precision::kFp32 ? kTolerance : kCoarseTolerance;
  bool close = std::abs(result.loss_sum - expected.loss_sum) <= tolerance * expected.loss_sum;
  for (int i = 0; i < tested.network->spec().parameters_size(); ++i) {
    const std::span<const float> gradient = tested.network->gradient(i);
    const std::span<const float> truth = reference.network->gradient(i);
    float largest = 1e-3f;
    for (float value : truth) largest = std::max(largest, std::abs(value));
    for (size_t k = 0; k < truth.size(); ++k) {
      close = close && std::abs(gradient[k] - truth[k]) <= tolerance * largest;
    }
  }
  return close;
}

// Runs steps for so long, at least three; returns the milliseconds of each.
absl::StatusOr<std::vector<double>> TimeSteps(Replica* replica, double seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::vector<double> times;
  for (Clock::time_point before = start;
       times.size() < 3 || before - start < std::chrono::duration<double>(seconds);) {
    PSGD_RETURN_IF_ERROR(RunStep(replica, times.size()).status());
    const Clock::time_point after = Clock::now();
    times.push_back(std::chrono::duration<double, std::milli>(after - before).count());
    before = after;
  }
  return times;
}

}  // namespace

absl::StatusOr<BenchRow> RunStepBench(const StepBenchOptions& options) {
  BenchRow row;
  row.bench = "step";
  row.name = absl::StrCat(options.model.zoo(), "/batch ", options.batch, "/", options.backend, "/",
                          options.threads, " threads");
  PSGD_ASSIGN_OR_RETURN(row.verified, Verify(options));
  PSGD_ASSIGN_OR_RETURN(Replica replica, MakeReplica(options, options.backend, options.batch));
  PSGD_ASSIGN_OR_RETURN(const MemoryReport memory,
                        PlanMemory(options.model, options.shape, options.batch,
                                   OptionsOf(options, options.backend)));
  PSGD_RETURN_IF_ERROR(TimeSteps(&replica, std::min(0.5, options.seconds)).status());
  PSGD_ASSIGN_OR_RETURN(std::vector<double> times, TimeSteps(&replica, options.seconds));
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  size_t parameters = 0;
  for (int i = 0; i < replica.network->spec().parameters_size(); ++i) {
    parameters += replica.network->parameter(i).size();
  }
  row.extra["samples_per_second"] = options.batch / (median / 1000);
  row.extra["ms_per_step_median"] = median;
  row.extra["ms_per_step_min"] = times.front();
  row.extra["ms_per_step_max"] = times.back();
  row.extra["batch"] = options.batch;
  row.extra["threads"] = options.threads;
  row.extra["mib"] = static_cast<double>(memory.total()) / (1 << 20);
  row.extra["parameters"] = static_cast<double>(parameters);
  return row;
}

}  // namespace psgd
