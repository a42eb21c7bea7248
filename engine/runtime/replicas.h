// Networks that share every batch, as the GPUs of a node that is one worker: each computes an equal
// part of it, and their gradients meet before they leave. To a trainer they are one network.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/runtime/network.h"

namespace psgd {

// The part of a batch that each of so many replicas computes; an error where it does not divide.
absl::StatusOr<int> BatchOfReplica(int batch, size_t replicas);

// Where gradients meet.
enum class ReduceOn { kHost, kDevices };

// Whether the gradients of such replicas can meet on their devices: what Replicas::Create would
// say, before any network is made.
absl::Status CheckDevicesMeet(const std::vector<NetworkOptions>& options);

// As Network: not thread-safe, all memory is allocated by Create.
class Replicas {
 public:
  // One network for each of `options`; the first is also what is asked when nothing is shared. An
  // error where the batch does not divide among them.
  static absl::StatusOr<std::unique_ptr<Replicas>> Create(
      const ModelConfig& model, const InputShape& shape, int batch,
      const std::vector<NetworkOptions>& options, ReduceOn reduce = ReduceOn::kHost);
  ~Replicas();

  const ModelSpec& spec() const;
  int batch() const;  // of all together

  // As those of Network. Statistics are the mean over the replicas: each normalises by its part of
  // the batch.
  std::span<float> parameter(int index);
  std::span<const float> gradient(int index) const;
  int64_t factor_rows(int index) const;
  void InvalidateParameters();
  // As Network's; of all or of none. RESOURCE_EXHAUSTED of a replica whose device lacks room;
  // UNIMPLEMENTED where parameters lie on the host.
  absl::Status MakeRoomAhead();
  std::span<float> next_parameter(int index);
  absl::Status StageParameters();
  void TakeStagedParameters();
  // The network on whose device the gradients of all end up, before they come to the host; null
  // where they meet or are made on the host.
  Network* device_network();

  // As Network's, also in its bits from run to run: gradients are added in one order. After an
  // error of one replica no step is possible any more where gradients meet on devices.
  absl::StatusOr<Network::Result> TrainStep(const StepBatch& batch, uint64_t step,
                                            const std::function<void(int)>& on_gradient,
                                            const StepBatch* next = nullptr,
                                            std::function<bool()> meanwhile = nullptr);
  absl::StatusOr<Network::Result> TrainStep(const NetworkInput& input,
                                            std::span<const int32_t> labels, uint64_t step,
                                            const std::function<void(int)>& on_gradient) {
    return TrainStep({input, labels}, step, on_gradient);
  }
  bool stages() const;
  absl::StatusOr<Network::Result> Evaluate(const NetworkInput& input,
                                           std::span<const int32_t> labels);
  std::span<const float> logits() const;

  float loss_scale() const;              // of the first: each has its own
  const absl::Status& recorded() const;  // of all

 private:
  struct Impl;
  explicit Replicas(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
