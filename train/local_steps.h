// A worker's own steps between two exchanges with the shards (local.steps): its local optimizer
// moves its weights, and an exchange pushes its weight change, the weights minus those that it took
// from the shards.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/bytes.h"
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
    std::function<std::span<float>(int)> weights;         // of a parameter: the network's
    std::function<std::span<const float>(int)> gradient;  // of its last step
  };

  explicit LocalSteps(Options options);

  // The weights of a parameter as the shards sent them last. A pull is installed here.
  std::span<float> shards(int parameter) { return shards_[parameter]; }

  // The network has weights to train with: a step need not wait for those of the shards.
  bool begun() const { return begun_; }
  // The shards' weights after `clock` are here. Mixes the slices that its exchange carried into the
  // network's weights, as local.mix says. The first call copies all slices.
  void Take(uint64_t clock);
  // The local optimizer makes a step from the network's gradients, at this time of the run.
  void Step(const ScheduleTime& time);
  // The weight change of a parameter since Take, as a push has it: what the shards subtract from
  // trained weights, and add to statistics. Valid until the next call.
  std::span<const float> Change(int parameter);
  // The weight changes of the slices that the exchange of `clock` carries are pushed.
  void Exchanged(uint64_t clock) { exchanged_ = clock; }

  // For an evaluation the network gets the shards' weights, and then its own again.
  void ShowShards();
  void ShowOwn();

  // A segment begins: weights that were restored for another clock are given up.
  void Begin(uint64_t clock);

  // The optimizer's state, and the network's weights if they differ from the shards', of a worker
  // after `clock`.
  Bytes Save(uint32_t worker, uint64_t clock);
  size_t SavedBytes();
  // False, and nothing changes: the state is of another model, or of other local.* keys.
  // Of another worker only the optimizer's state is taken.
  bool Restore(std::span<const std::byte> saved, uint32_t worker);

 private:
  using Arrays = std::vector<std::vector<float>>;  // by parameter

  bool Trained(int parameter) const {
    return options_.model.parameters(parameter).role() == ParameterSpec::TRAINED;
  }
  // The weights from which a weight change is measured.
  std::vector<float>& base(int parameter) {
    return base_.empty() ? shards_[parameter] : base_[parameter];
  }
  // All arrays of a state, in order.
  template <typename Use>
  void ForEachSaved(const Use& use);

  const Options options_;
  const std::unique_ptr<Optimizer> optimizer_;
  const HyperParameters hyper_;
  std::vector<ParameterRates> rates_;  // by parameter
  Arrays shards_;
  // Only with fragments: an evaluation pulls weights that the worker has not taken yet.
  Arrays base_;
  std::vector<Arrays> states_;  // of the optimizer, by state array
  uint64_t steps_ = 0;          // that the optimizer made
  bool begun_ = false;
  uint64_t exchanged_ = 0;    // the last clock whose weight changes were pushed
  uint64_t saved_clock_ = 0;  // of the restored weights; 0: none were restored
  Arrays hidden_;             // the network's weights, while it shows the shards'
  std::vector<float> scratch_;
};

}  // namespace psgd
