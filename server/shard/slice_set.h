// The slices that a shard owns, and how pushes change them. It knows no workers and no clocks:
// whether a push counts, and when, is decided in shard_core.h.
//
// A slice that came from a checkpoint keeps the residuals of that checkpoint until their workers
// have pushed them. Nobody else has them, so the next checkpoint must contain them. The same holds
// for this shard's parts of what the workers' programs keep.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "compression/codec.h"
#include "net/message.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"
#include "server/shard/journal.h"
#include "server/shard/open_push.h"
#include "server/shard/shard_command.h"
#include "server/shard/slice_state.h"
#include "server/shard/snapshot.h"

namespace psgd {

// The weights of one slice that a worker was sent last, for delay compensation.
struct ShownWeights {
  uint64_t version = 0;
  Bytes weights;
};

// Not thread-safe: belongs to the shard's thread.
class SliceSet {
 public:
  // `config` must outlive the set. `open_bytes`: factors that ApplyTogether may unpack at once.
  SliceSet(uint32_t shard, const Config& config, size_t open_bytes)
      : shard_(shard), config_(config), open_bytes_(open_bytes) {}
  SliceSet(const SliceSet&) = delete;
  SliceSet& operator=(const SliceSet&) = delete;

  // Makes the shard's slices of the model. After an error the set is as before.
  absl::Status Install(const InstallModel& command);
  // REQUIRES: !has_model().
  absl::Status Restore(const ShardImage& image);
  // Adds the model and the slices to the image. REQUIRES: has_model().
  void Save(ShardImage* image) const;
  std::vector<SliceSnapshot> Snapshot() const;

  bool has_model() const { return model_ != nullptr; }
  size_t size() const { return slices_.size(); }
  const std::vector<SliceState>& all() const { return slices_; }
  // By local index: 0 to size() - 1, in the order of slice ids.
  SliceState& operator[](size_t local) { return slices_[local]; }
  const SliceState& operator[](size_t local) const { return slices_[local]; }
  // The local index of a slice id; nullopt: the slice is on another shard.
  std::optional<uint32_t> Local(uint32_t slice) const;

  // Checks every byte of a message with a push, and opens its payloads: see open_push.h.
  absl::StatusOr<std::vector<SharedPayload>> Open(Message* message) const;
  // Applies one worker's push: each part is an update of its own. `share`: the worker's share of
  // the steps of all workers that push now. `usual_age`: versions that a slice may gain between
  // pull and push without the push being stale. `shown`: by local index; empty: unknown. REQUIRES:
  // `payloads` is from Open.
  void Apply(const Push& push, std::span<const SharedPayload> payloads, float share,
             uint64_t usual_age, std::span<const ShownWeights> shown, UpdateRates rates);
  // The payloads of a push that Open checked before, as a journal has it. They are not open.
  std::vector<SharedPayload> Payloads(const Push& push) const;
  // Applies payloads of several workers as one update, summed in their order. `absent`: workers
  // that are late, with their steps. The mean counts these steps, because the late pushes are added
  // to a later mean. So each push moves the weights as far as if it had come in time. Opens
  // payloads that are not open. REQUIRES: Open has checked the pushes.
  void ApplyTogether(std::vector<WaitingPayload> payloads,
                     const std::map<uint32_t, uint32_t>& absent, const UpdateRates& rates);

  // What the resumed checkpoint has of a worker that has not pushed yet: residuals by slice id, and
  // parts of its program's state.
  std::vector<std::pair<uint32_t, Bytes>> StatesOf(uint32_t worker) const;
  // A part of the state of a program that leaves, for the next checkpoint.
  void KeepProgramPart(uint32_t worker, uint32_t part, const Bytes& bytes);
  // Forgets what StatesOf returns, because the worker has it and pushes now.
  void DropStates(uint32_t worker);
  // Adds to `snapshot` the states of all workers except `but`.
  void AddStates(const std::set<uint32_t>& but, ShardSnapshot* snapshot) const;

  // The present weights, shared, not copied: slice id -> bytes.
  std::vector<std::pair<uint32_t, Bytes>> ShareWeights() const;
  uint64_t weight_bytes() const { return weight_bytes_; }

 private:
  // Applies the payloads of ApplyTogether for one tensor.
  void ApplyTensor(std::span<WaitingPayload> payloads, const std::map<uint32_t, uint32_t>& absent,
                   const UpdateRates& rates);
  // How much an update with this share of all steps counts.
  float ContributionScale(float share) const;

  const uint32_t shard_;
  const Config& config_;
  const size_t open_bytes_;
  const CodecTable codecs_;

  // Constant after Install, except the slices' contents.
  std::shared_ptr<const ModelSpec> model_;
  std::shared_ptr<const Placement> placement_;
  std::unique_ptr<SliceUpdater> updater_;  // outlives the slices, whose memory it pools
  std::vector<SliceState> slices_;
  uint64_t weight_bytes_ = 0;
  std::vector<int64_t> local_;                              // slice id -> index in slices_, or -1
  std::map<uint32_t, std::map<uint32_t, Bytes>> programs_;  // by worker, then by part id
};

}  // namespace psgd
