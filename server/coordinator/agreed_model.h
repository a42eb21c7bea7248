// The model that all workers of a run train, and what else they must have alike: the epochs and the
// size of their data. No IO.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "proto/control.pb.h"
#include "proto/journal.pb.h"
#include "server/coordinator/brought_model.h"
#include "server/coordinator/membership.h"
#include "server/shard/shard_command.h"

namespace psgd {

inline constexpr int64_t kPollMs = 100;  // after this time a waiting worker asks again

// What a run has before its first worker registers.
struct ModelSource {
  bool resumes = false;                                // it goes on from a checkpoint
  std::shared_ptr<const LoadedCheckpoint> checkpoint;  // which has the weights; perhaps null
  std::shared_ptr<const GivenWeights> given;           // of a model that comes from a file
  uint64_t memory = 0;                                 // bytes that shards may take; 0: unknown
};

// For people: what helps if `model`, made of the config now, is not that of the checkpoint that a
// run goes on from. Follows what the difference is. `from_file`: the network is of a file.
std::string AdviceToKeepModel(const ModelSpec& model, const ModelSpec& checkpoint, bool from_file);

// A checkpoint or the first worker fixes the model; all others must have the same. Not thread-safe.
class AgreedModel {
 public:
  AgreedModel(const Config& config, ModelSource source)
      : source_(std::move(source)), config_(config) {}

  // Fixes the model. The shards must make their slices, with hyper-parameters that the caller adds.
  absl::StatusOr<InstallModel> FixAsInCheckpoint(const std::vector<std::string>& endpoints);
  absl::StatusOr<InstallModel> Fix(const RegisterRequest& request,
                                   const std::vector<std::string>& endpoints);
  // What the worker must do before the model is fixed to its own: give its first weights, or wait
  // for another worker that does. Nullopt: nothing.
  absl::StatusOr<std::optional<RegisterReply>> BeforeFix(const RegisterRequest& request,
                                                         const Membership& members);
  // A part of the first weights of the model that this worker brings.
  absl::Status Give(const GiveWeightsRequest& part);

  // Compare a worker with the run, and take what the run does not know yet: the number of samples,
  // the preparation. REQUIRES: the model is fixed; CompareData: CompareModel has returned OK.
  absl::Status CompareModel(const RegisterRequest& request, const std::string& worker);
  absl::Status CompareData(const RegisterRequest& request, const std::string& worker);
  // Takes the epochs from a program whose model came from a checkpoint. False: the epochs are
  // known, or the program leaves them to the run.
  bool TakeEpochs(uint32_t epochs);

  // The shards have new endpoints.
  void MoveShards(const std::vector<std::string>& endpoints);

  // The first worker brings the model (`model: client`).
  bool IsBrought() const { return config_.model().has_client(); }
  // The run's config. If a program brought the model, it has the epochs of that program.
  const Config& config() const { return config_; }
  const ModelSpec* model() const { return model_.get(); }  // null: it is not fixed
  const std::shared_ptr<const Placement>& placement() const { return placement_; }
  uint64_t batches_per_epoch() const { return batches_per_epoch_; }
  uint64_t train_samples() const { return train_samples_; }

  // Saves everything except the model and the placement, which are large.
  void Save(CoordinatorRecord* record) const;
  // REQUIRES: `record` has a model and a placement.
  void Restore(const CoordinatorRecord& record);

 private:
  absl::StatusOr<InstallModel> FixTo(const ModelSpec& model, uint64_t batches_per_epoch,
                                     std::shared_ptr<const GivenWeights> given,
                                     const std::vector<std::string>& endpoints);
  void SetEpochs(uint32_t epochs);

  const ModelSource source_;
  Config config_;
  uint32_t epochs_ = 0;  // from the program that brought the model; 0: those of the config hold
  std::optional<BroughtModel> brought_;
  std::shared_ptr<const ModelSpec> model_;
  std::shared_ptr<const Placement> placement_;
  uint64_t batches_per_epoch_ = 0;
  uint64_t train_samples_ = 0;  // 0: not known
};

}  // namespace psgd
