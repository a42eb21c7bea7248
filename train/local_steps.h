// A worker's own steps between two exchanges with the shards (local.steps): its own optimizer moves
// its weights, and an exchange pushes what they moved by since it took those of the shards.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "optimizers/optimizer.h"
#include "optimizers/schedule.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"
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

  // The network trains with its own weights by now: a step need not wait for those of the shards.
  bool begun() const { return begun_; }
  // The shards' weights after `clock` are here: takes those of the slices that its exchange carried
  // into the network's, as local.mix says; the first time all of them, as they are.
  void Take(uint64_t clock);
  // The optimizer moves the network's weights by their gradients, at this time of the run.
  void Step(const ScheduleTime& time);
  // What the parameter's weights moved by since Take, as a push has it: of trained weights what to
  // subtract, of statistics what to add. Times `weight`. Valid until the next call.
  std::span<const float> Moved(int parameter, float weight);

  // For an evaluation the network gets the shards' weights, and then its own again.
  void ShowShards();
  void ShowOwn();

  // The optimizer's state and the network's weights, for checkpoints.
  Bytes Save();
  // False, and nothing changes: the state is of another model, or of other local.* keys.
  bool Restore(std::span<const std::byte> saved);

 private:
  using Arrays = std::vector<std::vector<float>>;  // by parameter

  bool Trained(int parameter) const {
    return options_.model.parameters(parameter).role() == ParameterSpec::TRAINED;
  }
  // What a difference is taken to: the shards' weights when they were taken.
  std::vector<float>& taken(int parameter) {
    return taken_.empty() ? shards_[parameter] : taken_[parameter];
  }

  // What of the network's weights outlives an exchange, so that a checkpoint needs it.
  bool KeepsOwn() const;
  // All arrays of a state, in order.
  template <typename Use>
  void ForEachSaved(const Use& use);

  const Options options_;
  const std::unique_ptr<Optimizer> optimizer_;
  const HyperParameters hyper_;
  Arrays shards_;
  // Of fragments alone: an evaluation brings weights that are not taken yet.
  Arrays taken_;
  std::vector<Arrays> states_;  // of the optimizer, by state array
  uint64_t steps_ = 0;          // that the optimizer made
  bool begun_ = false;
  Arrays own_;  // the network's, while it shows the shards'
  std::vector<float> scratch_;
};

}  // namespace psgd
