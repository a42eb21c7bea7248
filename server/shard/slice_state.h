// One slice on its shard, and the loop that turns payloads into new weights.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "compression/codec.h"
#include "compression/lossless.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"
#include "server/shard/change_log.h"
#include "server/shard/cow_array.h"
#include "server/shard/given_weights.h"
#include "server/shard/loaded_checkpoint.h"
#include "server/shard/optimizer.h"
#include "server/shard/snapshot.h"
#include "server/shard/update_log.h"

namespace psgd {

// A value of an update beyond this is no gradient, and refused as one that is not finite: weights
// could not take many of them, and squares of them, without leaving fp32.
inline constexpr float kLargestUpdate = 1e15f;

struct SliceState {
  uint32_t id = 0;
  SliceSpec spec;
  SliceShape shape;
  std::string parameter;
  ParameterSpec::Role role = ParameterSpec::TRAINED;
  bool decays = false;
  bool coupled_decay = false;  // it is added to the gradient: by the worker where it can
  bool decays_here = false;    // sparse: it cannot
  CowArray weights;
  std::vector<CowArray> states;  // the optimizer's
  uint64_t version = 0;          // pushes absorbed
  uint64_t steps = 0;            // updates applied; fewer than pushes when they are summed
  // What changed lately, where workers pull that alone.
  std::optional<ChangeLog> changes;
  // And the updates behind it, where a worker could make them, too.
  std::optional<UpdateLog> updates;
  // The last payload that weights_encoder made for more than one worker: of this version, and of
  // changes since that mark.
  Bytes encoded;
  uint64_t encoded_version = UINT64_MAX;
  uint64_t encoded_since = 0;
  // The last that the lossless stage made of such a payload, of this version and of changes since
  // that mark; 0: of all weights.
  PackedPayload packed;
  uint64_t packed_version = UINT64_MAX;
  uint64_t packed_since = 0;
  PackingHabit packing;
  // What the checkpoint that the run resumed from holds for its workers.
  std::map<uint32_t, Bytes> resumed_residuals;
};

// One worker's payload for a slice.
struct Contribution {
  PayloadReader* reader = nullptr;  // null: SliceUpdater::AddUp has read it
  float scale = 1;
  uint64_t staleness = 0;  // versions the slice gained since the worker pulled it
  Bytes pulled;            // the weights it computed with; for delay compensation
  // With the payload, if that can be passed on: see open_push.h.
  FactorUpdate::Part factors = {};
  bool without_decay = false;  // the reader's, once that was read
};

// Of one update: the hyper-parameters that hold, with the schedule's part in them.
struct UpdateRates {
  double learning_rate = 0;
  double weight_decay = 0;  // adamw's, and of sparse parameters; else it is in the gradient
};

// Makes and updates slices. Not thread-safe: one a shard.
class SliceUpdater {
 public:
  explicit SliceUpdater(const Config& config);

  // A slice with its initial weights, or with those of the checkpoint. REQUIRES: without one,
  // CheckGiven(model, *given), if any parameter starts from given values.
  absl::StatusOr<SliceState> Make(uint32_t id, const SliceSpec& spec, const ModelSpec& model,
                                  uint64_t seed, const LoadedCheckpoint* checkpoint,
                                  const GivenWeights* given = nullptr);
  // One with those contents. An error: they are not a slice's of this run.
  absl::StatusOr<SliceState> Restore(uint32_t id, const SliceSpec& spec, const ModelSpec& model,
                                     SliceContents contents);

  // One update from the sum of the contributions, in their order. The payloads go through a block
  // that stays in the first-level cache into the optimizer; no dense gradient is ever made, but for
  // `sum`: of the first of them, by AddUp.
  void Apply(SliceState& slice, std::span<const Contribution> contributions,
             const UpdateRates& rates, std::span<const float> sum = {});
  // Where they cannot all be open together: adds to the sum those that have a reader, which then
  // may go. In whatever portions, Apply makes the same update to the bit. An empty sum is one of
  // none. REQUIRES: no compensation for delay.
  void AddUp(std::span<Contribution> contributions, size_t elements, std::vector<float>* sum) const;

  SliceSnapshot Snapshot(const SliceState& slice) const;

 private:
  // A slice of zeros.
  SliceState Prepare(uint32_t id, const SliceSpec& spec, const ParameterSpec& parameter);
  // False, and nothing, where the update is not one of a few entries.
  bool ApplySparse(SliceState& slice, std::span<const Contribution> contributions,
                   const OptimizerStep& step);
  // Notes how the latest version came about.
  void Log(SliceState& slice, std::span<const Contribution> contributions,
           const OptimizerStep& step, float decay);
  // Starts the logs that the config asks for.
  void StartLogs(SliceState& slice, const ParameterSpec& parameter) const;
  // The sum of sparse contributions, entry by entry, in their order: as the sum of dense ones.
  void GatherEntries(std::span<const Contribution> contributions, std::span<const float> weights);
  // Whether the worker's gradient is to be corrected for what the weights have moved since it
  // pulled them.
  bool Compensates(const Contribution& contribution, std::span<const float> weights) const;
  // Corrects and scales it, where the weights are `now` and were `then`.
  void Compensate(const Contribution& contribution, std::span<const float> now, const float* then,
                  std::span<float> gradient) const;
  // The same of the block's first values, which are those of these elements.
  void CompensateEntries(const Contribution& contribution, std::span<const float> weights,
                         std::span<const uint32_t> indices);
  // The gradient of the block at `begin`, with `decay` times the weights: the payload itself where
  // that is possible.
  const float* Gather(std::span<const Contribution> contributions, std::span<const float> sum,
                      std::span<const float> weights, float decay, size_t begin, size_t size);
  float ScaleOf(const Contribution& contribution) const;

  static constexpr size_t kBlock = 2048;  // with weights and two states, well inside 48 KiB

  const ConsistencyConfig consistency_;
  const uint32_t workers_;
  const bool decoupled_decay_;
  const bool logs_changes_;
  const bool logs_updates_;  // of factors: those of plain sgd can be made anywhere
  const std::unique_ptr<Optimizer> optimizer_;
  BufferPool pool_;
  alignas(64) float block_[kBlock];
  // Entries of an update, and of one that is being added to it.
  std::vector<uint32_t> indices_, more_indices_;
  std::vector<float> values_, more_values_;
};

}  // namespace psgd
