#include "server/coordinator/coordinator_core.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/names.h"
#include "common/units.h"
#include "compression/policy.h"
#include "optimizers/diverged.h"
#include "optimizers/optimizer.h"
#include "optimizers/schedule.h"
#include "proto/local_steps.h"
#include "proto/measure_of.h"
#include "proto/parameter_groups.h"
#include "proto/short_clocks.h"
#include "server/coordinator/changed_hyper.h"
#include "server/coordinator/early_stop.h"
#include "server/shard/placement.h"

namespace psgd {
namespace {

constexpr int kUsualEpochs = 1;   // the default of train.epochs
constexpr int64_t kPollMs = 100;  // after this time a waiting worker asks again

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

// Of a program that brings its epochs. A config with the default need not name any.
std::string EpochsNote(const TrainConfig& config, uint32_t epochs) {
  if (epochs == 0 || config.epochs() == static_cast<int>(epochs)) return "";
  if (config.epochs() == kUsualEpochs) return "";
  return absl::StrCat("the program says how many epochs there are, ", epochs,
                      " (run.epochs), and train.epochs: ", config.epochs(),
                      " of the config does nothing; leave one of them out");
}

// What helps if a worker's model is not that of the checkpoint.
std::string ResumeAdvice(const ModelSpec& model, const ModelSpec& checkpoint, bool from_file) {
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

}  // namespace

LedgerOptions LedgerOptionsFor(const Config& config, uint64_t batches_per_epoch) {
  LedgerOptions options;
  options.epochs = config.train().epochs();
  options.batches_per_epoch = static_cast<uint32_t>(batches_per_epoch);
  options.segment_clocks = config.cluster().segment();
  options.max_steps = static_cast<uint64_t>(config.train().max_steps());
  return options;
}

CoordinatorCore::CoordinatorCore(CoordinatorOptions options)
    : options_(std::move(options)),
      config_(options_.config),
      members_(Milliseconds(config_.cluster().lease()), options_.first_incarnation),
      checkpoints_(config_.durability().checkpoint()),
      hyper_(FirstHyper(config_.optimizer())) {
  if (options_.resume) {
    const CoordinatorSnapshot& resume = *options_.resume;
    loads_state_ = true;
    checkpoints_.GoOnFrom(std::max(resume.checkpoint, options_.last_checkpoint), resume.position);
    // Changes made during the run stay in force, unless the config was changed since.
    const bool same_optimizer =
        !options_.checkpoint ||
        options_.checkpoint->manifest().config().optimizer().SerializeAsString() ==
            config_.optimizer().SerializeAsString();
    if (same_optimizer && resume.hyper.version() > hyper_.version()) hyper_ = resume.hyper;
    totals_.GoOnFrom(resume.total, resume.evaluations);
    totals_.SetPart(resume.checkpoint, std::max(resume.checkpoint, options_.last_checkpoint) + 1);
    if (options_.checkpoint) EvaluateCheckpoint(options_.checkpoint->manifest());
  }
}

void CoordinatorCore::EvaluateCheckpoint(const CheckpointManifest& manifest) {
  const bool counts =
      config_.train().early_stop().patience() > 0 || config_.durability().keep_best();
  const double epoch = manifest.epoch_progress();
  if (!counts || EvaluatesByItself() || epoch == 0 || epoch != std::floor(epoch)) return;
  if (EvaluationAt(epoch, totals_.evaluations()) != nullptr) return;
  pending_evaluations_.Add(/*after_segment=*/0, epoch, epoch);
}

absl::StatusOr<JoinReply> CoordinatorCore::Join(const JoinRequest& request, Time now,
                                                Effects* effects) {
  if (over() || draining_) {
    return FailedPreconditionError(
        "the run ", config_.name(), " is ", over() ? "over" : "draining",
        " and takes no more workers; start a new run, or resume it with ps-run --resume");
  }
  JoinReply reply;
  if (const MemberState* already = members_.JoinedBy(request.attempt())) {
    *reply.mutable_key() = already->record.key();
  } else {
    std::optional<uint32_t> wanted;
    const auto workers = static_cast<uint32_t>(config_.cluster().workers());
    if (request.wanted() > 0 && request.wanted() <= workers) wanted = request.wanted() - 1;
    MemberState& member = members_.Join(request.name(), request.device(), now, wanted);
    member.record.set_attempt(request.attempt());
    member.record.set_joined_after(ledger_ ? ledger_->latest() : 0);
    totals_.Start(now);
    effects->commands.push_back(AdmitWorker{member.record.key()});
    effects->news.push_back(absl::StrCat("worker ", member.record.key().worker(), " joined: ",
                                         member.record.name(), ", ", member.record.device()));
    *reply.mutable_key() = member.record.key();
  }
  *reply.mutable_config() = config_;
  reply.set_lease_ms(config_.cluster().lease());
  reply.set_run_name(config_.name());
  return reply;
}

absl::Status CoordinatorCore::FixModel(const ModelSpec& model, uint64_t batches_per_epoch,
                                       std::shared_ptr<const GivenWeights> given,
                                       const std::vector<std::string>& endpoints,
                                       Effects* effects) {
  if (batches_per_epoch == 0 || batches_per_epoch > UINT32_MAX) {
    return InvalidArgumentError(
        "the worker's data give ", batches_per_epoch,
        " batches an epoch; check data.batch against the number of training samples");
  }
  PSGD_RETURN_IF_ERROR(ValidateModel(model));
  PSGD_RETURN_IF_ERROR(CheckFits(model, config_, options_.memory));
  PSGD_RETURN_IF_ERROR(CheckRules(config_.compression(), model));
  PSGD_RETURN_IF_ERROR(CheckGroups("optimizer.groups", config_.optimizer(), model));
  PSGD_RETURN_IF_ERROR(CheckGroups("local.optimizer.groups", config_.local().optimizer(), model));
  if (!options_.checkpoint) {
    PSGD_RETURN_IF_ERROR(CheckGiven(model, given ? *given : GivenWeights()));
  }
  auto placement = std::make_shared<Placement>(
      PlaceSlices(model, config_.cluster().shards(), config_.cluster().slice()));
  if (config_.local().fragments() > placement->slices_size()) {
    return InvalidArgumentError(
        "local.fragments is ", config_.local().fragments(), ", and the model has only ",
        placement->slices_size(),
        " slices, of which each exchange carries at least one: lower local.fragments");
  }
  placement->mutable_endpoints()->Add(endpoints.begin(), endpoints.end());
  model_ = std::make_shared<ModelSpec>(model);
  placement_ = std::move(placement);
  batches_per_epoch_ = batches_per_epoch;
  const LedgerOptions ledger = LedgerOptionsFor(config_, batches_per_epoch_);
  if (options_.resume) {
    ledger_.emplace(ledger, options_.resume->position);
    effects->news.push_back(absl::StrCat("resuming from checkpoint ", options_.resume->checkpoint,
                                         " at epoch ", ledger_->EpochProgress(), ", clock ",
                                         ledger_->position().clock));
  } else {
    ledger_.emplace(ledger);
  }
  auto parameters = std::make_shared<ModelSpec>(*model_);
  parameters->clear_preparation();  // which would be in the images of all shards
  effects->commands.push_back(InstallModel{std::move(parameters), placement_, options_.checkpoint,
                                           hyper_, std::move(given)});
  totals_.Note(LeftOutText(config_.compression(), *model_));
  totals_.Note(FullDensityText(config_.compression()));
  return absl::OkStatus();
}

absl::Status CoordinatorCore::Resume(const std::vector<std::string>& endpoints, Effects* effects) {
  const CheckpointManifest& manifest = options_.checkpoint->manifest();
  train_samples_ = manifest.train_samples();
  return FixModel(manifest.model(), manifest.batches_per_epoch(), options_.given, endpoints,
                  effects);
}

absl::StatusOr<RegisterReply> CoordinatorCore::Register(const RegisterRequest& request,
                                                        const std::vector<std::string>& endpoints,
                                                        Time now, Effects* effects) {
  PSGD_ASSIGN_OR_RETURN(MemberState * member, members_.Touch(request.key(), now));
  const bool brings = config_.model().has_client();
  if (model_ == nullptr) {
    std::shared_ptr<const GivenWeights> given = options_.given;
    if (brings) {
      PSGD_ASSIGN_OR_RETURN(const auto first, TakeBroughtModel(request));
      if (first) return *first;
      given = brought_->weights();
    }
    const Config before = config_;
    if (brings && request.epochs() > 0)
      config_.mutable_train()->set_epochs(static_cast<int>(request.epochs()));
    const absl::Status fixed = FixModel(request.model(), request.batches_per_epoch(),
                                        std::move(given), endpoints, effects);
    if (!fixed.ok()) {
      config_ = before;
      return fixed;
    }
    if (brings) epochs_ = request.epochs();
    if (brings) totals_.Note(EpochsNote(before.train(), request.epochs()));
    brought_.reset();
  }
  if (train_samples_ == 0) train_samples_ = request.train_samples();
  ModelSpec model = brings ? WithStartOf(*model_, request.model()) : request.model();
  if (!model.has_preparation() || !model_->has_preparation()) {
    // Of a program's model, or of a checkpoint of an earlier version.
    model.clear_preparation();
    if (model_->has_preparation()) *model.mutable_preparation() = model_->preparation();
  }
  if (model.SerializeAsString() != model_->SerializeAsString()) {
    return FailedPreconditionError(
        "worker ", member->record.key().worker(), " (", member->record.name(),
        ") built another model than the run's: ", FirstDifference(model, *model_),
        options_.resume ? ResumeAdvice(model, *model_, config_.model().has_onnx())
        : brings ? "; the worker that joined first brought the run's model: start the same program "
                   "with the same arguments on all workers"
                 : "; do all workers run the same version of psgd?");
  }
  // A checkpoint brings the model, and its program the epochs.
  if (brings && options_.resume && epochs_ == 0 && state_ == StatusReply::WAITING) {
    epochs_ = request.epochs();
    if (epochs_ > 0) config_.mutable_train()->set_epochs(static_cast<int>(epochs_));
    ledger_.emplace(LedgerOptionsFor(config_, batches_per_epoch_), options_.resume->position);
  }
  if (request.epochs() > 0 && request.epochs() != static_cast<uint32_t>(config_.train().epochs())) {
    return FailedPreconditionError(
        "worker ", member->record.key().worker(), " (", member->record.name(), ") trains for ",
        request.epochs(), " epochs, and the run for ", config_.train().epochs(),
        "; start the same program with the same arguments on all workers");
  }
  if (request.train_samples() != train_samples_ ||
      request.batches_per_epoch() != batches_per_epoch_) {
    return FailedPreconditionError("worker ", member->record.key().worker(), " (",
                                   member->record.name(), ") has ", request.train_samples(),
                                   " samples to train on, ", request.batches_per_epoch(),
                                   " batches an epoch, where the run has ", train_samples_, " and ",
                                   batches_per_epoch_, "; is its copy of the data set complete?");
  }
  if (!brings && !model_->has_preparation() && request.model().has_preparation()) {
    // The checkpoint of an earlier version has none.
    auto recorded = std::make_shared<ModelSpec>(*model_);
    *recorded->mutable_preparation() = request.model().preparation();
    model_ = std::move(recorded);
  }
  member->record.set_registered(true);
  RegisterReply reply;
  reply.set_epochs(static_cast<uint32_t>(config_.train().epochs()));
  *reply.mutable_placement() = *placement_;
  *reply.mutable_hyper() = hyper_;
  return reply;
}

absl::StatusOr<std::optional<RegisterReply>> CoordinatorCore::TakeBroughtModel(
    const RegisterRequest& request) {
  constexpr uint32_t kMostEpochs = 1u << 30;
  if (request.epochs() > kMostEpochs) {
    return InvalidArgumentError("the worker trains for ", request.epochs(), " epochs; at most ",
                                kMostEpochs, " are allowed");
  }
  const auto is_live = [&](const WorkerKey& key) {
    const MemberState* member = members_.Find(key.worker());
    return member != nullptr && member->record.live() &&
           member->record.key().incarnation() == key.incarnation();
  };
  const bool is_own = brought_ && brought_->from().worker() == request.key().worker();
  if (brought_ && !is_own && is_live(brought_->from())) {
    RegisterReply wait;
    wait.set_wait_ms(kPollMs);
    return wait;
  }
  if (!brought_ || !brought_->IsFrom(request.key(), request.model())) {
    PSGD_RETURN_IF_ERROR(ValidateModel(request.model()));
    PSGD_RETURN_IF_ERROR(CheckFits(request.model(), config_, options_.memory));
    brought_.emplace(request.key(), request.model());
  }
  if (brought_->complete()) return std::nullopt;
  RegisterReply give;
  give.set_give_weights(true);
  return give;
}

absl::Status CoordinatorCore::GiveWeights(const GiveWeightsRequest& request, Time now) {
  PSGD_ASSIGN_OR_RETURN(const MemberState* member, members_.Touch(request.key(), now));
  if (model_ != nullptr) return absl::OkStatus();  // a repeated part of weights that are in use
  if (!brought_ || brought_->from().worker() != member->record.key().worker()) {
    return FailedPreconditionError("worker ", member->record.key().worker(),
                                   " gives first weights that it was not asked for; it must "
                                   "register before");
  }
  return brought_->Take(request);
}

absl::StatusOr<HeartbeatReply> CoordinatorCore::Heartbeat(const HeartbeatRequest& request,
                                                          Time now) {
  PSGD_ASSIGN_OR_RETURN(MemberState * member, members_.Touch(request.key(), now));
  // The worker is in a segment that this record does not know.
  if (const uint64_t dealt = ledger_ ? ledger_->position().clock : 0;
      request.report().clock() > dealt) {
    return DataLossError("worker ", member->record.key().worker(), " has done clock ",
                         request.report().clock(), ", and the coordinator has dealt those up to ",
                         dealt,
                         ": did the server's machine lose power? Go on from the last checkpoint "
                         "with ps-run --resume");
  }
  HeartbeatReply reply;
  *reply.mutable_hyper() = hyper_;
  // A run that stops early finishes what is dealt. A program's share is the whole epoch: it leaves.
  reply.set_drain(draining_ && (!stopped_early_ || EvaluatesByItself()));
  reply.set_leave(member->record.leaving());
  if (HasCounted(request)) return reply;
  member->record.set_reports(request.number());
  const WorkerReport& report = request.report();
  totals_.Count(report);
  for (const std::string& note : report.notes()) totals_.Note(note);
  member->Count(report, now);
  SetResidual(*member, report.residual_norm());
  return reply;
}

bool CoordinatorCore::HasCounted(const HeartbeatRequest& request) const {
  const MemberState* const member = members_.Find(request.key().worker());
  return member != nullptr && member->record.key().incarnation() == request.key().incarnation() &&
         request.number() > 0 && request.number() <= member->record.reports();
}

absl::Status CoordinatorCore::Leave(const LeaveRequest& request, Time now, Effects* effects) {
  PSGD_ASSIGN_OR_RETURN(MemberState * member, members_.Touch(request.key(), now));
  if (request.has_residual_norm()) SetResidual(*member, request.residual_norm());
  Remove(member->record.key().worker(),
         absl::StrCat(request.failed() ? "failed: " : "left: ", request.reason()), effects);
  return absl::OkStatus();
}

void CoordinatorCore::SetResidual(MemberState& member, double norm) {
  const double sound = std::isfinite(norm) && norm > 0 ? norm : 0;
  if (member.record.residual_norm() == sound) return;
  member.record.set_residual_norm(sound);
  double squares = 0;
  for (const auto& [worker, other] : members_.all()) {
    squares += other.record.residual_norm() * other.record.residual_norm();
  }
  totals_.SetResidual(std::sqrt(squares));
}

void CoordinatorCore::CountLostResidual(MemberState& member, Effects* effects) {
  // If the run is over, its last checkpoint holds the residual.
  if (over() || member.record.residual_norm() == 0) return;
  effects->news.push_back(absl::StrCat("a residual of norm ", member.record.residual_norm(),
                                       " is lost with worker ", member.record.key().worker()));
  totals_.CountLostResidual(member.record.residual_norm());
  SetResidual(member, 0);
}

void CoordinatorCore::Remove(uint32_t worker, const std::string& note, Effects* effects) {
  const MemberState* member = members_.Find(worker);
  const WorkerKey key = member->record.key();
  if (ledger_) GiveBack(worker, member->record.clock());
  members_.Leave(worker, note);
  pending_evaluations_.Release(worker);
  effects->commands.push_back(RemoveWorker{key});
  effects->news.push_back(
      absl::StrCat("worker ", worker, " (", member->record.name(), ") is out: ", note));
  CountLostResidual(*members_.Find(worker), effects);
  if (state_ == StatusReply::TRAINING && members_.Ready().empty() && !draining_) {
    effects->news.push_back(
        "no worker is left; the run waits: start ps-worker again, or stop the server");
  }
}

void CoordinatorCore::Quarantine(const QuarantinedWorker& worker, Effects* effects) {
  const uint32_t number = worker.key.worker();
  const MemberState* member = members_.Find(number);
  if (member == nullptr || !member->record.live() ||
      member->record.key().incarnation() != worker.key.incarnation()) {
    return;
  }
  const std::vector<uint32_t> ready = members_.Ready();
  if (ready.size() == 1 && ready[0] == number) {
    DrainRequest alone;
    alone.set_failed(true);
    alone.set_reason(absl::StrCat(
        worker.not_finite ? absl::StrCat(DivergedText(config_), ". In detail: ") : "",
        "no worker is left that sends sound updates; worker ", number, ": ", worker.why));
    Drain(alone, effects);
  }
  Remove(number, absl::StrCat("quarantined: ", worker.why), effects);
}

void CoordinatorCore::Tick(Time now, Effects* effects) {
  for (uint32_t worker : members_.Expired(now)) {
    const double silent = Seconds(now - members_.Find(worker)->last_heard);
    Remove(worker,
           absl::StrCat("not heard of for ", static_cast<int64_t>(silent + 0.5),
                        " s (cluster.lease); it was killed, or its host or network is down; the "
                        "others go on, and a new ps-worker may take its place"),
           effects);
  }
  // No worker is left to finish a drain, and none is needed: the shards make the last checkpoint by
  // themselves.
  if (draining_ && !over() && members_.Ready().empty() && LastCheckpointTaken(effects)) {
    EndRun(now);
    effects->news.push_back("drained: no worker is left");
  }
}

absl::StatusOr<uint64_t> CoordinatorCore::RequestCheckpoint(const std::string& name) {
  if (state_ != StatusReply::TRAINING) {
    return FailedPreconditionError("no checkpoint can be taken: the run is ",
                                   state_ == StatusReply::WAITING
                                       ? "still waiting for its first workers"
                                       : "at its end, which takes one by itself");
  }
  return checkpoints_.Request(name);
}

void CoordinatorCore::EndRun(Time now) {
  state_ = drain_failed_ ? StatusReply::FAILED : StatusReply::FINISHED;
  totals_.End(now);
}

void CoordinatorCore::Drain(const DrainRequest& request, Effects* effects) {
  // A failure counts also in a run that ends early, and so does a wish to end at once.
  if (over() || (draining_ && !stopped_early_)) return;
  stopped_early_ = false;
  draining_ = true;
  drain_failed_ = request.failed();
  drain_reason_ = request.reason().empty() ? "asked to" : request.reason();
  if (state_ == StatusReply::TRAINING) state_ = StatusReply::DRAINING;
  effects->news.push_back(absl::StrCat("draining: ", drain_reason_));
}

void CoordinatorCore::StopEarly(std::string reason, Effects* effects) {
  stopped_early_ = draining_ = true;
  drain_reason_ = std::move(reason);
  if (state_ == StatusReply::TRAINING) state_ = StatusReply::DRAINING;
  effects->news.push_back(absl::StrCat("stops early: ", drain_reason_));
}

absl::Status CoordinatorCore::DrainWorker(uint32_t worker, Effects* effects) {
  MemberState* member = members_.Find(worker);
  if (member == nullptr || !member->record.live()) {
    return NotFoundError("there is no worker ", worker, " in this run",
                         member == nullptr ? "" : " any more",
                         "; ps-ctl status lists those that there are");
  }
  if (over() || draining_ || member->record.leaving()) return absl::OkStatus();
  member->record.set_leaving(true);
  effects->news.push_back(
      absl::StrCat("worker ", worker, " (", member->record.name(), ") is asked to leave"));
  return absl::OkStatus();
}

absl::StatusOr<HyperParameters> CoordinatorCore::SetHyper(const SetHyperRequest& request,
                                                          Effects* effects) {
  PSGD_ASSIGN_OR_RETURN(HyperParameters changed, ChangedHyper(hyper_, request, config_));
  changed.set_version(hyper_.version() + 1);
  hyper_ = changed;
  effects->commands.push_back(ChangeHyper{hyper_});
  effects->news.push_back(absl::StrCat("hyper-parameters version ", hyper_.version(),
                                       ": learning rate ", hyper_.learning_rate(),
                                       ", weight decay ", hyper_.weight_decay()));
  return hyper_;
}

namespace {

// A worker that joined later counts as past earlier segments: it may stand in for the workers that
// finished them, who may be gone.
uint64_t PastSegment(const MemberState& member) {
  return std::max(member.record.finished_segment(), member.record.joined_after());
}

// Measures become names of metrics and keys in files.
absl::Status CheckMeasures(const EvalResult& result) {
  if (result.measures_size() > kMostMeasures) {
    return InvalidArgumentError("more than ", kMostMeasures, " measures in an evaluation");
  }
  for (const auto& [name, value] : result.measures()) {
    const bool plain = std::ranges::all_of(
        name, [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_'; });
    if (!plain || name.empty() || name.size() > kLongestName) {
      return InvalidArgumentError("a measure of an evaluation is called \"", Readable(name),
                                  "\"; names are 1 to ", kLongestName,
                                  " lower-case letters, digits and _: call it something else");
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool CoordinatorCore::RunsIn(uint32_t worker, uint64_t segment) const {
  const MemberState* member = members_.Find(worker);
  const Segment* found = ledger_->Find(segment);
  if (member == nullptr || found == nullptr || segment <= member->record.joined_after())
    return false;
  const auto& workers = found->workers();
  return std::ranges::binary_search(workers, worker);  // the ledger's workers are ascending
}

void CoordinatorCore::GiveBack(uint32_t worker, uint64_t clock) {
  for (const ReturnedBatch& batch : ledger_->Return(worker, clock)) checkpoints_.GiveBack(batch);
}

bool CoordinatorCore::AllFinished(uint64_t segment) const {
  for (uint32_t worker : members_.Ready()) {
    if (RunsIn(worker, segment) && members_.Find(worker)->record.finished_segment() < segment)
      return false;
  }
  return true;
}

void CoordinatorCore::StartCheckpoint(bool last, Effects* effects) {
  CoordinatorSnapshot state;
  state.position = ledger_->position();
  state.hyper = hyper_;
  state.total = totals_.sum();
  state.evaluations = totals_.evaluations();
  const uint64_t after = ledger_->latest();
  const uint64_t id = checkpoints_.Begin(std::move(state), after, last);
  TakeCheckpoint command{id, ledger_->position().clock, {}};
  for (uint32_t worker : members_.Ready()) {
    if (RunsIn(worker, after)) command.savers.push_back(members_.Find(worker)->record.key());
  }
  effects->commands.push_back(std::move(command));
}

void CoordinatorCore::CheckpointDone(uint64_t id, const absl::Status& status, Effects* effects) {
  if (!checkpoints_.End(id)) return;
  if (status.ok()) {
    effects->news.push_back(absl::StrCat("checkpoint ", id, " is complete"));
  } else {
    effects->news.push_back(absl::StrCat("checkpoint ", id, " failed: ", status.message()));
  }
}

void CoordinatorCore::OpenBoundary(Effects* effects) {
  const uint64_t ending = ledger_->latest();
  const bool over = draining_ || ledger_->Finished();
  const bool may_be_best =
      config_.durability().keep_best() && ending != 0 && ledger_->EndsEpoch(ending);
  // The checkpoint of these weights waits for the one that is being written; workers ask again.
  if (!over && may_be_best && checkpoints_.under_way()) return;
  if (ending != 0 && (over || ledger_->EndsEpoch(ending)) && !EvaluatesByItself()) {
    const double epoch = ledger_->Find(ending)->epoch() + 1;
    // Returned batches make an epoch end a second time: the later end counts.
    pending_evaluations_.Add(ending, ledger_->EndsEpoch(ending) ? epoch : ledger_->EpochProgress(),
                             epoch);
  }
  if (over) {
    all_dealt_ = true;
    return;
  }
  if (ending != 0 && (may_be_best || checkpoints_.Due(ledger_->position(), batches_per_epoch_))) {
    StartCheckpoint(/*last=*/false, effects);
  }
  const std::vector<uint32_t> workers = members_.Ready();
  if (auto segment = ledger_->Deal(workers, StepsOf(workers))) {
    state_ = StatusReply::TRAINING;
    effects->commands.push_back(BeginSegment{*segment});
    std::string cut = ShortClocksText(config_.local(), batches_per_epoch_, workers.size());
    if (ending == 0 && !cut.empty()) effects->news.push_back(std::move(cut));
  }
}

std::vector<uint32_t> CoordinatorCore::StepsOf(const std::vector<uint32_t>& workers) const {
  const LocalConfig& local = config_.local();
  if (!TakesLocalSteps(local)) return {};
  const LedgerPosition& position = ledger_->position();
  const double left =
      RateLeft(local.schedule(),
               {.epoch = ledger_->EpochProgress(),
                .step = position.steps,
                .epochs_per_step = static_cast<double>(workers.size()) / batches_per_epoch_,
                .total_epochs = static_cast<double>(config_.train().epochs())});
  const uint32_t most = StepsOfClock(local, left);
  std::vector<uint32_t> steps(workers.size(), most);
  if (local.steps() != 0) return steps;
  double fastest = 0;
  for (const uint32_t worker : workers) {
    fastest = std::max(fastest, members_.Find(worker)->StepsPerSecond());
  }
  for (size_t i = 0; i < workers.size(); ++i) {
    const double speed = members_.Find(workers[i])->StepsPerSecond();
    if (speed == 0) continue;  // it has computed nothing yet
    steps[i] = std::max(1u, static_cast<uint32_t>(std::lround(most * speed / fastest)));
  }
  return steps;
}

bool CoordinatorCore::NobodyIsAhead(const MemberState& member) const {
  for (uint32_t worker : members_.Ready()) {
    if (members_.Find(worker)->record.finished_segment() > PastSegment(member)) return false;
  }
  return true;
}

void CoordinatorCore::AssignEvaluation(const MemberState& member, NextSegmentReply* reply) {
  // The last worker that finishes an epoch evaluates it: others may have finished more, but wait
  // for this worker's next step, so these are the weights of the epoch's end. Where nobody waits, a
  // slow worker would fall further behind with each evaluation.
  const ConsistencyConfig& consistency = config_.consistency();
  const bool others_wait = consistency.staleness() >= 0 && consistency.quorum() == 0;
  const bool may_evaluate = others_wait || NobodyIsAhead(member);
  const WorkerKey& key = member.record.key();
  const auto epoch = pending_evaluations_.Assign(key, [&](uint64_t after) {
    // If all workers that finished the segment are gone, a worker that was not there stands in.
    const bool past = PastSegment(member) >= after || !RunsIn(key.worker(), after);
    return may_evaluate && past && AllFinished(after);
  });
  if (!epoch) return;
  reply->set_evaluate(true);
  reply->set_evaluate_epoch(*epoch);
}

NextSegmentReply CoordinatorCore::Wait(std::string reason) const {
  NextSegmentReply reply;
  reply.set_kind(NextSegmentReply::WAIT);
  reply.set_wait_ms(kPollMs);
  reply.set_reason(std::move(reason));
  return reply;
}

absl::StatusOr<NextSegmentReply> CoordinatorCore::NextSegment(const NextSegmentRequest& request,
                                                              Time now, Effects* effects) {
  PSGD_ASSIGN_OR_RETURN(MemberState * member, members_.Touch(request.key(), now));
  if (!member->record.registered()) {
    return FailedPreconditionError("worker ", member->record.key().worker(),
                                   " asked for work before it registered");
  }
  const uint32_t worker = member->record.key().worker();
  uint64_t after = member->record.joined_after();
  if (!request.first()) {
    const Segment* finished = ledger_->Find(request.finished_segment());
    if (finished == nullptr || !RunsIn(worker, finished->id())) {
      return InvalidArgumentError("worker ", worker, " says it finished segment ",
                                  request.finished_segment(), ", which was not dealt to it");
    }
    after = finished->id();
    member->record.set_finished_segment(std::max(member->record.finished_segment(), after));
    member->record.set_clock(
        std::max(member->record.clock(), finished->first_clock() + finished->clocks()));
    uint64_t oldest = after;
    for (uint32_t other : members_.Ready()) {
      oldest = std::min(oldest, members_.Find(other)->record.finished_segment());
    }
    if (oldest > 1) ledger_->Forget(oldest - 1);
  }

  const size_t wanted = static_cast<size_t>(config_.cluster().workers());
  const bool begun = ledger_->latest() != 0 || all_dealt_ || draining_;
  if (!begun && members_.Ready().size() < wanted) {
    return Wait(absl::StrCat("waiting for workers: ", members_.Ready().size(), " of ", wanted,
                             " are here"));
  }
  const bool caught_up = after == ledger_->latest() && !request.first();
  if (ledger_->latest() == 0 || caught_up || AllFinished(ledger_->latest())) {
    if (!all_dealt_ || !(draining_ || ledger_->Finished())) {
      all_dealt_ = false;
      OpenBoundary(effects);
    }
  }

  NextSegmentReply reply = Wait("waiting for the next segment to begin");
  for (uint64_t id = after + 1; id <= ledger_->latest(); ++id) {
    if (!RunsIn(worker, id)) continue;
    reply.set_kind(NextSegmentReply::RUN);
    reply.clear_reason();
    *reply.mutable_segment() = ShareOf(*ledger_->Find(id), worker);
    break;
  }
  AssignEvaluation(*member, &reply);
  if (reply.kind() == NextSegmentReply::WAIT && all_dealt_)
    reply = Finish(now, effects, std::move(reply));
  if (!request.first() && checkpoints_.EndsAfter(after)) {
    reply.set_save_state_for(checkpoints_.under_way()->checkpoint);
  }
  reply.set_load_state(request.first() && loads_state_);
  return reply;
}

NextSegmentReply CoordinatorCore::Finish(Time now, Effects* effects, NextSegmentReply reply) {
  if (!AllFinished(ledger_->latest())) {
    reply.set_reason("waiting for the other workers to finish");
    return reply;
  }
  if (!pending_evaluations_.empty()) {
    reply.set_reason("waiting for the last evaluation");
    return reply;
  }
  if (!LastCheckpointTaken(effects)) {
    reply.set_reason("waiting for the last checkpoint");
    return reply;
  }
  if (!over()) EndRun(now);
  reply.set_kind(NextSegmentReply::DONE);
  reply.set_reason(draining_ ? drain_reason_ : "every epoch is done");
  return reply;
}

bool CoordinatorCore::LastCheckpointTaken(Effects* effects) {
  if (checkpoints_.LacksLast() && ledger_ && ledger_->latest() != 0) {
    StartCheckpoint(/*last=*/true, effects);
  }
  return !checkpoints_.under_way();
}

bool CoordinatorCore::HasEvaluation(const EvalResult& result) const {
  if (!EvaluatesByItself()) return false;
  // Within an epoch other workers go on after each result.
  const bool of_whole = ledger_ && result.epoch() == std::floor(result.epoch());
  return std::ranges::any_of(totals_.evaluations(), [&](const EvalResult& counted) {
    return counted.epoch() == result.epoch() &&
           !(of_whole && ledger_->WentOn(static_cast<uint32_t>(result.epoch() - 1), counted.clock(),
                                         result.clock()));
  });
}

absl::Status CoordinatorCore::Evaluated(const EvaluatedRequest& request, Time now,
                                        Effects* effects) {
  PSGD_ASSIGN_OR_RETURN(MemberState * member, members_.Touch(request.key(), now));
  PSGD_RETURN_IF_ERROR(CheckMeasures(request.result()));
  if (EvaluatesByItself()) {
    const bool sound = ledger_ && request.result().epoch() > 0 &&
                       request.result().epoch() <= config_.train().epochs();
    if (!sound) {
      return InvalidArgumentError("results after epoch ", request.result().epoch(), " of a run of ",
                                  config_.train().epochs());
    }
    if (HasEvaluation(request.result())) return absl::OkStatus();  // the first one stands
    return CountEvaluation(request.result(), effects);
  }
  const uint32_t worker = member->record.key().worker();
  // The result came twice: the first one stands.
  if (!pending_evaluations_.Done(worker, request.result().epoch())) return absl::OkStatus();
  return CountEvaluation(request.result(), effects);
}

absl::Status CoordinatorCore::CountEvaluation(const EvalResult& result, Effects* effects) {
  totals_.CountEvaluation(result);
  effects->news.push_back(absl::StrFormat("epoch %g: test %s", result.epoch(), ResultText(result)));
  const auto why = WhyStopEarly(config_.train().early_stop(), totals_.evaluations());
  if (why && !draining_ && !over() && !ledger_->Finished()) {
    StopEarly(*why, effects);
  }
  return absl::OkStatus();
}

CoordinatorRecord CoordinatorCore::Save(Time now) const {
  CoordinatorRecord record = SaveWithoutPlan(now);
  if (model_ != nullptr) {
    *record.mutable_model() = *model_;
    *record.mutable_placement() = *placement_;
  }
  return record;
}

CoordinatorRecord CoordinatorCore::SaveWithoutPlan(Time now) const {
  CoordinatorRecord record;
  if (model_ != nullptr) {
    record.set_batches_per_epoch(batches_per_epoch_);
    record.set_train_samples(train_samples_);
    *record.mutable_ledger() = ledger_->Save();
  }
  *record.mutable_hyper() = hyper_;
  members_.Save(&record);
  record.set_state(state_);
  record.set_draining(draining_);
  record.set_drain_failed(drain_failed_);
  record.set_drain_reason(drain_reason_);
  record.set_stopped_early(stopped_early_);
  record.set_all_dealt(all_dealt_);
  checkpoints_.Save(&record);
  pending_evaluations_.Save(&record);
  totals_.Save(now, &record);
  record.set_loads_state(loads_state_);
  record.set_epochs(epochs_);
  return record;
}

void CoordinatorCore::Restore(const CoordinatorRecord& record, Time now) {
  model_ = std::make_shared<ModelSpec>(record.model());
  placement_ = std::make_shared<Placement>(record.placement());
  batches_per_epoch_ = record.batches_per_epoch();
  train_samples_ = record.train_samples();
  epochs_ = record.epochs();
  if (epochs_ > 0) config_.mutable_train()->set_epochs(static_cast<int>(epochs_));
  ledger_.emplace(LedgerOptionsFor(config_, batches_per_epoch_), record.ledger());
  hyper_ = record.hyper();
  members_.Restore(record, now);
  state_ = record.state();
  draining_ = record.draining();
  drain_failed_ = record.drain_failed();
  drain_reason_ = record.drain_reason();
  stopped_early_ = record.stopped_early();
  all_dealt_ = record.all_dealt();
  checkpoints_.Restore(record);
  pending_evaluations_.Restore(record);
  totals_.Restore(record, now);
  loads_state_ = record.loads_state();
}

void CoordinatorCore::MoveShards(const std::vector<std::string>& endpoints) {
  auto moved = std::make_shared<Placement>(*placement_);
  moved->mutable_endpoints()->Assign(endpoints.begin(), endpoints.end());
  placement_ = std::move(moved);
}

std::vector<std::string> CoordinatorCore::NamesOfTraining(std::span<const uint32_t> workers) const {
  std::vector<uint32_t> training;
  std::ranges::copy_if(workers, std::back_inserter(training),
                       [&](uint32_t worker) { return !pending_evaluations_.Evaluates(worker); });
  return NamesOfLive(training);
}

std::vector<std::string> CoordinatorCore::NamesOfLive(std::span<const uint32_t> workers) const {
  std::vector<std::string> names;
  for (const uint32_t worker : workers) {
    const MemberState* const member = members_.Find(worker);
    if (member == nullptr || !member->record.live()) continue;
    names.push_back(absl::StrCat("worker ", worker, " (", member->record.name(), ")"));
  }
  return names;
}

Time CoordinatorCore::LastHeard(uint32_t worker) const {
  const MemberState* const member = members_.Find(worker);
  return member == nullptr ? Time::max() : member->last_heard;
}

ShardStatus CoordinatorCore::LateAtTheEnd() const {
  ShardStatus late;
  if (!ledger_) return late;
  const uint64_t last = ledger_->latest();
  const bool all_finished = AllFinished(last);
  const std::vector<uint32_t> ready = members_.Ready();
  uint64_t slowest = ready.empty() ? 0 : UINT64_MAX;
  for (const uint32_t worker : ready) {
    const CoordinatorMemberRecord& member = members_.Find(worker)->record;
    slowest = std::min(slowest, member.clock());
    const bool runs = RunsIn(worker, last) && member.finished_segment() < last;
    if (all_dealt_ && (all_finished ? pending_evaluations_.Evaluates(worker) : runs))
      late.add_late_workers(worker);
  }
  late.set_slowest_clock(slowest);
  // The others wait.
  if (late.late_workers_size() == static_cast<int>(ready.size())) late.clear_late_workers();
  return late;
}

StatusReply CoordinatorCore::Status(Time now) const {
  StatusReply status;
  status.set_state(state_);
  status.set_name(config_.name());
  status.set_epochs(config_.train().epochs());
  members_.Show(now, &status);
  if (stopped_early_) status.set_stopped_early(drain_reason_);
  if (state_ == StatusReply::WAITING) {
    status.set_detail(
        absl::StrCat(members_.live(), " of ", config_.cluster().workers(), " workers are here"));
  } else if (draining_ && !stopped_early_) {
    status.set_detail(drain_reason_);
  } else if (members_.live() == 0 && state_ == StatusReply::TRAINING) {
    status.set_detail("no worker is left");
  }
  if (ledger_) {
    status.set_batches_repeated(ledger_->repeated_batches());
    status.set_batches_lost(ledger_->lost_batches());
  }
  totals_.Show(now, &status);
  if (ledger_) {
    status.set_epoch(ledger_->Done([&](uint32_t worker) {
      const MemberState* const member = members_.Find(worker);
      return member == nullptr ? 0 : member->record.clock();
    }));
    status.mutable_total()->set_epoch(status.epoch());
  }
  *status.mutable_hyper() = hyper_;
  *status.mutable_config() = config_;
  if (model_ != nullptr) status.set_codec_carries(CarriedText(config_.compression(), *model_));
  return status;
}

}  // namespace psgd
