#include "server/coordinator_core.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/policy.h"
#include "common/units.h"
#include "proto/phases.h"
#include "server/optimizer.h"
#include "server/placement.h"

namespace psgd {
namespace {

double BaseLearningRate(const OptimizerConfig& optimizer) {
  switch (optimizer.kind_case()) {
    case OptimizerConfig::kAdagrad: return optimizer.adagrad().learning_rate();
    case OptimizerConfig::kAdam: return optimizer.adam().learning_rate();
    case OptimizerConfig::kAdamw: return optimizer.adamw().learning_rate();
    default: return optimizer.sgd().learning_rate();
  }
}

double WeightDecay(const OptimizerConfig& optimizer) {
  switch (optimizer.kind_case()) {
    case OptimizerConfig::kAdagrad: return optimizer.adagrad().weight_decay();
    case OptimizerConfig::kAdam: return optimizer.adam().weight_decay();
    case OptimizerConfig::kAdamw: return optimizer.adamw().weight_decay();
    default: return optimizer.sgd().weight_decay();
  }
}

void AddTo(const WorkerReport& report, WorkerReport* total) {
  total->set_clock(std::max(total->clock(), report.clock()));
  total->set_steps(total->steps() + report.steps());
  total->set_samples(total->samples() + report.samples());
  total->set_loss_sum(total->loss_sum() + report.loss_sum());
  total->set_correct(total->correct() + report.correct());
  total->set_bytes_pushed(total->bytes_pushed() + report.bytes_pushed());
  total->set_bytes_pulled(total->bytes_pulled() + report.bytes_pulled());
  total->set_bytes_pushed_dense(total->bytes_pushed_dense() + report.bytes_pushed_dense());
  total->set_bytes_pulled_dense(total->bytes_pulled_dense() + report.bytes_pulled_dense());
  total->set_seconds_data(total->seconds_data() + report.seconds_data());
  total->set_seconds_compute(total->seconds_compute() + report.seconds_compute());
  total->set_seconds_encode(total->seconds_encode() + report.seconds_encode());
  total->set_seconds_wait(total->seconds_wait() + report.seconds_wait());
  total->set_seconds_wire(total->seconds_wire() + report.seconds_wire());
  total->set_seconds_apply(total->seconds_apply() + report.seconds_apply());
  total->set_seconds_cpu(total->seconds_cpu() + report.seconds_cpu());
  total->set_resent(total->resent() + report.resent());
  for (const auto& [reason, count] : report.refused()) (*total->mutable_refused())[reason] += count;
  const double lost = report.residual_norm_lost();
  if (lost > 0 && std::isfinite(lost)) {
    total->set_residual_norm_lost(std::hypot(total->residual_norm_lost(), lost));
  }
}

// A worker may name any shapes: what shards cannot hold must not be tried.
absl::Status CheckFits(const ModelSpec& model, const Config& config, uint64_t memory) {
  double elements = 0;
  for (const ParameterSpec& parameter : model.parameters()) elements += ElementsOf(parameter);
  const int arrays = 1 + MakeOptimizer(config.optimizer())->state_arrays();
  const double bytes = elements * arrays * sizeof(float);
  if (memory == 0 || bytes <= memory) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the model that the worker registers has ", static_cast<uint64_t>(elements), " weights: with the optimizer's state ",
      HumanBytes(bytes), ", and this run's servers have ", HumanBytes(memory),
      " of memory left; is it the model that you mean? If so, give the run more servers (cluster.servers), or one "
      "with more memory"));
}

}  // namespace

LedgerOptions LedgerOptionsFor(const Config& config, uint64_t batches_per_epoch) {
  LedgerOptions options;
  options.epochs = config.train().epochs();
  options.batches_per_epoch = static_cast<uint32_t>(batches_per_epoch);
  options.segment_clocks = config.cluster().segment();
  options.max_clock = config.train().max_steps();
  return options;
}

CoordinatorCore::CoordinatorCore(CoordinatorOptions options)
    : options_(std::move(options)),
      members_(Milliseconds(options_.config.cluster().lease()), options_.first_incarnation) {
  hyper_.set_version(1);
  hyper_.set_learning_rate(BaseLearningRate(options_.config.optimizer()));
  hyper_.set_weight_decay(WeightDecay(options_.config.optimizer()));
  if (options_.resume) {
    const CoordinatorSnapshot& resume = *options_.resume;
    loads_state_ = true;
    next_checkpoint_ = std::max(resume.checkpoint, options_.last_checkpoint) + 1;
    last_checkpoint_ = resume.position;
    // Changes made while the run went hold on, unless the config was changed since.
    const bool same_optimizer = !options_.checkpoint ||
                                options_.checkpoint->manifest().config().optimizer().SerializeAsString() ==
                                    options_.config.optimizer().SerializeAsString();
    if (same_optimizer && resume.hyper.version() > hyper_.version()) hyper_ = resume.hyper;
    total_ = resume.total;
    samples_before_ = total_.samples();
    total_.clear_residual_norm();  // of workers that are gone: those that come say theirs
    evaluations_ = resume.evaluations;
  }
}

absl::StatusOr<JoinReply> CoordinatorCore::Join(const JoinRequest& request, Time now,
                                                Effects* effects) {
  if (over() || draining_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run ", options_.config.name(), " is ", over() ? "over" : "draining",
                     " and takes no more workers; start a new run, or resume it with ps-run --resume"));
  }
  JoinReply reply;
  if (const MemberState* already = members_.JoinedBy(request.attempt())) {
    *reply.mutable_key() = already->key;
  } else {
    MemberState& member = members_.Join(request.name(), request.device(), now);
    member.attempt = request.attempt();
    member.joined_after = ledger_ ? ledger_->latest() : 0;
    if (!started_) started_ = now;
    effects->commands.push_back(AdmitWorker{member.key});
    effects->news.push_back(absl::StrCat("worker ", member.key.worker(), " joined: ", member.name,
                                         ", ", member.device));
    *reply.mutable_key() = member.key;
  }
  *reply.mutable_config() = options_.config;
  reply.set_lease_ms(options_.config.cluster().lease());
  reply.set_run_name(options_.config.name());
  return reply;
}

absl::Status CoordinatorCore::FixModel(const ModelSpec& model, uint64_t batches_per_epoch,
                                       const std::vector<std::string>& endpoints,
                                       Effects* effects) {
  if (batches_per_epoch == 0 || batches_per_epoch > UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the worker's data give ", batches_per_epoch,
        " batches an epoch; check data.batch against the number of training samples"));
  }
  PSGD_RETURN_IF_ERROR(ValidateModel(model));
  PSGD_RETURN_IF_ERROR(CheckFits(model, options_.config, options_.memory));
  PSGD_RETURN_IF_ERROR(CheckRules(options_.config.compression(), model));
  if (!options_.checkpoint) {
    PSGD_RETURN_IF_ERROR(CheckGiven(model, options_.given ? *options_.given : GivenWeights()));
  }
  auto placement = std::make_shared<Placement>(
      PlaceSlices(model, options_.config.cluster().shards(),
                  options_.config.cluster().slice()));
  placement->mutable_endpoints()->Add(endpoints.begin(), endpoints.end());
  model_ = std::make_shared<ModelSpec>(model);
  placement_ = std::move(placement);
  batches_per_epoch_ = batches_per_epoch;
  const LedgerOptions ledger = LedgerOptionsFor(options_.config, batches_per_epoch_);
  if (options_.resume) {
    ledger_.emplace(ledger, options_.resume->position);
    effects->news.push_back(absl::StrCat("resuming from checkpoint ", options_.resume->checkpoint,
                                         " at epoch ", ledger_->EpochProgress(), ", clock ",
                                         ledger_->position().clock));
  } else {
    ledger_.emplace(ledger);
  }
  effects->commands.push_back(InstallModel{model_, placement_, options_.checkpoint, hyper_,
                                          options_.given});
  return absl::OkStatus();
}

absl::Status CoordinatorCore::Resume(const std::vector<std::string>& endpoints, Effects* effects) {
  const CheckpointManifest& manifest = options_.checkpoint->manifest();
  return FixModel(manifest.model(), manifest.batches_per_epoch(), endpoints, effects);
}

absl::StatusOr<RegisterReply> CoordinatorCore::Register(const RegisterRequest& request,
                                                        const std::vector<std::string>& endpoints,
                                                        Time now, Effects* effects) {
  PSGD_ASSIGN_OR_RETURN(MemberState * member, members_.Touch(request.key(), now));
  if (model_ == nullptr) {
    PSGD_RETURN_IF_ERROR(
        FixModel(request.model(), request.batches_per_epoch(), endpoints, effects));
  }
  if (request.model().SerializeAsString() != model_->SerializeAsString()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", member->key.worker(), " (", member->name, ") built another model than the run's: ",
        FirstDifference(request.model(), *model_),
        options_.resume ? "; the run goes on from a checkpoint: keep the model and data it was taken with"
                        : "; do all workers run the same version of psgd?"));
  }
  if (request.batches_per_epoch() != batches_per_epoch_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", member->key.worker(), " (", member->name, ") sees ",
        request.batches_per_epoch(), " batches an epoch where the run has ", batches_per_epoch_,
        "; is its copy of the data set complete?"));
  }
  member->registered = true;
  RegisterReply reply;
  *reply.mutable_placement() = *placement_;
  *reply.mutable_hyper() = hyper_;
  return reply;
}

absl::StatusOr<HeartbeatReply> CoordinatorCore::Heartbeat(const HeartbeatRequest& request,
                                                          Time now) {
  PSGD_ASSIGN_OR_RETURN(MemberState * member, members_.Touch(request.key(), now));
  // It is in a segment that this record does not know of.
  if (const uint64_t dealt = ledger_ ? ledger_->position().clock : 0; request.report().clock() > dealt) {
    return absl::DataLossError(absl::StrCat(
        "worker ", member->key.worker(), " has done clock ", request.report().clock(), ", and the coordinator has dealt those up to ",
        dealt, ": did the server's machine lose power? Go on from the last checkpoint with ps-run --resume"));
  }
  HeartbeatReply reply;
  *reply.mutable_hyper() = hyper_;
  reply.set_drain(draining_);
  reply.set_leave(member->leaving);
  if (HasCounted(request)) return reply;
  member->reports = request.number();
  const WorkerReport& report = request.report();
  AddTo(report, &total_);
  CountReport(report, member);
  member->clock = std::max(member->clock, report.clock());
  CountSpeed(report.samples(), now, member);
  if (report.samples() > 0) {
    member->recent_loss = report.loss_sum() / static_cast<double>(report.samples());
    member->recent_accuracy =
        static_cast<double>(report.correct()) / static_cast<double>(report.samples());
    member->input_stall = InputStall(report);
  }
  if (report.has_choices()) member->choices = report.choices();
  SetResidual(*member, report.residual_norm());
  return reply;
}

bool CoordinatorCore::HasCounted(const HeartbeatRequest& request) const {
  const MemberState* const member = members_.Find(request.key().worker());
  return member != nullptr && member->key.incarnation() == request.key().incarnation() &&
         request.number() > 0 && request.number() <= member->reports;
}

absl::Status CoordinatorCore::Leave(const LeaveRequest& request, Time now, Effects* effects) {
  PSGD_ASSIGN_OR_RETURN(MemberState * member, members_.Touch(request.key(), now));
  if (request.has_residual_norm()) SetResidual(*member, request.residual_norm());
  Remove(member->key.worker(),
         absl::StrCat(request.failed() ? "failed: " : "left: ", request.reason()), effects);
  return absl::OkStatus();
}

void CoordinatorCore::SetResidual(MemberState& member, double norm) {
  const double before = std::exchange(member.residual_norm, std::isfinite(norm) && norm > 0 ? norm : 0);
  if (member.residual_norm == before) return;
  double squares = 0;
  for (const auto& [worker, other] : members_.all()) {
    squares += other.residual_norm * other.residual_norm;
  }
  total_.set_residual_norm(std::sqrt(squares));
}

void CoordinatorCore::CountLostResidual(MemberState& member, Effects* effects) {
  // The last checkpoint of a run that is over holds it.
  if (over() || member.residual_norm == 0) return;
  effects->news.push_back(absl::StrCat("a residual of norm ", member.residual_norm,
                                       " is lost with worker ", member.key.worker()));
  total_.set_residual_norm_lost(std::hypot(total_.residual_norm_lost(), member.residual_norm));
  SetResidual(member, 0);
}

void CoordinatorCore::Remove(uint32_t worker, const std::string& note, Effects* effects) {
  const MemberState* member = members_.Find(worker);
  const WorkerKey key = member->key;
  if (ledger_) GiveBack(worker, member->clock);
  members_.Leave(worker, note);
  for (PendingEvaluation& pending : pending_evaluations_) {
    if (pending.evaluator && pending.evaluator->worker() == worker) pending.evaluator.reset();
  }
  effects->commands.push_back(RemoveWorker{key});
  effects->news.push_back(absl::StrCat("worker ", worker, " (", member->name, ") is out: ", note));
  CountLostResidual(*members_.Find(worker), effects);
  if (state_ == StatusReply::TRAINING && members_.Ready().empty() && !draining_) {
    effects->news.push_back(
        "no worker is left; the run waits: start ps-worker again, or stop the server");
  }
}

void CoordinatorCore::Quarantine(const WorkerKey& key, const std::string& why, Effects* effects) {
  const MemberState* member = members_.Find(key.worker());
  if (member == nullptr || !member->live || member->key.incarnation() != key.incarnation()) return;
  const std::vector<uint32_t> ready = members_.Ready();
  if (ready.size() == 1 && ready[0] == key.worker()) {
    DrainRequest alone;
    alone.set_failed(true);
    alone.set_reason(absl::StrCat("no worker is left that sends sound updates: of worker ",
                                  key.worker(), ", ", why));
    Drain(alone, effects);
  }
  Remove(key.worker(), absl::StrCat("quarantined: ", why), effects);
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
  // Nobody is left to finish a drain, and nobody needs to be: the shards make the last checkpoint by themselves.
  if (draining_ && !over() && members_.Ready().empty() && LastCheckpointTaken(effects)) {
    EndRun(now);
    effects->news.push_back("drained: no worker is left");
  }
}

absl::StatusOr<uint64_t> CoordinatorCore::RequestCheckpoint(const std::string& name) {
  if (state_ != StatusReply::TRAINING) {
    return absl::FailedPreconditionError(
        absl::StrCat("no checkpoint can be taken: the run is ",
                     state_ == StatusReply::WAITING ? "still waiting for its first workers"
                                                    : "at its end, which takes one by itself"));
  }
  if (!name.empty() && !checkpoint_name_.empty() && name != checkpoint_name_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the next checkpoint will be ", checkpoint_name_,
                     "; ask for another name once it is taken"));
  }
  checkpoint_requested_ = true;
  if (!name.empty()) checkpoint_name_ = name;
  return next_checkpoint_;
}

void CoordinatorCore::EndRun(Time now) {
  state_ = drain_failed_ ? StatusReply::FAILED : StatusReply::FINISHED;
  ended_ = now;
}

void CoordinatorCore::Drain(const DrainRequest& request, Effects* effects) {
  if (draining_ || over()) return;
  draining_ = true;
  drain_failed_ = request.failed();
  drain_reason_ = request.reason().empty() ? "asked to" : request.reason();
  if (state_ == StatusReply::TRAINING) state_ = StatusReply::DRAINING;
  effects->news.push_back(absl::StrCat("draining: ", drain_reason_));
}

absl::Status CoordinatorCore::DrainWorker(uint32_t worker, Effects* effects) {
  MemberState* member = members_.Find(worker);
  if (member == nullptr || !member->live) {
    return absl::NotFoundError(absl::StrCat("there is no worker ", worker, " in this run",
                                            member == nullptr ? "" : " any more",
                                            "; ps-ctl status lists those that there are"));
  }
  if (over() || draining_ || std::exchange(member->leaving, true)) return absl::OkStatus();
  effects->news.push_back(
      absl::StrCat("worker ", worker, " (", member->name, ") is asked to leave"));
  return absl::OkStatus();
}

absl::StatusOr<HyperParameters> CoordinatorCore::SetHyper(const SetHyperRequest& request,
                                                          Effects* effects) {
  HyperParameters changed = hyper_;
  if (request.set_learning_rate()) {
    if (!(request.hyper().learning_rate() > 0) || request.hyper().learning_rate() > 1e6) {
      return absl::InvalidArgumentError(absl::StrCat(
          "learning rate ", request.hyper().learning_rate(), " is not above 0 and at most 1e6"));
    }
    changed.set_learning_rate(request.hyper().learning_rate());
  }
  if (request.set_weight_decay()) {
    if (!(request.hyper().weight_decay() >= 0) || request.hyper().weight_decay() > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "weight decay ", request.hyper().weight_decay(), " is not between 0 and 1"));
    }
    changed.set_weight_decay(request.hyper().weight_decay());
  }
  changed.set_version(hyper_.version() + 1);
  hyper_ = changed;
  effects->commands.push_back(ChangeHyper{hyper_});
  effects->news.push_back(absl::StrCat("hyper-parameters version ", hyper_.version(),
                                       ": learning rate ", hyper_.learning_rate(),
                                       ", weight decay ", hyper_.weight_decay()));
  return hyper_;
}

}  // namespace psgd
