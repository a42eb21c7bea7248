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
#include "optimizers/optimizer.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"
#include "proto/parameter_groups.h"
#include "server/shard/change_log.h"
#include "server/shard/cow_array.h"
#include "server/shard/given_weights.h"
#include "server/shard/loaded_checkpoint.h"
#include "server/shard/snapshot.h"
#include "server/shard/update_log.h"

namespace psgd {

// An update with a value beyond this is refused like a non-finite value: weights and squares would
// leave fp32 after a few of them.
inline constexpr float kLargestUpdate = 1e15f;

struct SliceState {
  uint32_t id = 0;
  SliceSpec spec;
  SliceShape shape;
  std::string parameter;
  ParameterSpec::Role role = ParameterSpec::TRAINED;
  ParameterRates rates;  // of the parameter
  bool decays = false;
  bool coupled_decay = false;  // decay is added to the gradient, by the worker if it can
  bool decays_here = false;    // sparse parameter: the worker cannot add decay
  CowArray weights;
  std::vector<CowArray> states;     // the optimizer's arrays
  std::optional<CowArray> average;  // of the weights, if the config has train.average
  uint64_t version = 0;             // pushes absorbed
  uint64_t steps = 0;               // updates applied; fewer than pushes when they are summed
  // The latest changed elements, if workers pull only changes.
  std::optional<ChangeLog> changes;
  // The latest updates, if a worker can make them itself.
  std::optional<UpdateLog> updates;
  // The last payload that WeightsEncoder made for several workers: for this version, with the
  // changes since this mark.
  Bytes encoded;
  uint64_t encoded_version = UINT64_MAX;
  uint64_t encoded_since = 0;
  // The last such payload after the lossless stage: for this version, with the changes since this
  // mark; 0: all weights.
  PackedPayload packed;
  uint64_t packed_version = UINT64_MAX;
  uint64_t packed_since = 0;
  PackingHabit packing;
  // By worker: residuals of the resumed checkpoint.
  std::map<uint32_t, Bytes> resumed_residuals;
};

// One worker's payload for a slice.
struct Contribution {
  PayloadReader* reader = nullptr;  // null: SliceUpdater::AddUp has read the payload
  float scale = 1;
  // Versions since the pull, less `usual_age`. For a late push: how many exchanges of the slice
  // late.
  uint64_t staleness = 0;
  Bytes pulled;  // the worker's weights; for delay compensation
  // Has the payload, if it can be passed on: see open_push.h.
  FactorUpdate::Part factors = {};
  bool without_decay = false;  // the reader's flag, once AddUp has read the payload
};

// The rates of one update, with the schedule's factor, before the parameter's own settings.
struct UpdateRates {
  double learning_rate = 0;
  double weight_decay = 0;  // if it is decoupled, or the worker could not add it to the gradient
  double clocks = 1;        // share of a clock that the update is, for the average of the weights
};

// Makes and updates slices. Not thread-safe: each shard has its own.
class SliceUpdater {
 public:
  explicit SliceUpdater(const Config& config);

  // A slice with its initial weights, or with those of the checkpoint. REQUIRES: without a
  // checkpoint, CheckGiven(model, *given) is OK if any parameter starts from given values.
  absl::StatusOr<SliceState> Make(uint32_t id, const SliceSpec& spec, const ModelSpec& model,
                                  uint64_t seed, const LoadedCheckpoint* checkpoint,
                                  const GivenWeights* given = nullptr);
  // A slice with these contents. An error: they do not fit a slice of this run.
  absl::StatusOr<SliceState> Restore(uint32_t id, const SliceSpec& spec, const ModelSpec& model,
                                     SliceContents contents);

  // Makes one update from the sum of the contributions, in their order. The payloads go block by
  // block, in the first-level cache, into the optimizer. No dense gradient is made, except `sum`,
  // the sum of the first contributions, from AddUp, and for an optimizer of whole slices.
  void Apply(SliceState& slice, std::span<const Contribution> contributions,
             const UpdateRates& rates, std::span<const float> sum = {});
  // For contributions that cannot all be open at once: adds those with a reader to `sum` and
  // releases their readers. For any split, Apply makes the same update to the bit. An empty `sum`
  // is zero. REQUIRES: no delay compensation.
  void AddUp(std::span<Contribution> contributions, size_t elements, std::vector<float>* sum) const;

  SliceSnapshot Snapshot(const SliceState& slice) const;

 private:
  // A slice of zeros.
  SliceState Prepare(uint32_t id, const SliceSpec& spec, const ParameterSpec& parameter);
  // Does nothing and returns false if the update is not sparse.
  bool ApplySparse(SliceState& slice, std::span<const Contribution> contributions,
                   const OptimizerStep& step);
  // Moves the average of the weights, if there is one, after an update that is this share of a
  // clock.
  void UpdateAverage(SliceState& slice, double clocks) const;
  // Logs how the latest version was made.
  void Log(SliceState& slice, std::span<const Contribution> contributions,
           const OptimizerStep& step, float decay);
  // Starts the logs that the config asks for.
  void StartLogs(SliceState& slice, const ParameterSpec& parameter) const;
  // Adds up sparse contributions entry by entry, in the same order as dense contributions.
  void GatherEntries(std::span<const Contribution> contributions, std::span<const float> weights);
  // Whether the gradient must be corrected for the weights' movement since the worker's pull.
  bool Compensates(const Contribution& contribution, std::span<const float> weights) const;
  // Corrects and scales `gradient`, for weights that moved from `then` to `now`.
  void Compensate(const Contribution& contribution, std::span<const float> now, const float* then,
                  std::span<float> gradient) const;
  // The same for the block's first values, which belong to the elements `indices`.
  void CompensateEntries(const Contribution& contribution, std::span<const float> weights,
                         std::span<const uint32_t> indices);
  // The gradient of the elements from `begin`, plus `decay` times the weights. Returns the payload
  // itself if possible, else `into`.
  const float* Gather(std::span<const Contribution> contributions, std::span<const float> sum,
                      std::span<const float> weights, float decay, size_t begin,
                      std::span<float> into);
  // The same for one block.
  void Sum(std::span<const Contribution> contributions, std::span<const float> sum,
           std::span<const float> weights, float decay, size_t begin, std::span<float> block) const;
  float ScaleOf(const Contribution& contribution) const;

  static constexpr size_t kBlock = 2048;  // with weights and two states well inside 48 KiB

  const ConsistencyConfig consistency_;
  const OptimizerConfig optimizer_config_;
  const double average_;  // share that the average keeps at a clock; 0: there is no average
  const uint32_t workers_;
  const bool decoupled_decay_;
  const bool logs_changes_;
  const bool logs_updates_;  // of factors: with plain sgd a worker can make the updates too
  const std::unique_ptr<Optimizer> optimizer_;
  BufferPool pool_;
  alignas(64) float block_[kBlock];
  std::vector<float> whole_;  // gradient of a slice, for optimizers of whole slices
  // Entries of an update, and of the update that is being added.
  std::vector<uint32_t> indices_, more_indices_;
  std::vector<float> values_, more_values_;
};

}  // namespace psgd
