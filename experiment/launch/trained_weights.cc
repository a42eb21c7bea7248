#include "experiment/launch/trained_weights.h"

#include <algorithm>

#include "common/files.h"
#include "data/batch.h"
#include "data/preparation.h"
#include "engine/graph/model_spec.h"
#include "engine/onnx/export.h"
#include "engine/runtime/network.h"
#include "experiment/record/run_dir.h"
#include "server/durability/checkpoint_store.h"
#include "server/shard/placement.h"
#include "train/evaluate.h"
#include "train/network_data.h"

namespace psgd {

absl::StatusOr<WeightsCollector> WeightsOfServer(ControlClient& client) {
  WeightsCollector collector;
  PSGD_RETURN_IF_ERROR(
      client.Weights([&](const WeightsChunk& chunk) { return collector.Add(chunk); }));
  PSGD_RETURN_IF_ERROR(collector.Complete());
  return collector;
}

absl::StatusOr<WeightsCollector> WeightsOfRun(const std::string& run_dir,
                                              std::optional<uint64_t> checkpoint,
                                              WhichWeights which, std::vector<std::string>* notes) {
  const CheckpointStore store(RunDir(run_dir).ServerDir());
  PSGD_ASSIGN_OR_RETURN(const LoadedCheckpoint loaded,
                        checkpoint ? store.Load(*checkpoint) : store.LoadNewest());
  notes->insert(notes->end(), loaded.notes().begin(), loaded.notes().end());
  if (which == WhichWeights::kAverage) return WeightsCollector::AverageOf(loaded);
  return WeightsCollector::FromCheckpoint(loaded);
}

absl::Status CheckHasNetwork(const WeightsCollector& weights) {
  const Config& config = weights.config();
  if (!config.model().has_client()) return absl::OkStatus();
  return FailedPreconditionError(
      "a program brought the model of ", config.name(),
      " (model: client), so psgd has its weights, but neither its network nor its data: ps-ctl "
      "export --out FILE.safetensors writes the weights, and the program can load and evaluate "
      "them");
}

absl::StatusOr<std::unique_ptr<Replicas>> NetworkWith(const WeightsCollector& weights,
                                                      const SampleShape& shape,
                                                      const EvaluateOptions& options) {
  PSGD_RETURN_IF_ERROR(weights.CheckFinite());
  const Config& config = weights.config();
  NetworkOptions network_options;
  network_options.backend = options.engine;
  network_options.threads = options.threads;
  network_options.seed = config.seed();
  PSGD_ASSIGN_OR_RETURN(
      auto network,
      Replicas::Create(config.model(), shape, config.data().eval_batch(), {network_options}));
  if (!IsSameNetwork(network->spec(), weights.model())) {
    if (config.model().has_onnx()) {
      ModelSpec trained = weights.model();
      trained.clear_preparation();
      return FailedPreconditionError(config.model().onnx(),
                                     " makes another network now than that of the weights of ",
                                     config.name(), ": ", FirstDifference(network->spec(), trained),
                                     "; put back the file that the run began with");
    }
    return FailedPreconditionError(
        "the weights of ", config.name(),
        " are of another network than this version "
        "of psgd builds from the run's config; use the version that trained them");
  }
  for (int p = 0; p < weights.model().parameters_size(); ++p) {
    std::copy(weights.values(p).begin(), weights.values(p).end(), network->parameter(p).begin());
  }
  network->InvalidateParameters();
  return network;
}

absl::StatusOr<EvalResult> EvaluateWeights(const WeightsCollector& weights,
                                           const EvaluateOptions& options) {
  const Config& config = weights.config();
  PSGD_RETURN_IF_ERROR(CheckHasNetwork(weights));
  PSGD_ASSIGN_OR_RETURN(const DataSets data, OpenDataOf(config));
  const Preparation& preparation = weights.model().preparation();
  if (preparation.has_shape() &&
      preparation.SerializeAsString() != data.preparation.SerializeAsString()) {
    return FailedPreconditionError(
        config.data().path(),
        " is not what the run trained on: its scales, categories or classes are others; restore "
        "the file, or predict new data (ps-ctl predict); of the same file, with a column of equal "
        "numbers: an earlier version, which scaled it otherwise, trained the run and can "
        "evaluate it");
  }
  PSGD_ASSIGN_OR_RETURN(const auto network, NetworkWith(weights, data.shape, options));
  EvaluationBatches batches(data.test, network->batch());
  return Evaluate(*network, batches, data.targets, config.model().loss(), config.data().threads());
}

absl::Status WriteOnnx(const WeightsCollector& weights, const std::string& path) {
  PSGD_RETURN_IF_ERROR(weights.Complete());
  PSGD_RETURN_IF_ERROR(CheckHasNetwork(weights));
  const Config& config = weights.config();
  SampleShape shape = ShapeOf(weights.model().preparation());
  if (!weights.model().preparation().has_shape()) {
    PSGD_ASSIGN_OR_RETURN(const DataSets data, OpenDataOf(config));
    shape = data.shape;
  }
  const auto values = [&](int p) { return std::span<const float>(weights.values(p)); };
  PSGD_ASSIGN_OR_RETURN(const std::string bytes,
                        ExportOnnx(config.model(), shape, weights.model(), values));
  return WriteFileAtomically(path, bytes);
}

}  // namespace psgd
