// Assembles a run's weights from the chunks that a server sends, or from a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "proto/control.pb.h"
#include "server/shard/loaded_checkpoint.h"

namespace psgd {

// Not thread-safe.
class WeightsCollector {
 public:
  static WeightsCollector FromCheckpoint(const LoadedCheckpoint& checkpoint);
  // The moving average of the weights. FAILED_PRECONDITION: the run keeps none (train.average).
  static absl::StatusOr<WeightsCollector> AverageOf(const LoadedCheckpoint& checkpoint);

  // Chunks come from a peer, so a chunk that does not fit the model is an error.
  absl::Status Add(const WeightsChunk& chunk);
  // OK if every element of every parameter has arrived.
  absl::Status Complete() const;

  // OUT_OF_RANGE: training diverged, so some are not finite numbers.
  absl::Status CheckFinite() const;

  const Config& config() const { return config_; }
  const ModelSpec& model() const { return model_; }
  const std::vector<float>& values(int parameter) const { return values_[parameter]; }

  // Writes .safetensors, with the names and shapes of the model.
  absl::Status Write(const std::string& path) const;

 private:
  absl::Status SetModel(const ModelSpec& model, const Config& config);
  static WeightsCollector Empty(const LoadedCheckpoint& checkpoint);
  // All values of the next parameter.
  void AddAll(const Bytes& bytes);

  Config config_;
  ModelSpec model_;
  std::vector<std::vector<float>> values_;
  std::vector<uint64_t> received_;
};

}  // namespace psgd
