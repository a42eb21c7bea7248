// The model of a run whose first worker brings it (`model: client`): its parameters, and its first
// weights, which come in parts. No IO.
#pragma once

#include <memory>

#include "common/status.h"
#include "proto/control.pb.h"
#include "server/shard/given_weights.h"

namespace psgd {

// Not thread-safe.
class BroughtModel {
 public:
  // REQUIRES: `model` is valid, and this server has the memory for it.
  BroughtModel(const WorkerKey& from, ModelSpec model);

  bool IsFrom(const WorkerKey& key, const ModelSpec& model) const;
  const WorkerKey& from() const { return from_; }
  // A part that comes again replaces itself.
  absl::Status Take(const GiveWeightsRequest& part);
  // All weights have come, as their checksums in the model say.
  bool complete() const;
  std::shared_ptr<const GivenWeights> weights() const { return weights_; }

 private:
  const WorkerKey from_;
  const ModelSpec model_;
  const std::shared_ptr<GivenWeights> weights_;
};

// `model`, but with the first weights of `run` where it has the same parameters: those of the
// worker that came first count.
ModelSpec WithStartOf(const ModelSpec& run, ModelSpec model);

}  // namespace psgd
