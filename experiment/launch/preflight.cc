#include "experiment/launch/preflight.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/available_memory.h"
#include "common/units.h"
#include "compression/policy.h"
#include "engine/graph/model_spec.h"
#include "engine/onnx/check.h"
#include "engine/onnx/import.h"
#include "engine/runtime/factors.h"
#include "engine/runtime/planned_network.h"
#include "engine/zoo/zoo.h"
#include "experiment/launch/onnx_report.h"
#include "experiment/record/run_config.h"
#include "proto/local_steps.h"
#include "proto/micro_batch.h"
#include "proto/parameter_groups.h"
#include "proto/short_clocks.h"
#include "server/coordinator/agreed_model.h"
#include "server/shard/check_fragments.h"
#include "server/shard/placement.h"
#include "train/factor_layers.h"
#include "train/network_data.h"

namespace psgd {
namespace {

// Where the largest token of arrays stands, which may be a mistake in the data.
std::string LargestTokenText(const Config& config, const DataSets& data) {
  const SampleShape& shape = data.shape;
  const std::string& test = config.data().table().test();
  if (config.data().format() != DataConfig::ARRAYS || !shape.IsSequence()) return "";
  std::vector<int32_t> tokens(shape.elements()), labels(shape.labels());
  std::vector<float> targets(static_cast<size_t>(shape.targets));
  for (const SampleSource* samples : {data.train.get(), data.test.get()}) {
    const bool of_test = samples == data.test.get();
    for (size_t i = 0; i < samples->size(); ++i) {
      const auto read =
          samples->Read({.index = i}, {.tokens = tokens, .labels = labels, .targets = targets});
      if (!read.ok() || std::ranges::count(tokens, shape.vocabulary - 1) == 0) continue;
      // Without a file of its own, the test follows the training samples.
      const size_t row = of_test && test.empty() ? data.train->size() + i : i;
      return absl::StrCat("\nor correct the data: in ",
                          of_test && !test.empty() ? test : config.data().path(), " x[", row,
                          "] has the token ", shape.vocabulary - 1);
    }
  }
  return "";
}

// An error names data.input if the config sets it, because it may be what does not fit the network.
absl::StatusOr<ModelGraph> BuildGraph(const Config& config, const DataSets& data) {
  absl::StatusOr<ModelGraph> model =
      BuildTrainingGraph(config.model(), data.shape, MicroBatchOf(config.data()));
  if (!model.ok() && absl::StrContains(model.status().message(), kTokensBeyondTable)) {
    return absl::Status(model.status().code(),
                        absl::StrCat(model.status().message(), LargestTokenText(config, data)));
  }
  if (model.ok() || config.data().input() == ArrayInput::AUTO) return model;
  return absl::Status(
      model.status().code(),
      absl::StrCat(model.status().message(), "; data.input is ",
                   absl::AsciiStrToLower(ArrayInput::Kind_Name(config.data().input())),
                   ": leave it out if the network should choose"));
}

absl::Status CheckLabels(const DataConfig& config, const SampleShape& shape,
                         const ModelGraph& model) {
  const auto taken = static_cast<size_t>(ElementCount(model.graph.shape(model.labels)));
  const size_t given = shape.labels() * static_cast<size_t>(MicroBatchOf(config));
  if (taken == given) return absl::OkStatus();
  return InvalidArgumentError(
      "the model takes ", taken, " labels a batch, and data.format gives ", given,
      taken > given ? ": a model of pixels, as unet, needs data.format: segmentation, "
                      "or arrays whose y is samples x height x width"
                    : ": labels of pixels need a model of pixels, as unet");
}

// A run goes on with the network and the data of its checkpoint. `model` has the preparation of the
// data.
absl::Status CheckKept(const CheckpointManifest& checkpoint, const Config& config,
                       const ModelSpec& model, uint64_t samples) {
  const bool from_file = config.model().has_onnx();
  std::string changes = ChangedKeys(checkpoint.config(), config, "model");
  if (changes.empty()) changes = ChangedKeys(checkpoint.config(), config, "data");
  if (!changes.empty()) changes = "; " + changes;
  const bool same_network = IsSameNetwork(model, checkpoint.model());
  ModelSpec now = model, before = checkpoint.model();
  // The checkpoint of an earlier version has none.
  if (!same_network || !before.has_preparation()) {
    now.clear_preparation();
    before.clear_preparation();
  }
  if (!same_network) {
    return InvalidArgumentError(
        from_file ? config.model().onnx() : "the config",
        " makes another model now than that of checkpoint ", checkpoint.id(), ": ",
        FirstDifference(now, before), changes,
        from_file ? AdviceToKeepModel(now, before, from_file)
                  : "; keep the model and data it was taken with, or begin a new run");
  }
  constexpr char kKeep[] = "; keep the data it was taken with, or begin a new run";
  if (checkpoint.train_samples() > 0 && checkpoint.train_samples() != samples) {
    return InvalidArgumentError(
        "checkpoint ", checkpoint.id(), " was taken with ", checkpoint.train_samples(),
        " samples to train on, and the data have ", samples, " now", changes, kKeep);
  }
  if (now.SerializeAsString() == before.SerializeAsString()) return absl::OkStatus();
  return InvalidArgumentError("checkpoint ", checkpoint.id(),
                              " was taken with other data: ", FirstDifference(now, before), changes,
                              kKeep);
}

// The run needs at least the weights on the server, and weights and gradients in each worker. A
// check in each worker would pass while the other workers have not allocated theirs.
absl::Status CheckWeightsFit(const Config& config, const std::string& model, double weights) {
  const double once = weights * sizeof(float);
  const int workers = config.cluster().workers();
  const double available = static_cast<double>(AvailableMemory());
  if (available == 0 || once * (1 + 2 * workers) <= available) return absl::OkStatus();
  return ResourceExhaustedError(
      "the model ", model, " has ", absl::StrFormat("%.0f", weights),
      " weights: ", HumanBytes(once), " on the server and ", HumanBytes(2 * once), " in each of ",
      workers, workers == 1 ? " worker" : " workers", " are more than the ", HumanBytes(available),
      " that this machine has free; use a smaller model, fewer workers",
      config.data().table().features() > 0 ? ", or fewer data.table.features" : "");
}

// A network of an ONNX file may have been trained on numbers as they are.
std::string StandardizedNote(const Config& config, const DataSets& data) {
  const Preparation& preparation = data.preparation;
  const bool numbers = preparation.planes_size() > 0 ||
                       std::ranges::any_of(preparation.columns(), [](const auto& column) {
                         return column.values().empty();
                       });
  const bool row_format =
      config.data().format() == DataConfig::TABLE || config.data().format() == DataConfig::ARRAYS;
  if (!config.model().has_onnx() || !config.data().standardize() || !row_format || !numbers) {
    return "";
  }
  return absl::StrCat("the network reads each number as (x - mean) / deviation",
                      data.targets.kind == Targets::Kind::kNumber
                          ? ", and its output is to be the same of the target"
                          : "",
                      "; if ", config.model().onnx(),
                      " was trained on numbers as they are, set data.standardize: false");
}

// Empty if the run is longer than its warm-up.
std::string WarmupNote(const Config& config, double samples) {
  if (config.train().max_steps() > 0) return "";  // the config's check knows the end
  const int workers = std::max(1, config.cluster().workers());
  const double batches = std::floor(samples / config.data().batch());
  const auto note = [&](absl::string_view key, const ScheduleConfig& schedule, double each) {
    const double steps = config.train().epochs() * batches / workers / each;
    if (static_cast<double>(schedule.warmup().steps()) <= steps) return std::string();
    return absl::StrCat(key, ".warmup is ", schedule.warmup().steps(),
                        " steps, and the run has about ", std::ceil(steps), " with ", workers,
                        workers == 1 ? " worker" : " workers",
                        ": it never reaches its learning rate; shorten the warm-up, or train "
                        "longer");
  };
  // The shards' schedule counts clocks, the local one local steps.
  const std::string shards =
      note("schedule", config.schedule(), FewestStepsOfClock(config.local()));
  return shards.empty() ? note("local.schedule", config.local().schedule(), 1) : shards;
}

std::string QuorumNote(const Config& config) {
  const int quorum = config.consistency().quorum();
  if (quorum == 0 || quorum < config.cluster().workers()) return "";
  return absl::StrCat("consistency.quorum is all ", quorum,
                      " workers, so each clock waits for all of them, and the quorum does nothing: "
                      "lower it, or leave it out");
}

// Empty if a layer pushes factors, or the config names none.
std::string FactorsNote(const Config& config, Graph graph) {
  Config fewest = config;  // auto makes one shard at least
  fewest.mutable_cluster()->set_shards(std::max(1, config.cluster().shards()));
  const ChooseFactors choose =
      FactorLayers(fewest, static_cast<size_t>(PartsOfBatch(config.data())));
  if (!choose) return "";
  bool any = false;
  const auto ask = [&](const std::string& name, const Shape& weights, int64_t rows) {
    any |= choose(name, weights, rows);
    return false;
  };
  HandOutFactors(ask, &graph);
  if (any) return "";
  return "codec factors carries nothing: no dense layer has fewer bytes as factors, so all tensors "
         "travel whole; lower data.batch or cluster.shards, or choose another codec, as powersgd";
}

std::string LostStepsNote(const LocalConfig& local) {
  if (local.delay() == 0 || local.mix() < 1) return "";
  return absl::StrCat("the ", local.delay(), local.delay() == 1 ? " step" : " steps",
                      " of local.delay are lost with local.mix 1, which takes the shards' weights "
                      "as they are: set local.mix, as 0.5");
}

std::string RenewalsNote(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer();
  const int workers = config.cluster().workers();
  if (!optimizer.has_delayed_nesterov() || optimizer.delayed_nesterov().every() > 0 ||
      config.consistency().staleness() != 0 || workers == 1) {
    return "";
  }
  return absl::StrCat("delayed_nesterov renews its momentum once in ", workers,
                      " updates, and at staleness 0 each update has the pushes of all workers: set "
                      "optimizer.delayed_nesterov.every to 1");
}

}  // namespace

absl::Status CheckBringsModel(const Config& config) {
  if (config.model().has_client()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a command for the workers brings its model, and this config names one: say model: client in "
      "the config, or leave out the command");
}

absl::StatusOr<TrainingSize> CheckTrainable(const Config& config, bool begins,
                                            const CheckpointManifest* checkpoint) {
  if (config.model().has_client()) {
    return absl::InvalidArgumentError(
        "model: client is for programs that bring their model and data, and ps-worker has neither; "
        "say ps-run CONFIG.yaml -- COMMAND, as -- python3 train.py, or in a sweep launch: "
        "{command: [python3, train.py]}");
  }
  PSGD_ASSIGN_OR_RETURN(const DataSets data, OpenDataOf(config));
  PSGD_ASSIGN_OR_RETURN(const PaddingNote padding, CheckPadding(config, data));
  if (begins && padding.of_many) return absl::InvalidArgumentError(padding.text);
  constexpr size_t kMostWeights = 4;  // in a note
  PSGD_ASSIGN_OR_RETURN(const OnnxFacts facts, FactsOfOnnx(config.model(), kMostWeights));
  if (begins) PSGD_RETURN_IF_ERROR(facts.lost);
  PSGD_ASSIGN_OR_RETURN(const ModelGraph model, BuildGraph(config, data));
  PSGD_RETURN_IF_ERROR(CheckLabels(config.data(), data.shape, model));
  const ModelSpec spec = MakeModelSpec(ModelName(config.model()), model.graph);
  if (checkpoint != nullptr) {
    ModelSpec prepared = spec;
    *prepared.mutable_preparation() = data.preparation;
    PSGD_RETURN_IF_ERROR(CheckKept(*checkpoint, config, prepared, data.train->size()));
  }
  TrainingSize size{.samples = static_cast<double>(data.train->size()),
                    .model = std::make_shared<const ModelSpec>(spec)};
  for (const ParameterSpec& parameter : spec.parameters()) {
    size.weights +=
        static_cast<double>(ElementCount({parameter.shape().begin(), parameter.shape().end()}));
  }
  PSGD_RETURN_IF_ERROR(CheckWeightsFit(config, spec.name(), size.weights));
  PSGD_RETURN_IF_ERROR(CheckRules(config.compression(), spec));
  PSGD_RETURN_IF_ERROR(CheckGroups("optimizer.groups", config.optimizer(), spec));
  PSGD_RETURN_IF_ERROR(CheckGroups("local.optimizer.groups", config.local().optimizer(), spec));
  const ClusterConfig& cluster = config.cluster();
  // How many shards `auto` makes, the server knows.
  if (config.local().fragments() > 1 && cluster.shards() > 0) {
    PSGD_RETURN_IF_ERROR(CheckFragments(config.local(), PlaceSlices(spec, config)));
  }
  const uint64_t batches = data.train->size() / static_cast<uint64_t>(config.data().batch());
  const auto workers = static_cast<uint64_t>(cluster.workers());
  for (absl::string_view line : absl::StrSplit(data.note, '\n', absl::SkipEmpty())) {
    size.notes.emplace_back(line);
  }
  for (std::string note :
       {padding.text, begins ? StandardizedNote(config, data) : "",
        LeftOutText(config.compression(), spec), FullDensityText(config.compression()),
        FactorsNote(config, model.graph), WarmupNote(config, size.samples),
        ShortClocksText(config.local(), batches, workers), QuorumNote(config),
        LostStepsNote(config.local()), RenewalsNote(config)}) {
    if (!note.empty()) size.notes.push_back(std::move(note));
  }
  size.notes.insert(size.notes.end(), facts.check.notes.begin(), facts.check.notes.end());
  std::string note = EvaluationNote(facts.check);
  if (!note.empty()) size.notes.push_back(std::move(note));
  return size;
}

}  // namespace psgd
