#include "server/coordinator/agreed_model.h"

#include <utility>

#include "common/units.h"
#include "compression/policy.h"
#include "optimizers/optimizer.h"
#include "proto/parameter_groups.h"
#include "server/shard/check_fragments.h"
#include "server/shard/placement.h"

namespace psgd {
namespace {

// A worker may name any shapes. A model that shards cannot hold must be refused before it is made.
absl::Status CheckFits(const ModelSpec& model, const Config& config, uint64_t memory) {
  double elements = 0;
  for (const ParameterSpec& parameter : model.parameters()) elements += ElementsOf(parameter);
  const int average = config.train().average() > 0 ? 1 : 0;
  const int arrays = 1 + MakeOptimizer(config.optimizer())->state_arrays() + average;
  const double bytes = elements * arrays * sizeof(float);
  if (memory == 0 || bytes <= memory) return absl::OkStatus();
  return ResourceExhaustedError("the model that the worker registers has ",
                                static_cast<uint64_t>(elements),
                                " weights: with the optimizer's state ", HumanBytes(bytes),
                                ", and this run's servers have ", HumanBytes(memory),
                                " of memory left; is it the model that you mean? If so, give the "
                                "run more servers (cluster.servers), or one with more memory");
}

}  // namespace

std::string AdviceToKeepModel(const ModelSpec& model, const ModelSpec& checkpoint, bool from_file) {
  const std::string keep = "; the run goes on from a checkpoint: keep the ";
  if (!from_file) return keep + "model and data it was taken with";
  const std::string file = keep + "file, model.frozen and data it was taken with";
  if (!NamesAdded(model, checkpoint).empty()) {
    return file +
           "; if it is of a version that did not train these weights, name them, as --set "
           "'model.frozen=[NAME]'";
  }
  if (!NamesAdded(checkpoint, model).empty()) {
    return file +
           "; if it is of a version that trained these weights without marks in the file, "
           "go on with that version, or export the network with "
           "torch.onnx.export(..., dynamo=True, optimize=False) for a new run";
  }
  return file;
}

absl::StatusOr<InstallModel> AgreedModel::FixTo(const ModelSpec& model, uint64_t batches_per_epoch,
                                                std::shared_ptr<const GivenWeights> given,
                                                const std::vector<std::string>& endpoints) {
  if (batches_per_epoch == 0 || batches_per_epoch > UINT32_MAX) {
    return InvalidArgumentError(
        "the worker's data give ", batches_per_epoch,
        " batches an epoch; check data.batch against the number of training samples");
  }
  PSGD_RETURN_IF_ERROR(ValidateModel(model));
  PSGD_RETURN_IF_ERROR(CheckFits(model, config_, source_.memory));
  PSGD_RETURN_IF_ERROR(CheckRules(config_.compression(), model));
  PSGD_RETURN_IF_ERROR(CheckGroups("optimizer.groups", config_.optimizer(), model));
  PSGD_RETURN_IF_ERROR(CheckGroups("local.optimizer.groups", config_.local().optimizer(), model));
  if (!source_.checkpoint) {
    PSGD_RETURN_IF_ERROR(CheckGiven(model, given ? *given : GivenWeights()));
  }
  auto placement = std::make_shared<Placement>(PlaceSlices(model, config_));
  PSGD_RETURN_IF_ERROR(CheckFragments(config_.local(), *placement));
  placement->mutable_endpoints()->Add(endpoints.begin(), endpoints.end());
  model_ = std::make_shared<ModelSpec>(model);
  placement_ = std::move(placement);
  batches_per_epoch_ = batches_per_epoch;
  auto parameters = std::make_shared<ModelSpec>(*model_);
  parameters->clear_preparation();  // which would be in the images of all shards
  return InstallModel{std::move(parameters), placement_, source_.checkpoint, {}, std::move(given)};
}

absl::StatusOr<InstallModel> AgreedModel::FixAsInCheckpoint(
    const std::vector<std::string>& endpoints) {
  const CheckpointManifest& manifest = source_.checkpoint->manifest();
  train_samples_ = manifest.train_samples();
  return FixTo(manifest.model(), manifest.batches_per_epoch(), source_.given, endpoints);
}

absl::StatusOr<InstallModel> AgreedModel::Fix(const RegisterRequest& request,
                                              const std::vector<std::string>& endpoints) {
  PSGD_ASSIGN_OR_RETURN(InstallModel install,
                        FixTo(request.model(), request.batches_per_epoch(),
                              brought_ ? brought_->weights() : source_.given, endpoints));
  if (IsBrought()) SetEpochs(request.epochs());
  brought_.reset();
  return install;
}

absl::StatusOr<std::optional<RegisterReply>> AgreedModel::BeforeFix(const RegisterRequest& request,
                                                                    const Membership& members) {
  if (!IsBrought()) return std::nullopt;
  constexpr uint32_t kMostEpochs = 1u << 30;
  if (request.epochs() > kMostEpochs) {
    return InvalidArgumentError("the worker trains for ", request.epochs(), " epochs; at most ",
                                kMostEpochs, " are allowed");
  }
  const bool is_own = brought_ && brought_->from().worker() == request.key().worker();
  if (brought_ && !is_own && members.FindLive(brought_->from()) != nullptr) {
    RegisterReply wait;
    wait.set_wait_ms(kPollMs);
    return wait;
  }
  if (!brought_ || !brought_->IsFrom(request.key(), request.model())) {
    PSGD_RETURN_IF_ERROR(ValidateModel(request.model()));
    PSGD_RETURN_IF_ERROR(CheckFits(request.model(), config_, source_.memory));
    brought_.emplace(request.key(), request.model());
  }
  if (brought_->complete()) return std::nullopt;
  RegisterReply give;
  give.set_give_weights(true);
  return give;
}

absl::Status AgreedModel::Give(const GiveWeightsRequest& part) {
  if (model_ != nullptr) return absl::OkStatus();  // a repeated part of weights that are in use
  if (!brought_ || brought_->from().worker() != part.key().worker()) {
    return FailedPreconditionError("worker ", part.key().worker(),
                                   " gives first weights that it was not asked for; it must "
                                   "register before");
  }
  return brought_->Take(part);
}

absl::Status AgreedModel::CompareModel(const RegisterRequest& request, const std::string& worker) {
  if (train_samples_ == 0) train_samples_ = request.train_samples();
  ModelSpec model = IsBrought() ? WithStartOf(*model_, request.model()) : request.model();
  if (!model.has_preparation() || !model_->has_preparation()) {
    // The model of a program has no preparation, nor has a checkpoint of an earlier version.
    model.clear_preparation();
    if (model_->has_preparation()) *model.mutable_preparation() = model_->preparation();
  }
  if (model.SerializeAsString() != model_->SerializeAsString()) {
    return FailedPreconditionError(
        worker, " built another model than the run's: ", FirstDifference(model, *model_),
        source_.resumes ? AdviceToKeepModel(model, *model_, config_.model().has_onnx())
        : IsBrought()
            ? "; the worker that joined first brought the run's model: start the same program "
              "with the same arguments on all workers"
            : "; do all workers run the same version of psgd?");
  }
  return absl::OkStatus();
}

absl::Status AgreedModel::CompareData(const RegisterRequest& request, const std::string& worker) {
  if (request.epochs() > 0 && request.epochs() != static_cast<uint32_t>(config_.train().epochs())) {
    return FailedPreconditionError(
        worker, " trains for ", request.epochs(), " epochs, and the run for ",
        config_.train().epochs(),
        "; start the same program with the same arguments on all workers");
  }
  if (request.train_samples() != train_samples_ ||
      request.batches_per_epoch() != batches_per_epoch_) {
    return FailedPreconditionError(
        worker, " has ", request.train_samples(), " samples to train on, ",
        request.batches_per_epoch(), " batches an epoch, where the run has ", train_samples_,
        " and ", batches_per_epoch_,
        source_.resumes ? "; the run goes on from a checkpoint: keep the data it "
                          "was taken with"
                        : "; is its copy of the data set complete?");
  }
  if (!IsBrought() && !model_->has_preparation() && request.model().has_preparation()) {
    // The checkpoint of an earlier version has none.
    auto recorded = std::make_shared<ModelSpec>(*model_);
    *recorded->mutable_preparation() = request.model().preparation();
    model_ = std::move(recorded);
  }
  return absl::OkStatus();
}

bool AgreedModel::TakeEpochs(uint32_t epochs) {
  if (!IsBrought() || epochs_ > 0 || epochs == 0) return false;
  SetEpochs(epochs);
  return true;
}

void AgreedModel::SetEpochs(uint32_t epochs) {
  epochs_ = epochs;
  if (epochs_ > 0) config_.mutable_train()->set_epochs(static_cast<int>(epochs_));
}

void AgreedModel::MoveShards(const std::vector<std::string>& endpoints) {
  auto moved = std::make_shared<Placement>(*placement_);
  moved->mutable_endpoints()->Assign(endpoints.begin(), endpoints.end());
  placement_ = std::move(moved);
}

void AgreedModel::Save(CoordinatorRecord* record) const {
  if (model_ != nullptr) {
    record->set_batches_per_epoch(batches_per_epoch_);
    record->set_train_samples(train_samples_);
  }
  record->set_epochs(epochs_);
}

void AgreedModel::Restore(const CoordinatorRecord& record) {
  model_ = std::make_shared<ModelSpec>(record.model());
  placement_ = std::make_shared<Placement>(record.placement());
  batches_per_epoch_ = record.batches_per_epoch();
  train_samples_ = record.train_samples();
  SetEpochs(record.epochs());
}

}  // namespace psgd
