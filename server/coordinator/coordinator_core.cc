#include "server/coordinator/coordinator_core.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/names.h"
#include "compression/policy.h"
#include "optimizers/diverged.h"
#include "optimizers/optimizer.h"
#include "optimizers/schedule.h"
#include "proto/local_steps.h"
#include "proto/measure_of.h"
#include "proto/short_clocks.h"
#include "server/coordinator/changed_hyper.h"
#include "server/coordinator/early_stop.h"

namespace psgd {
namespace {

constexpr int kUsualEpochs = 1;  // the default of train.epochs

// Whether the report says more than levels, which may be counted again.
bool CountsAny(WorkerReport report) {
  report.clear_clock();
  report.clear_residual_norm();
  report.clear_detour();
  return report.ByteSizeLong() > 0;
}

// Says that the epochs of the program replace those of the config. Empty if both are equal, or if
// the config has the default.
std::string EpochsNote(const TrainConfig& config, uint32_t epochs) {
  if (epochs == 0 || config.epochs() == static_cast<int>(epochs)) return "";
  if (config.epochs() == kUsualEpochs) return "";
  return absl::StrCat("the program says how many epochs there are, ", epochs,
                      " (run.epochs), and train.epochs: ", config.epochs(),
                      " of the config does nothing; leave one of them out");
}

// For people.
std::string NameOf(const MemberState& member) {
  return absl::StrCat("worker ", member.record.key().worker(), " (", member.record.name(), ")");
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
      agreed_(options_.config,
              {options_.resume.has_value(), options_.checkpoint, options_.given, options_.memory}),
      members_(Milliseconds(config().cluster().lease()), options_.first_incarnation),
      checkpoints_(config().durability().checkpoint()),
      hyper_(FirstHyper(config().optimizer())) {
  if (options_.resume) {
    const CoordinatorSnapshot& resume = *options_.resume;
    loads_state_ = true;
    checkpoints_.GoOnFrom(std::max(resume.checkpoint, options_.last_checkpoint), resume.position);
    // Changes made during the run stay in force, unless the config was changed since.
    const bool same_optimizer =
        !options_.checkpoint ||
        options_.checkpoint->manifest().config().optimizer().SerializeAsString() ==
            config().optimizer().SerializeAsString();
    if (same_optimizer && resume.hyper.version() > hyper_.version()) hyper_ = resume.hyper;
    totals_.GoOnFrom(resume.total, resume.evaluations);
    totals_.SetPart(resume.checkpoint, std::max(resume.checkpoint, options_.last_checkpoint) + 1);
    if (options_.checkpoint) EvaluateCheckpoint(options_.checkpoint->manifest());
  }
}

void CoordinatorCore::EvaluateCheckpoint(const CheckpointManifest& manifest) {
  const bool counts =
      config().train().early_stop().patience() > 0 || config().durability().keep_best();
  const double epoch = manifest.epoch_progress();
  if (!counts || EvaluatesByItself() || epoch == 0 || epoch != std::floor(epoch)) return;
  if (EvaluationAt(epoch, totals_.evaluations()) != nullptr) return;
  pending_evaluations_.Add(/*after_segment=*/0, epoch, epoch);
}

absl::StatusOr<JoinReply> CoordinatorCore::Join(const JoinRequest& request, Time now,
                                                Effects* effects) {
  if (over() || run_.draining()) {
    return FailedPreconditionError(
        "the run ", config().name(), " is ", over() ? "over" : "draining",
        " and takes no more workers; start a new run, or resume it with ps-run --resume");
  }
  JoinReply reply;
  if (const MemberState* already = members_.JoinedBy(request.attempt())) {
    *reply.mutable_key() = already->record.key();
  } else {
    std::optional<uint32_t> wanted;
    const auto workers = static_cast<uint32_t>(config().cluster().workers());
    if (request.wanted() > 0 && request.wanted() <= workers) wanted = request.wanted() - 1;
    const MemberState* const earlier =
        request.replaces() ? members_.LiveNamed(request.name()) : nullptr;
    if (earlier != nullptr) {
      const uint32_t place = earlier->record.key().worker();
      Lose(place, "failed: a new process has its name, and takes its place", effects);
      if (!wanted) wanted = place;
    }
    MemberState& member = members_.Join(request.name(), request.device(), now, wanted);
    member.record.set_attempt(request.attempt());
    member.record.set_joined_after(ledger_ ? ledger_->latest() : 0);
    effects->commands.push_back(AdmitWorker{member.record.key()});
    effects->news.push_back(absl::StrCat("worker ", member.record.key().worker(), " joined: ",
                                         member.record.name(), ", ", member.record.device()));
    *reply.mutable_key() = member.record.key();
  }
  *reply.mutable_config() = config();
  reply.set_lease_ms(config().cluster().lease());
  reply.set_run_name(config().name());
  return reply;
}

absl::Status CoordinatorCore::Install(absl::StatusOr<InstallModel> model, Effects* effects) {
  PSGD_RETURN_IF_ERROR(model.status());
  const LedgerOptions ledger = LedgerOptionsFor(config(), batches_per_epoch());
  if (options_.resume) {
    ledger_.emplace(ledger, options_.resume->position);
    effects->news.push_back(absl::StrCat("resuming from checkpoint ", options_.resume->checkpoint,
                                         " at epoch ", ledger_->EpochProgress(), ", clock ",
                                         ledger_->position().clock));
  } else {
    ledger_.emplace(ledger);
  }
  model->hyper = hyper_;
  effects->commands.push_back(*std::move(model));
  totals_.Note(LeftOutText(config().compression(), *agreed_.model()));
  totals_.Note(FullDensityText(config().compression()));
  return absl::OkStatus();
}

absl::Status CoordinatorCore::Resume(const std::vector<std::string>& endpoints, Effects* effects) {
  return Install(agreed_.FixAsInCheckpoint(endpoints), effects);
}

absl::StatusOr<RegisterReply> CoordinatorCore::Register(const RegisterRequest& request,
                                                        const std::vector<std::string>& endpoints,
                                                        Time now, Effects* effects) {
  PSGD_ASSIGN_OR_RETURN(MemberState * member, members_.Touch(request.key(), now));
  if (model() == nullptr) {
    PSGD_ASSIGN_OR_RETURN(const auto first, agreed_.BeforeFix(request, members_));
    if (first) return *first;
    PSGD_RETURN_IF_ERROR(Install(agreed_.Fix(request, endpoints), effects));
    if (agreed_.IsBrought()) totals_.Note(EpochsNote(options_.config.train(), request.epochs()));
  }
  const std::string worker = NameOf(*member);
  PSGD_RETURN_IF_ERROR(agreed_.CompareModel(request, worker));
  if (loads_state_ && run_.waits() && agreed_.TakeEpochs(request.epochs())) {
    const LedgerPosition position = ledger_->position();
    ledger_.emplace(LedgerOptionsFor(config(), batches_per_epoch()), position);
  }
  PSGD_RETURN_IF_ERROR(agreed_.CompareData(request, worker));
  member->record.set_registered(true);
  RegisterReply reply;
  reply.set_epochs(static_cast<uint32_t>(config().train().epochs()));
  *reply.mutable_placement() = *placement();
  *reply.mutable_hyper() = hyper_;
  return reply;
}

absl::Status CoordinatorCore::GiveWeights(const GiveWeightsRequest& request, Time now) {
  PSGD_RETURN_IF_ERROR(members_.Touch(request.key(), now).status());
  return agreed_.Give(request);
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
  reply.set_drain(run_.draining() && (!run_.stopped_early() || EvaluatesByItself()));
  reply.set_leave(member->record.leaving());
  if (HasCounted(request)) return reply;
  const WorkerReport& report = request.report();
  if (CountsAny(report)) member->record.set_reports(request.number());
  totals_.Count(report);
  if (IsBeforeCheckpoint(request.key().worker())) checkpoints_.Count(report);
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
  const uint32_t worker = member->record.key().worker();
  const std::string note = absl::StrCat(request.failed() ? "failed: " : "left: ", request.reason());
  if (request.failed() || request.unreported()) {
    Lose(worker, note, effects);
  } else {
    Remove(worker, note, effects);
  }
  TellIfNoneIsLeft(effects);
  return absl::OkStatus();
}

void CoordinatorCore::SetResidual(MemberState& member, double norm) {
  const double sound = std::isfinite(norm) && norm > 0 ? norm : 0;
  if (member.record.residual_norm() == sound) return;
  member.record.set_residual_norm(sound);
  totals_.SetResidual(members_.Residual());
}

void CoordinatorCore::CountGone(MemberState& member, bool before_checkpoint, Effects* effects) {
  // If the run is over, its last checkpoint holds the residual.
  const double residual = over() ? 0 : member.record.residual_norm();
  if (residual > 0) {
    effects->news.push_back(absl::StrCat("a residual of norm ", residual, " is lost with worker ",
                                         member.record.key().worker()));
  }
  totals_.CountGone(member.record.unpushed(), residual);
  if (before_checkpoint) checkpoints_.CountGone(member.record.unpushed(), residual);
  member.record.clear_unpushed();
  if (residual > 0) SetResidual(member, 0);
}

void CoordinatorCore::Lose(uint32_t worker, const std::string& note, Effects* effects) {
  // Its last steps may not be reported.
  if (IsBeforeCheckpoint(worker)) checkpoints_.LackCounts();
  Remove(worker, note, effects);
}

void CoordinatorCore::Remove(uint32_t worker, const std::string& note, Effects* effects) {
  const MemberState* member = members_.Find(worker);
  const WorkerKey key = member->record.key();
  const bool before_checkpoint = IsBeforeCheckpoint(worker);
  if (ledger_) GiveBack(worker, member->record.clock());
  members_.Leave(worker, note);
  pending_evaluations_.Release(worker);
  effects->commands.push_back(RemoveWorker{key});
  effects->news.push_back(absl::StrCat(NameOf(*member), " is out: ", note));
  CountGone(*members_.Find(worker), before_checkpoint, effects);
}

void CoordinatorCore::TellIfNoneIsLeft(Effects* effects) const {
  if (run_.trains() && members_.Ready().empty() && !run_.draining()) {
    effects->news.push_back(
        "no worker is left; the run waits: start ps-worker again, or stop the server");
  }
}

void CoordinatorCore::Quarantine(const QuarantinedWorker& worker, Effects* effects) {
  const uint32_t number = worker.key.worker();
  if (members_.FindLive(worker.key) == nullptr) return;
  const std::string diverged =
      worker.not_finite ? absl::StrCat(DivergedText(config()), ". In detail: ") : "";
  const std::vector<uint32_t> ready = members_.Ready();
  const bool is_alone = ready.size() == 1 && ready[0] == number;
  if (is_alone) {
    DrainRequest alone;
    alone.set_failed(true);
    alone.set_reason(absl::StrCat(diverged, "no worker is left that sends sound updates; worker ",
                                  number, ": ", worker.why));
    Drain(alone, effects);
  }
  Lose(number, absl::StrCat("quarantined: ", is_alone ? diverged : "", worker.why), effects);
  TellIfNoneIsLeft(effects);
}

void CoordinatorCore::Tick(Time now, Effects* effects) {
  for (uint32_t worker : members_.Expired(now)) {
    const double silent = Seconds(now - members_.Find(worker)->last_heard);
    Lose(worker,
         absl::StrCat("not heard of for ", static_cast<int64_t>(silent + 0.5),
                      " s (cluster.lease); it was killed, or its host or network is down; the "
                      "others go on, and a new ps-worker may take its place"),
         effects);
    TellIfNoneIsLeft(effects);
  }
  // No worker is left to finish a drain, and none is needed: the shards make the last checkpoint by
  // themselves.
  if (run_.draining() && !over() && members_.Ready().empty() && LastCheckpointTaken(effects)) {
    EndRun(now);
    const bool lacks_last = checkpoints_.LacksLast() && EndsDiverged();
    effects->news.push_back(
        absl::StrCat("drained: no worker is left",
                     lacks_last ? "; training diverged, so its end has no checkpoint" : ""));
  }
}

absl::StatusOr<uint64_t> CoordinatorCore::RequestCheckpoint(const std::string& name) {
  if (!run_.trains()) {
    return FailedPreconditionError("no checkpoint can be taken: the run is ",
                                   run_.waits() ? "still waiting for its first workers"
                                                : "at its end, which takes one by itself");
  }
  return checkpoints_.Request(name);
}

void CoordinatorCore::EndRun(Time now) {
  run_.End();
  totals_.End(now);
}

void CoordinatorCore::Drain(const DrainRequest& request, Effects* effects) {
  if (!run_.Drain(request)) return;
  effects->news.push_back(absl::StrCat("draining: ", run_.reason()));
}

absl::Status CoordinatorCore::DrainWorker(uint32_t worker, Effects* effects) {
  MemberState* member = members_.Find(worker);
  if (member == nullptr || !member->record.live()) {
    return NotFoundError("there is no worker ", worker, " in this run",
                         member == nullptr ? "" : " any more",
                         "; ps-ctl status lists those that there are");
  }
  if (over() || run_.draining() || member->record.leaving()) return absl::OkStatus();
  member->record.set_leaving(true);
  effects->news.push_back(absl::StrCat(NameOf(*member), " is asked to leave"));
  return absl::OkStatus();
}

absl::StatusOr<HyperParameters> CoordinatorCore::SetHyper(const SetHyperRequest& request,
                                                          Effects* effects) {
  PSGD_ASSIGN_OR_RETURN(HyperParameters changed, ChangedHyper(hyper_, request, config()));
  changed.set_version(hyper_.version() + 1);
  hyper_ = changed;
  effects->commands.push_back(ChangeHyper{hyper_});
  effects->news.push_back(absl::StrCat("hyper-parameters version ", hyper_.version(),
                                       ": learning rate ", hyper_.learning_rate(),
                                       ", weight decay ", hyper_.weight_decay()));
  return hyper_;
}

namespace {

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

bool CoordinatorCore::IsBeforeCheckpoint(uint32_t worker) const {
  const auto after = checkpoints_.boundary();
  return after && RunsIn(worker, *after) &&
         members_.Find(worker)->record.finished_segment() < *after;
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

void CoordinatorCore::OpenBoundary(Time now, Effects* effects) {
  const uint64_t ending = ledger_->latest();
  const bool over = run_.draining() || ledger_->Finished();
  const bool may_be_best =
      config().durability().keep_best() && ending != 0 && ledger_->EndsEpoch(ending);
  // The checkpoint of these weights waits for the one that is being written; workers ask again.
  if (!over && may_be_best && checkpoints_.under_way()) return;
  if (ending != 0 && (over || ledger_->EndsEpoch(ending)) && !EvaluatesByItself()) {
    const double epoch = ledger_->Find(ending)->epoch() + 1;
    // Returned batches make an epoch end a second time: the later end counts.
    pending_evaluations_.Add(ending, over ? ledger_->EpochProgress() : epoch, epoch);
  }
  if (over) {
    all_dealt_ = true;
    return;
  }
  if (ending != 0 && (may_be_best || checkpoints_.Due(ledger_->position(), batches_per_epoch()))) {
    StartCheckpoint(/*last=*/false, effects);
  }
  const std::vector<uint32_t> workers = members_.Ready();
  if (auto segment = ledger_->Deal(workers, StepsOf(workers))) {
    run_.Train();
    totals_.Start(now);
    segment->clear_stretches();  // no shard needs them
    effects->commands.push_back(BeginSegment{*std::move(segment)});
    std::string cut = ShortClocksText(config().local(), batches_per_epoch(), workers.size());
    if (ending == 0 && !cut.empty()) effects->news.push_back(std::move(cut));
  }
}

std::vector<uint32_t> CoordinatorCore::StepsOf(const std::vector<uint32_t>& workers) const {
  const LocalConfig& local = config().local();
  if (!TakesLocalSteps(local)) return {};
  const LedgerPosition& position = ledger_->position();
  const double left =
      RateLeft(local.schedule(),
               {.epoch = ledger_->EpochProgress(),
                .step = position.steps,
                .epochs_per_step = static_cast<double>(workers.size()) / batches_per_epoch(),
                .total_epochs = static_cast<double>(config().train().epochs())});
  const uint32_t most = StepsOfClock(local, left);
  return local.steps() == 0 ? members_.StepsFor(workers, most)
                            : std::vector<uint32_t>(workers.size(), most);
}

void CoordinatorCore::AssignEvaluation(const MemberState& member, NextSegmentReply* reply) {
  // The last worker that finishes an epoch evaluates it: others may have finished more, but wait
  // for this worker's next step, so these are the weights of the epoch's end. Where nobody waits, a
  // slow worker would fall further behind with each evaluation.
  const ConsistencyConfig& consistency = config().consistency();
  const bool others_wait = consistency.staleness() >= 0 && consistency.quorum() == 0;
  const bool may_evaluate = others_wait || members_.MostFinished() <= member.PastSegment();
  const WorkerKey& key = member.record.key();
  const auto epoch = pending_evaluations_.Assign(key, [&](uint64_t after) {
    // If all workers that finished the segment are gone, a worker that was not there stands in.
    const bool past = member.PastSegment() >= after || !RunsIn(key.worker(), after);
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
    const uint64_t oldest = std::min(after, members_.FinishedByAll());
    if (oldest > 1) ledger_->Forget(oldest - 1);
  }

  const size_t wanted = static_cast<size_t>(config().cluster().workers());
  const bool begun = ledger_->latest() != 0 || all_dealt_ || run_.draining();
  if (!begun && members_.Ready().size() < wanted) {
    return Wait(absl::StrCat("waiting for workers: ", members_.Ready().size(), " of ", wanted,
                             " are here"));
  }
  const bool caught_up = after == ledger_->latest() && !request.first();
  if (ledger_->latest() == 0 || caught_up || AllFinished(ledger_->latest())) {
    if (!all_dealt_ || !(run_.draining() || ledger_->Finished())) {
      all_dealt_ = false;
      OpenBoundary(now, effects);
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
  reply.set_reason(run_.draining() ? run_.reason() : "every epoch is done");
  return reply;
}

bool CoordinatorCore::LastCheckpointTaken(Effects* effects) {
  // A run that goes on from where training diverged fails again, and older checkpoints would make
  // room for that one.
  const bool earlier_is_better = checkpoints_.HasEarlier() && EndsDiverged();
  if (checkpoints_.LacksLast() && ledger_ && ledger_->latest() != 0 && !earlier_is_better) {
    StartCheckpoint(/*last=*/true, effects);
  }
  return !checkpoints_.under_way();
}

bool CoordinatorCore::EndsDiverged() const {
  return members_.Ready().empty() && members_.LastDiverged();
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
                       request.result().epoch() <= config().train().epochs();
    if (!sound) {
      return InvalidArgumentError("results after epoch ", request.result().epoch(), " of a run of ",
                                  config().train().epochs());
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
  const auto why = WhyStopEarly(config().train().early_stop(), totals_.evaluations());
  if (why && !run_.draining() && !over() && !ledger_->Finished()) {
    run_.StopEarly(*why);
    effects->news.push_back(absl::StrCat("stops early: ", *why));
  }
  return absl::OkStatus();
}

CoordinatorRecord CoordinatorCore::Save(Time now) const {
  CoordinatorRecord record = SaveWithoutPlan(now);
  if (model() != nullptr) {
    *record.mutable_model() = *model();
    *record.mutable_placement() = *placement();
  }
  return record;
}

CoordinatorRecord CoordinatorCore::SaveWithoutPlan(Time now) const {
  CoordinatorRecord record;
  agreed_.Save(&record);
  if (ledger_) *record.mutable_ledger() = ledger_->Save();
  *record.mutable_hyper() = hyper_;
  members_.Save(&record);
  run_.Save(&record);
  record.set_all_dealt(all_dealt_);
  checkpoints_.Save(&record);
  pending_evaluations_.Save(&record);
  totals_.Save(now, &record);
  record.set_loads_state(loads_state_);
  return record;
}

void CoordinatorCore::Restore(const CoordinatorRecord& record, Time now) {
  agreed_.Restore(record);
  ledger_.emplace(LedgerOptionsFor(config(), batches_per_epoch()), record.ledger());
  hyper_ = record.hyper();
  members_.Restore(record, now);
  run_.Restore(record);
  all_dealt_ = record.all_dealt();
  checkpoints_.Restore(record);
  pending_evaluations_.Restore(record);
  totals_.Restore(record, now);
  // What they did in the last second before may be lost.
  const std::vector<uint32_t> ready = members_.Ready();
  if (std::ranges::any_of(ready, [this](uint32_t worker) { return IsBeforeCheckpoint(worker); }))
    checkpoints_.LackCounts();
  loads_state_ = record.loads_state();
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
    names.push_back(NameOf(*member));
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
  status.set_state(run_.state());
  status.set_name(config().name());
  status.set_epochs(config().train().epochs());
  members_.Show(now, &status);
  if (run_.stopped_early()) status.set_stopped_early(run_.reason());
  if (run_.waits()) {
    status.set_detail(
        absl::StrCat(members_.live(), " of ", config().cluster().workers(), " workers are here"));
  } else if (run_.asked_to_end()) {
    status.set_detail(run_.reason());
  } else if (NobodyIsLeft() && run_.trains()) {
    status.set_detail("no worker is left");
  }
  if (ledger_) {
    status.set_batches_repeated(ledger_->position().repeated);
    status.set_batches_lost(ledger_->position().lost);
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
  *status.mutable_config() = config();
  if (model() != nullptr) status.set_codec_carries(CarriedText(config().compression(), *model()));
  return status;
}

}  // namespace psgd
