// A worker's own steps between two exchanges with the shards (local.steps): its local optimizer
// moves its weights, and an exchange pushes its weight change, the weights minus those that it took
// from the shards. The optimizer runs where the network's gradients are: on the host, or on a
// device whose weights come to the host for an exchange.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "engine/runtime/crew.h"
#include "engine/runtime/network.h"
#include "optimizers/optimizer.h"
#include "optimizers/schedule.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"
#include "proto/parameter_groups.h"
#include "worker/fragments.h"

namespace psgd {

// Not thread-safe.
class LocalSteps {
 public:
  struct Options {
    Config config;  // resolved
    const ModelSpec& model;
    const Placement& placement;
    const Fragments& fragments;
    // By parameter: a matrix inside the network (Network::hidden_matrices).
    std::vector<bool> matrices;
    // The network's weights of a parameter, in the host's memory.
    std::function<std::span<float>(int)> weights;
    std::function<void()> wrote;  // called after `weights` were written
    // The gradient of a parameter in the last step, in `room` if it needs one. Called on several
    // threads.
    std::function<std::span<const float>(int, std::vector<float>* room)> gradient;
    // The network whose device makes the steps; null: the host makes them. REQUIRES: it keeps
    // states (Network::KeepStates) as CanUseDevice says.
    Network* device = nullptr;
    int threads = 1;  // of a step on the host
  };

  // Whether a device can make the steps of this optimizer. Sets the arguments of KeepStates.
  static bool CanUseDevice(const OptimizerConfig& optimizer, int* state_arrays, bool* orthogonal);

  explicit LocalSteps(Options options);

  // The weights of a parameter as the shards sent them last. A pull is installed here.
  std::span<float> shards(int parameter) { return shards_[parameter]; }

  // A device makes the steps, from gradients that it bounds by itself (train.clip).
  bool on_device() const { return options_.device != nullptr; }
  // The network has weights to train with, so a step need not wait for the shards' weights.
  bool begun() const { return begun_; }
  // The shards' weights after `clock` are here. Mixes the slices that its exchange carried into the
  // network's weights, as local.mix says. The first call copies all slices.
  absl::Status Take(uint64_t clock);
  // Makes a step of the local optimizer from the network's gradients. `time`: of the step in the
  // run.
  absl::Status Step(const ScheduleTime& time);
  // The exchange of `clock` begins. Change can be called until the next step.
  absl::Status Exchange(uint64_t clock);
  // The weight change of a parameter since Take, as a push has it. For trained weights its sign is
  // reversed, because shards subtract a push. Valid until the next call.
  std::span<const float> Change(int parameter);

  // ShowShards gives the network the shards' weights for an evaluation. ShowOwn gives it its own
  // weights again.
  absl::Status ShowShards();
  void ShowOwn();

  // A segment begins: weights that were restored for another clock are given up.
  void Begin(uint64_t clock);

  // The optimizer's state, and the network's weights if they differ from the shards', of a worker
  // after `clock`.
  absl::StatusOr<Bytes> Save(uint32_t worker, uint64_t clock);
  size_t SavedBytes();
  // False, and nothing changes: the state is of another model, or of other local.* keys. Only the
  // optimizer's state is taken if another worker saved it.
  absl::StatusOr<bool> Restore(std::span<const std::byte> saved, uint32_t worker);

 private:
  struct Room {
    std::vector<float> clipped, decayed;
  };
  using Arrays = std::vector<std::vector<float>>;  // by parameter

  bool Trained(int parameter) const {
    return options_.model.parameters(parameter).role() == ParameterSpec::TRAINED;
  }
  // The weights from which a weight change is measured.
  std::vector<float>& base(int parameter) {
    return base_.empty() ? shards_[parameter] : base_[parameter];
  }
  // Calls `use` for all arrays of a saved state, in order.
  template <typename Use>
  void ForEachSaved(const Use& use);
  // `rate`: of the optimizer, in this step.
  OptimizerStep StepOf(int parameter, double rate) const;
  uint32_t MatricesSum() const;
  // Called on several threads, for different parameters.
  void StepOnHost(int parameter, const OptimizerStep& step, Room* room);
  // What a step does to a parameter on the device.
  ElementUpdate UpdateOf(int parameter, const OptimizerStep& step) const;
  // Makes options_.weights equal to the network's weights. This holds until the next step.
  absl::Status BringWeights();
  // Copy states_ from the device, and to it. On the host they do nothing.
  absl::Status ReadStates();
  absl::Status WriteStates();
  Arrays Zeros() const;

  const Options options_;
  const std::unique_ptr<Optimizer> optimizer_;
  const HyperParameters hyper_;
  Crew crew_;                          // the threads of a step on the host
  std::vector<Room> rooms_;            // by member of the crew
  std::vector<int> largest_first_;     // parameters, in the order in which the crew takes them
  std::vector<ParameterRates> rates_;  // by parameter
  Arrays shards_;
  // Only with fragments: an evaluation pulls weights that the worker has not taken yet.
  Arrays base_;
  // The optimizer's states, by state array. With a device this is empty, except while the states
  // are saved or restored.
  std::vector<Arrays> states_;
  bool weights_here_ = true;  // false: the device has moved them since BringWeights
  uint64_t steps_ = 0;        // how many steps the optimizer made
  bool begun_ = false;
  uint64_t exchanged_ = 0;    // the last clock whose weight changes were pushed
  uint64_t saved_clock_ = 0;  // of the restored weights; 0: none were restored
  Arrays hidden_;             // the network's weights, while it shows the shards'
  std::vector<float> scratch_;
};

}  // namespace psgd
