// Networks that share every batch, as the GPUs of one worker do. Each computes an equal part, and
// their gradients are added up. They may take several turns, each with a micro-batch. To a trainer
// they are one network.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/runtime/network.h"

namespace psgd {

// The batch of each replica. An error if `batch` does not divide.
absl::StatusOr<int> BatchOfReplica(int batch, size_t replicas);

// Where gradients are added up.
enum class ReduceOn { kHost, kDevices };

// Whether the devices of such replicas can add up gradients. It returns the error of
// Replicas::Create before any network is made.
absl::Status CheckDevicesMeet(const std::vector<NetworkOptions>& options);

// Not thread-safe. Create allocates all memory.
class Replicas {
 public:
  // Makes one network for each of `options`. An error if the batch does not divide among them.
  // `turns`: TrainStep takes so many batches together, in turns, and adds their gradients up on the
  // host. Each sample counts as much as in one batch.
  static absl::StatusOr<std::unique_ptr<Replicas>> Create(
      const ModelConfig& model, const SampleShape& shape, int batch,
      const std::vector<NetworkOptions>& options, ReduceOn reduce = ReduceOn::kHost, int turns = 1);
  ~Replicas();

  const ModelSpec& spec() const;
  int batch() const;  // of all replicas together, in one turn

  // See Network. Statistics are the mean over the replicas and turns, because each normalizes by
  // its part of the batch.
  std::span<float> parameter(int index);
  std::span<const float> gradient(int index) const;
  int64_t factor_rows(int index) const;
  const std::vector<bool>& hidden_matrices() const;
  void InvalidateParameters();
  // See Network. All replicas get room, or none. RESOURCE_EXHAUSTED: a device lacks room.
  // UNIMPLEMENTED: parameters lie on the host.
  absl::Status MakeRoomAhead();
  std::span<float> next_parameter(int index);
  absl::Status StageParameters();
  void TakeStagedParameters();
  // The network whose device holds the sums of the gradients; null: the host makes or adds them.
  Network* device_network();

  // See Network. Gradients are added in a fixed order, so results repeat their bits. With
  // ReduceOn::kDevices no step is possible after an error of one replica.
  absl::StatusOr<Network::Result> TrainStep(const StepBatch& batch, uint64_t step,
                                            const std::function<void(int)>& on_gradient,
                                            const BesideStep& beside = {});
  absl::StatusOr<Network::Result> TrainStep(const NetworkInput& input,
                                            std::span<const int32_t> labels, uint64_t step,
                                            const std::function<void(int)>& on_gradient) {
    return TrainStep({input, labels}, step, on_gradient);
  }
  bool stages() const;
  bool waits_by_parameter() const;  // only of one replica
  absl::StatusOr<Network::Result> Evaluate(const StepBatch& batch);
  absl::StatusOr<Network::Result> Evaluate(const NetworkInput& input,
                                           std::span<const int32_t> labels) {
    return Evaluate({input, labels});
  }
  std::span<const float> logits() const;

  float loss_scale() const;              // of the first replica; each has its own
  const absl::Status& recorded() const;  // OK if all are; else the first error
  const std::string& note() const;       // of the first replica

 private:
  struct Impl;
  explicit Replicas(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
