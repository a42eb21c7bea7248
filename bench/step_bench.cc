#include "bench/step_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/roofline.h"
#include "common/clock.h"
#include "common/philox.h"
#include "engine/graph/model_spec.h"
#include "engine/runtime/memory_report.h"
#include "engine/runtime/network.h"
#include "engine/zoo/zoo.h"
#include "proto/initialize.h"

namespace psgd {
namespace {

constexpr uint64_t kSeed = 1;
// Bounds of the error of the loss, and of all gradients as one vector. In fp32 the second bound is
// on the distance from the reference's vector; a wrong term in one layer makes about 1. In tf32,
// bf16 or fp16 it is on the length only: rounding flips signs in deep networks far from a minimum.
constexpr double kLossBound = 1e-3, kGradientBound = 0.1;
constexpr double kCoarseLossBound = 0.05, kLengthBound = 0.5;

struct Replica {
  std::unique_ptr<Network> network;
  std::vector<float> images;
  std::vector<int32_t> tokens;  // of sequences, or indices of sparse vectors; else empty
  std::vector<float> values;    // of sparse vectors
  std::vector<int32_t> labels;
  bool staged = false;  // the next step's batch is on its way
};

NetworkOptions OptionsOf(const StepBenchOptions& options, const std::string& backend) {
  return {.backend = backend,
          .precision = backend == "reference" ? Precision::kFp32 : options.precision,
          .threads = options.threads,
          .seed = kSeed,
          .choices = options.choices,
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
  const SampleShape& shape = options.shape;
  RandomStream random(MakeKey(kSeed, RandomPurpose::kSynthetic), 0);
  replica.images.resize(size_t{1} * batch * shape.channels * shape.height * shape.width);
  for (float& pixel : replica.images) pixel = random.NextUnit();
  replica.tokens.resize(size_t{1} * batch * (shape.length + shape.entries));
  // 0 pads the source of a pair, but here no source is padded.
  const int first = shape.source > 0 ? 1 : 0;
  for (int32_t& token : replica.tokens) token = first + random.NextBelow(shape.vocabulary - first);
  replica.values.resize(size_t{1} * batch * shape.entries);
  for (float& value : replica.values) value = random.NextUnit();
  PSGD_ASSIGN_OR_RETURN(const ModelGraph model,
                        BuildModel(options.model, shape, batch, Mode::kEvaluate));
  replica.labels.resize(static_cast<size_t>(ElementCount(model.graph.shape(model.labels))));
  for (int32_t& label : replica.labels) label = random.NextBelow(shape.classes);
  return replica;
}

// Where a step's batch comes from.
enum class Batches {
  kResident,  // a device keeps the batch, as PyTorch's in bench/vs_torch.py
  kFed,       // each step brings the next batch to the device, as training does
};

absl::StatusOr<Network::Result> RunStep(Replica* replica, uint64_t step, Batches batches) {
  Network& network = *replica->network;
  // As after every pull. On a device that is a copy, which a step need not wait for (pull_ahead).
  if (!network.on_device()) network.InvalidateParameters();
  StepBatch batch = {{replica->images, replica->tokens, replica->values}, replica->labels};
  const StepBatch next = batch;
  batch.staged = replica->staged;
  replica->staged = network.stages();
  return network.TrainStep(batch, step, nullptr,
                           {.next = batches == Batches::kFed ? &next : nullptr});
}

double Square(double x) { return x * x; }

constexpr int kSide = 80;  // of images that every network takes

void LimitSide(int side, SampleShape* shape) {
  shape->height = std::min(shape->height, side);
  shape->width = std::min(shape->width, side);
}

bool Normalizes(const ModelSpec& spec) {
  return std::any_of(spec.parameters().begin(), spec.parameters().end(), [](const auto& parameter) {
    return parameter.role() == ParameterSpec::STATISTIC;
  });
}

// Makes samples and batch small: in the reference's plain loops others take minutes, in which a
// borrowed GPU waits. An error if the network does not fit the samples.
absl::Status MakeSmall(StepBenchOptions* options) {
  constexpr int kTokens = 16, kSmallSide = 32;
  SampleShape& shape = options->shape;
  options->batch = 4;
  if (shape.IsSequence()) {
    const int target = std::min(shape.length - shape.source, kTokens);
    shape.source = std::min(shape.source, kTokens);
    shape.length = shape.source + target;
    return absl::OkStatus();
  }
  LimitSide(kSide, &shape);
  PSGD_ASSIGN_OR_RETURN(const ModelGraph model,
                        BuildModel(options->model, shape, options->batch, Mode::kTrain));
  if (Normalizes(MakeModelSpec(options->model.zoo(), model.graph))) {
    // Deep in a network an image may have one pixel, and a batch normalization of few values
    // amplifies the last bit.
    if (shape.height <= kSmallSide) options->batch = 8;
    return absl::OkStatus();
  }
  options->batch = 2;
  SampleShape smaller = shape;
  LimitSide(kSmallSide, &smaller);
  if (BuildModel(options->model, smaller, options->batch, Mode::kTrain).ok()) shape = smaller;
  return absl::OkStatus();
}

// Runs a step on a small batch of small samples.
absl::StatusOr<bool> Verify(const StepBenchOptions& options) {
  StepBenchOptions small = options;
  PSGD_RETURN_IF_ERROR(MakeSmall(&small));
  PSGD_ASSIGN_OR_RETURN(Replica tested, MakeReplica(small, options.backend, small.batch));
  PSGD_ASSIGN_OR_RETURN(Replica reference, MakeReplica(small, "reference", small.batch));
  PSGD_ASSIGN_OR_RETURN(const Network::Result result, RunStep(&tested, 0, Batches::kResident));
  PSGD_ASSIGN_OR_RETURN(const Network::Result expected, RunStep(&reference, 0, Batches::kResident));
  const bool fine = options.precision == Precision::kFp32;
  const double loss_apart = std::abs(result.loss_sum - expected.loss_sum) / expected.loss_sum;
  double apart = 0, length = 0, true_length = 0;
  for (int i = 0; i < tested.network->spec().parameters_size(); ++i) {
    const std::span<const float> gradient = tested.network->gradient(i);
    const std::span<const float> truth = reference.network->gradient(i);
    for (size_t k = 0; k < truth.size(); ++k) {
      apart += Square(gradient[k] - truth[k]);
      length += Square(gradient[k]);
      true_length += Square(truth[k]);
    }
  }
  if (fine) return loss_apart <= kLossBound && apart <= Square(kGradientBound) * true_length;
  return loss_apart <= kCoarseLossBound &&
         std::abs(std::sqrt(length / true_length) - 1) <= kLengthBound;
}

// Runs steps for that many seconds, at least three. Returns the milliseconds of each, sorted.
absl::StatusOr<std::vector<double>> TimeSteps(Replica* replica, double seconds, Batches batches) {
  const Time start = SteadyNow();
  std::vector<double> times;
  for (Time before = start; times.size() < 3 || Seconds(before - start) < seconds;) {
    PSGD_RETURN_IF_ERROR(RunStep(replica, times.size(), batches).status());
    const Time after = SteadyNow();
    times.push_back(1e3 * Seconds(after - before));
    before = after;
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

absl::StatusOr<std::vector<BenchRow>> RunStepBench(const StepBenchOptions& options) {
  BenchRow row;
  row.bench = "step";
  row.name = absl::StrCat(options.model.zoo(), "/batch ", options.batch, "/", options.backend, "/",
                          options.threads, " threads");
  const absl::StatusOr<bool> verified = Verify(options);
  if (!verified.ok()) {
    return Annotate(verified.status(),
                    "in the check against the reference, before anything is timed");
  }
  row.verified = *verified;
  PSGD_ASSIGN_OR_RETURN(Replica replica, MakeReplica(options, options.backend, options.batch));
  PSGD_ASSIGN_OR_RETURN(
      const MemoryReport memory,
      PlanMemory(options.model, options.shape, options.batch, OptionsOf(options, options.backend)));
  const auto time = [&](double seconds, Batches batches) {
    return TimeSteps(&replica, seconds, batches);
  };
  PSGD_RETURN_IF_ERROR(time(std::min(0.5, options.seconds), Batches::kResident).status());
  PSGD_ASSIGN_OR_RETURN(const std::vector<double> times, time(options.seconds, Batches::kResident));
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
  if (replica.network->on_device()) {
    row.extra["recorded"] = replica.network->recorded().ok();
    PSGD_ASSIGN_OR_RETURN(const std::vector<double> fed, time(options.seconds, Batches::kFed));
    row.extra["ms_per_step_fed_median"] = fed[fed.size() / 2];
  }
  std::vector<BenchRow> rows = {row};
  if (!options.roofline) return rows;
  PSGD_ASSIGN_OR_RETURN(
      const std::vector<BenchRow> ops,
      MeasureRoofline(replica.network.get(), OptionsOf(options, options.backend)));
  for (const BenchRow& op : ops) {
    rows.push_back(op);
    rows.back().verified = row.verified;
  }
  return rows;
}

}  // namespace psgd
