#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/suggest.h"
#include "compression/policy.h"
#include "engine/zoo/zoo.h"
#include "experiment/config/config_yaml.h"
#include "experiment/config/format_value.h"
#include "experiment/config/parse_value.h"
#include "experiment/config/schema.h"
#include "experiment/config/validate_compression.h"
#include "experiment/config/validate_data.h"
#include "experiment/config/validate_local.h"
#include "experiment/config/validate_train.h"
#include "proto/local_steps.h"

namespace psgd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Problems = std::vector<std::string>;

// Checks one value by writing it as text and parsing that text.
void CheckValue(const Message& message, const FieldDescriptor& field, int index,
                const std::string& path, Problems* problems) {
  const std::unique_ptr<Message> scratch(message.New());
  const absl::Status status =
      ParseValue(field, FormatValue(message, field, index), /*quoted=*/false, scratch.get());
  if (!status.ok()) problems->push_back(absl::StrCat(path, ": ", status.message()));
}

// Checks every set value against the schema again, because a config need not come from a file.
void CheckValues(const Message& message, const std::string& prefix, Problems* problems) {
  const Reflection* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = prefix + field->name();
    const int size = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < size; ++i) {
      const int index = field->is_repeated() ? i : -1;
      const std::string item = field->is_repeated() ? absl::StrCat(path, "[", i, "]") : path;
      if (IsSection(*field)) {
        CheckValues(index < 0 ? reflection->GetMessage(message, field)
                              : reflection->GetRepeatedMessage(message, field, index),
                    item + ".", problems);
      } else {
        CheckValue(message, *field, index, item, problems);
      }
    }
  }
}

bool IsZero(const Progress& length) { return length.epochs() == 0 && length.steps() == 0; }

void CheckModel(const ModelConfig& model, Problems* problems) {
  if (model.loss() != ModelConfig::CROSS_ENTROPY && model.ignored_label() >= 0) {
    problems->emplace_back(
        "model.ignored_label is of cross-entropy alone: leave it out, or model.loss");
  }
  if (model.loss() != ModelConfig::CROSS_ENTROPY && model.label_smoothing() > 0) {
    problems->emplace_back(
        "model.label_smoothing is of cross-entropy alone: set it to 0, or leave model.loss out");
  }
  const std::vector<std::string> names = ZooNames();
  if (model.has_client()) return;
  if (model.has_onnx()) {
    if (model.onnx().empty())
      problems->emplace_back("model.onnx is empty: say which file, as model: {onnx: model.onnx}");
    return;
  }
  if (model.zoo().empty()) {
    problems->emplace_back(
        "model.zoo is missing: say which network to train, as model: {zoo: lenet5} or model: "
        "{onnx: model.onnx}; or model: client, for a program that brings its own");
  } else if (std::find(names.begin(), names.end(), model.zoo()) == names.end()) {
    problems->push_back(absl::StrCat("model.zoo: no network is called \"", model.zoo(), "\"",
                                     Suggest(model.zoo(), names),
                                     " (there are: ", absl::StrJoin(names, ", "), ")"));
  }
}

void CheckData(const DataConfig& data, Problems* problems) {
  if (data.format() == DataConfig::IDX && data.path().empty()) {
    problems->emplace_back(
        "data.path is missing: format idx needs the folder of the idx files; or say "
        "data.format: synthetic, which needs none");
  }
  if (data.format() == DataConfig::SYNTHETIC && !data.path().empty()) {
    problems->emplace_back(
        "data.path is given, but format synthetic reads no files: set data.format to that of the "
        "files, or leave data.path out");
  }
  const bool sparse = data.format() == DataConfig::LIBSVM || data.format() == DataConfig::CRITEO ||
                      data.format() == DataConfig::RATINGS;
  if (sparse && data.path().empty()) {
    problems->emplace_back(
        "data.path is missing: formats libsvm, criteo and ratings need the file of the samples");
  }
  if (data.mean_size() != data.stddev_size()) {
    problems->push_back(absl::StrCat("data.mean has ", data.mean_size(), " and data.stddev ",
                                     data.stddev_size(),
                                     " values: give one of each a channel, or neither"));
  }
  const int dimensions = data.synthetic().shape_size();
  if (dimensions != 0 && dimensions != 3) {
    problems->push_back(absl::StrCat("data.synthetic.shape has ", dimensions,
                                     " numbers: give channels, height and width, as [1, 28, 28]"));
  }
  int64_t samples = data.train_samples();
  std::string key = "data.train_samples";
  if (data.format() == DataConfig::SYNTHETIC &&
      (samples == 0 || data.synthetic().train_samples() < samples)) {
    samples = data.synthetic().train_samples();
    key = "data.synthetic.train_samples";
  }
  if (samples != 0 && samples < data.batch()) {
    problems->push_back(absl::StrCat(key, " is ", samples, ", less than one data.batch of ",
                                     data.batch(), ": take more samples or smaller batches"));
  }
}

void CheckOptimizer(const OptimizerConfig& optimizer, int workers, Problems* problems) {
  if (optimizer.sgd().nesterov() && optimizer.sgd().momentum() == 0) {
    problems->emplace_back(
        "optimizer.sgd.nesterov needs a momentum: set optimizer.sgd.momentum, as 0.9");
  }
  const DelayedNesterovConfig& delayed = optimizer.delayed_nesterov();
  if (delayed.spread() > 0 && delayed.momentum() == 0) {
    problems->emplace_back(
        "optimizer.delayed_nesterov.spread divides the momentum's step: set "
        "optimizer.delayed_nesterov.momentum, as 0.9, or leave spread out");
  }
  if (delayed.spread() > 0 && (delayed.every() > 0 ? delayed.every() : workers) == 1) {
    problems->push_back(absl::StrCat(
        "optimizer.delayed_nesterov.spread divides the momentum's step between the updates of a "
        "round, and a round has one (",
        delayed.every() > 0 ? "optimizer.delayed_nesterov.every" : "cluster.workers",
        " is 1): set optimizer.delayed_nesterov.every to 2 or more, or leave spread out"));
  }
}

// A program that brings its model brings its data, too.
void CheckClient(const Config& config, Problems* problems) {
  const bool client = config.model().has_client();
  if (client && config.node().reduce() != NodeConfig::NONE) {
    problems->emplace_back(
        "node.reduce is for replicas of a ps-worker, and with model: client programs train: leave "
        "node.reduce out");
  }
  if (!config.optimizer().has_worker()) return;
  if (!client && !TakesLocalSteps(config.local())) {
    problems->emplace_back(
        "optimizer: worker is for programs that bring their own (model: client) and for "
        "local.steps, and ps-worker has none without: choose the optimizer of the shards, as "
        "optimizer: {sgd: {learning_rate: 0.05}}");
  }
  const ScheduleConfig& schedule = config.schedule();
  if (!IsZero(schedule.warmup()) || (!schedule.has_constant() && schedule.decay_case() != 0)) {
    problems->emplace_back(
        "schedule is for the optimizer of the shards, and with optimizer: worker the workers have "
        "it: leave schedule out, and set the rate in the program, or local.schedule");
  }
  if (config.consistency().compensation() == ConsistencyConfig::DELAY) {
    problems->emplace_back(
        "consistency.compensation delay corrects gradients, and with optimizer: worker the updates "
        "are differences of weights: set it to none or scale");
  }
}

// `most`: steps of the schedule in a run that a step limit ends; 0: there is no limit.
void CheckSchedule(const std::string& key, const ScheduleConfig& schedule, int32_t epochs,
                   int64_t most, Problems* problems) {
  if (schedule.warmup().epochs() > epochs || (most > 0 && schedule.warmup().steps() > most)) {
    problems->push_back(
        absl::StrCat(key,
                     ".warmup is longer than the run, which would never reach its learning "
                     "rate: shorten it, or train longer"));
  }
  if (schedule.has_step() && IsZero(schedule.step().every())) {
    problems->push_back(absl::StrCat(
        key, ".step.every is missing or zero: say how often the rate falls, as 10 epochs"));
  }
  if (schedule.has_inverse_sqrt() && IsZero(schedule.warmup())) {
    problems->push_back(absl::StrCat(
        key, ".inverse_sqrt falls from the end of the warm-up, and there is none: set ", key,
        ".warmup, as 500 steps"));
  }
  if (schedule.has_one_cycle() && !IsZero(schedule.warmup())) {
    problems->push_back(absl::StrCat(key, ".one_cycle begins with a rise of its own (", key,
                                     ".one_cycle.rise): leave ", key, ".warmup out"));
  }
  if (!schedule.has_multistep()) return;
  const auto& at = schedule.multistep().at();
  if (at.empty()) {
    problems->push_back(absl::StrCat(
        key, ".multistep.at is empty: say when the rate falls, as [10 epochs, 15 epochs]"));
  }
  for (int i = 1; i < at.size(); ++i) {
    const bool same_unit = at[i].has_steps() == at[i - 1].has_steps();
    if (!same_unit || at[i].epochs() < at[i - 1].epochs() || at[i].steps() < at[i - 1].steps() ||
        (at[i].epochs() == at[i - 1].epochs() && at[i].steps() == at[i - 1].steps())) {
      problems->push_back(absl::StrCat(
          key, ".multistep.at must grow from entry to entry, all in epochs or all in steps"));
      return;
    }
  }
}

void CheckConsistency(const ConsistencyConfig& consistency, Problems* problems) {
  if (consistency.staleness() != 0 || consistency.compensation() == ConsistencyConfig::NONE) return;
  if (consistency.quorum() == 0) {
    problems->emplace_back(
        "consistency.compensation corrects stale pushes, and at staleness 0 there are none: set "
        "consistency.staleness above 0, or consistency.compensation to none");
  } else if (consistency.compensation() == ConsistencyConfig::DELAY) {
    problems->emplace_back(
        "consistency.compensation delay is for pushes that are applied one by one, and with "
        "consistency.quorum the pushes of a clock are one update: set it to scale or none");
  }
}

void CheckQuorum(const Config& config, Problems* problems) {
  const ConsistencyConfig& consistency = config.consistency();
  if (consistency.quorum() == 0) {
    if (consistency.grace() != ResolveDefaults({}).consistency().grace()) {
      problems->emplace_back(
          "consistency.grace says how long a clock with its quorum waits for the others, and there "
          "is no quorum: set consistency.quorum, or leave consistency.grace out");
    }
    return;
  }
  if (consistency.staleness() != 0) {
    problems->emplace_back(
        "consistency.quorum is of workers that wait for each other, and above staleness 0 none "
        "waits for a whole clock: set consistency.staleness to 0, or leave consistency.quorum "
        "out");
  }
  if (config.cluster().segment() == 1) {
    problems->emplace_back(
        "consistency.quorum does nothing with cluster.segment 1, because the last clock of a "
        "segment waits for all workers: set cluster.segment, as 64");
  }
  if (PushesFactors(config.compression())) {
    problems->emplace_back(
        "consistency.quorum and compression.push factors exclude each other: a worker forgets its "
        "own factors after a clock, and a late push would need them longer; choose another codec, "
        "as powersgd");
  }
  if (consistency.quorum() > config.cluster().workers()) {
    problems->push_back(absl::StrCat(
        "consistency.quorum is ", consistency.quorum(), ", and there are ",
        config.cluster().workers(),
        " workers (cluster.workers): so many never push a clock, so lower consistency.quorum"));
  }
}

void CheckPullAhead(const ConsistencyConfig& consistency, Problems* problems) {
  if (!consistency.pull_ahead()) return;
  if (consistency.staleness() == 0) {
    problems->emplace_back(
        "consistency.pull_ahead fetches weights that lack the step under way: set "
        "consistency.staleness above 0, or consistency.pull_ahead to false");
  }
  if (consistency.compensation() == ConsistencyConfig::DELAY) {
    problems->emplace_back(
        "consistency.compensation delay needs the weights that a push was computed from, and "
        "consistency.pull_ahead replaces them before: keep one of the two");
  }
}

void CheckServers(const Config& config, Problems* problems) {
  const int servers = config.cluster().servers();
  const int held = config.cluster().shards() * config.cluster().copies();
  const bool known = config.cluster().shards() > 0;  // else each server has at least one
  if (known && servers > held) {
    problems->push_back(absl::StrCat("cluster.servers is ", servers, ", but there are only ", held,
                                     config.cluster().copies() > 1
                                         ? " copies of shards (cluster.shards times cluster.copies)"
                                         : " shards to share (cluster.shards)",
                                     ": give each server at least one"));
  }
  if (config.cluster().copies() > servers) {
    problems->push_back(absl::StrCat("cluster.copies is ", config.cluster().copies(),
                                     ", each on another server, but cluster.servers is ", servers,
                                     ": set cluster.servers to ", config.cluster().copies(),
                                     " or more"));
  }
}

void CheckCluster(const ClusterConfig& cluster, Problems* problems) {
  if (cluster.lease() >= cluster.deadline()) {
    problems->emplace_back(
        "cluster.lease must be shorter than cluster.deadline: else one worker that is gone makes "
        "the others give up before it is counted out");
  }
  if (cluster.resend() >= cluster.deadline()) {
    problems->emplace_back(
        "cluster.resend must be shorter than cluster.deadline: else nothing is ever sent again");
  }
}

void CheckDurability(const DurabilityConfig& durability, Problems* problems) {
  if (durability.acknowledge() == DurabilityConfig::REPLICATED) {
    problems->emplace_back(
        "durability.acknowledge: replicated is cluster.copies by now: set durability.acknowledge "
        "to journal (or fsync), and cluster.copies and cluster.servers to 2");
  }
  if (durability.has_checkpoint() && IsZero(durability.checkpoint())) {
    problems->emplace_back(
        "durability.checkpoint is zero: say how often, as 1 epoch, or null for at the end alone");
  }
}

}  // namespace

absl::Status ValidateConfig(const Config& config) {
  Problems problems;
  CheckValues(config, "", &problems);
  CheckModel(config.model(), &problems);
  if (!config.model().has_client()) {
    CheckData(config.data(), &problems);
    CheckImageKeys(config.data(), &problems);
    CheckSequenceKeys(config.data(), &problems);
    CheckTargetKeys(config, &problems);
  }
  CheckClient(config, &problems);
  CheckOptimizer(config.optimizer(), config.cluster().workers(), &problems);
  // The shards' schedule counts clocks, the local one local steps.
  const int64_t steps = FewestStepsOfClock(config.local());
  CheckSchedule("schedule", config.schedule(), config.train().epochs(),
                (config.train().max_steps() + steps - 1) / steps, &problems);
  CheckSchedule("local.schedule", config.local().schedule(), config.train().epochs(),
                config.train().max_steps(), &problems);
  CheckConsistency(config.consistency(), &problems);
  CheckQuorum(config, &problems);
  CheckPullAhead(config.consistency(), &problems);
  CheckLocal(config, &problems);
  CheckTrain(config, &problems);
  CheckCompressionKeys(config.compression(), &problems);
  CheckCluster(config.cluster(), &problems);
  CheckServers(config, &problems);
  CheckDurability(config.durability(), &problems);
  if (problems.empty()) CheckCodecs(config, &problems);
  if (problems.empty()) return absl::OkStatus();
  return InvalidArgumentError("config: ", absl::StrJoin(problems, "\nconfig: "));
}

}  // namespace psgd
