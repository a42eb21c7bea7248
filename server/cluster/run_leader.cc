#include "server/cluster/run_leader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/names.h"
#include "net/run_store.h"
#include "net/transport_security.h"
#include "net/wire_format.h"
#include "proto/has_journal.h"
#include "proto/local_steps.h"
#include "server/coordinator/access.h"

namespace psgd {
namespace {

// Before a caller gives up (kAttemptOfSeveral in worker/control_client.cc), so that it hears why.
constexpr Duration kAnswerWithin = std::chrono::milliseconds(1500);
constexpr uint32_t kWaitMs = 100;
constexpr uint64_t kJoinsAnEpoch = 1000;  // of one worker, before training begins
constexpr Duration kStoreCounts = std::chrono::seconds(1);

template <typename Reply>
absl::StatusOr<ControlReply> AsControlReply(absl::StatusOr<Reply> reply) {
  if (!reply.ok()) return reply.status();
  return ControlReply(*std::move(reply));
}

// `reply` if `status` is OK.
template <typename Reply>
absl::StatusOr<Reply> IfOk(const absl::Status& status, Reply reply = Reply()) {
  if (!status.ok()) return status;
  return reply;
}

void SetEndpoints(const std::vector<std::string>& endpoints, Placement* placement) {
  placement->mutable_endpoints()->Assign(endpoints.begin(), endpoints.end());
}

CopyAssignerOptions ForCopies(const RunLeaderOptions& options) {
  const Config& config = options.coordinator.config;
  CopyAssignerOptions copies{
      options.copies,   options.patience,        std::nullopt,
      options.replaced, MostClocksAhead(config), static_cast<uint32_t>(config.cluster().workers())};
  if (!HasJournal(config)) copies.lost_after = Milliseconds(config.cluster().deadline());
  return copies;
}

}  // namespace

RunRecord FirstRecord(const std::string& run_id, const RunServer& self, uint32_t shards) {
  RunRecord record;
  record.set_run_id(run_id);
  record.set_epoch(1);
  record.set_leader(1);
  record.set_next_server(2);
  *record.add_servers() = self;
  record.mutable_servers(0)->set_server(1);
  for (uint32_t s = 0; s < shards; ++s) {
    ShardCopies* const shard = record.add_shards();
    shard->set_epoch(1);
    shard->set_leader(1);
    shard->add_in_sync(1);
    shard->add_copies(1);
  }
  return record;
}

RunRecord TakenOver(RunRecord record, const RunServer& self) {
  record.set_epoch(record.epoch() + 1);
  record.set_leader(self.server());
  for (RunServer& server : *record.mutable_servers()) {
    if (server.server() == self.server()) server = self;
  }
  if (record.has_plan()) return record;
  // There are no weights yet: this server makes the shards.
  for (ShardCopies& shard : *record.mutable_shards()) {
    shard.set_epoch(shard.epoch() + 1);
    shard.set_leader(self.server());
    shard.mutable_in_sync()->Clear();
    shard.mutable_copies()->Clear();
    shard.mutable_ids()->Clear();
    shard.add_in_sync(self.server());
    shard.add_copies(self.server());
    shard.clear_endpoint();
  }
  return record;
}

RunLeader::RunLeader(RunLeaderOptions options, int64_t revision, RunRecord record, Time now)
    : options_(std::move(options)),
      coordinator_(options_.coordinator),
      copies_(ForCopies(options_), record, now),
      store_(revision, {.record = std::move(record), .copies = copies_.MarkNow()}),
      progress_(static_cast<size_t>(stored().shards_size())),
      parts_(progress_.shards()) {}

absl::StatusOr<std::unique_ptr<RunLeader>> RunLeader::Make(RunLeaderOptions options,
                                                           int64_t revision, RunRecord record,
                                                           const RunPlan* plan, Time now) {
  PSGD_RETURN_IF_ERROR(CheckCopies(record));
  if (record.has_plan() != (plan != nullptr)) {
    return absl::DataLossError("the run's record and its plan do not belong together");
  }
  // Joins before training are not stored. So each epoch of the run begins with new incarnations: no
  // two joins get the same one.
  options.coordinator.first_incarnation +=
      static_cast<uint32_t>(kJoinsAnEpoch * (record.epoch() - 1));
  std::unique_ptr<RunLeader> leader(
      new RunLeader(std::move(options), revision, std::move(record), now));
  if (plan != nullptr) PSGD_RETURN_IF_ERROR(leader->Restore(*plan, now));
  return leader;
}

absl::Status RunLeader::Restore(const RunPlan& plan, Time now) {
  copies_.SetPlacement(plan.placement());
  CoordinatorRecord coordinator = stored().coordinator();
  *coordinator.mutable_model() = plan.model();
  *coordinator.mutable_placement() = plan.placement();
  SetEndpoints(Endpoints(), coordinator.mutable_placement());
  coordinator_.Restore(coordinator, now);
  PSGD_RETURN_IF_ERROR(orders_.Restore(coordinator));
  for (const CoordinatorRecord::Pass& pass : coordinator.passes())
    passes_[pass.key().worker()] = pass;
  const uint64_t next_checkpoint =
      coordinator.has_under_way() ? coordinator.under_way().id() : coordinator.next_checkpoint();
  if (next_checkpoint > 0) checkpoint_done_ = next_checkpoint - 1;
  store_.Restore(std::make_shared<RunPlan>(plan), orders_.last(), checkpoint_done_);
  gathered_ = coordinator.ledger().next_id() > 1;
  return absl::OkStatus();
}

void RunLeader::OnState(uint64_t link, const ServerState& state, Time now, ServerEffects* effects) {
  if (absl::Status joined = copies_.OnState(link, state, now, &news_); !joined.ok()) {
    effects->push_back(effect::Refuse{link, std::move(joined)});
    return;
  }
  SettleStoreAndTell(now, effects);
}

std::vector<std::string> RunLeader::Endpoints() const {
  std::vector<std::string> endpoints;
  for (const ShardCopies& shard : stored().shards()) endpoints.push_back(shard.endpoint());
  return endpoints;
}

bool RunLeader::EndpointsKnown() const {
  return std::ranges::none_of(stored().shards(),
                              [](const ShardCopies& shard) { return shard.endpoint().empty(); });
}

void RunLeader::Lose(const std::string& why) {
  if (!lost_.ok()) return;
  DrainRequest failed;
  failed.set_reason(why);
  failed.set_failed(true);
  Effects decided;
  coordinator_.Drain(failed, &decided);
  Decide(std::move(decided));
  lost_ = absl::DataLossError(why);
  lost_change_ = Changes();
}

// --- Requests
// ------------------------------------------------------------------------------------------

void RunLeader::Decide(Effects decided) {
  ++changes_;
  Expel(decided.commands);
  orders_.Add(std::move(decided.commands));
  for (std::string& news : decided.news) news_.push_back(std::move(news));
}

namespace {
// Whether a worker only waits: it asks again, and says again what it did. Nothing was decided.
bool Waits(const absl::StatusOr<NextSegmentReply>& reply, const Effects& decided) {
  return reply.ok() && reply->kind() == NextSegmentReply::WAIT && !reply->evaluate() &&
         reply->save_state_for() == 0 && decided.commands.empty() && decided.news.empty();
}
}  // namespace

template <typename Reply>
void RunLeader::AnswerOnceStored(uint64_t request, absl::StatusOr<Reply> reply, Effects decided,
                                 Time now) {
  Decide(std::move(decided));
  pending_.push_back(
      {request, AsControlReply(std::move(reply)), Changes(), orders_.last(), now + kAnswerWithin});
}

void RunLeader::AnswerNow(uint64_t request, absl::StatusOr<ControlReply> reply,
                          ServerEffects* effects) {
  effects->push_back(effect::Answer{request, std::move(reply)});
}

void RunLeader::Expel(const std::vector<ShardCommand>& commands) {
  for (const ShardCommand& command : commands) {
    const auto* const gone = std::get_if<RemoveWorker>(&command);
    if (gone == nullptr || !options_.draw_token) continue;
    expelled_.push_back(gone->key);
    const auto pass = passes_.find(gone->key.worker());
    if (pass != passes_.end() && pass->second.key().incarnation() == gone->key.incarnation())
      passes_.erase(pass);
  }
}

Leaders RunLeader::LeadersNow() const {
  Leaders leaders;
  leaders.set_epoch(stored().epoch());
  for (const RunServer& server : stored().servers()) {
    if (server.server() == stored().leader()) leaders.add_addresses(server.address());
  }
  for (const RunServer& server : stored().servers()) {
    if (server.server() != stored().leader() && server.may_lead() &&
        copies_.IsHere(server.server()))
      leaders.add_addresses(server.address());
  }
  return leaders;
}

absl::StatusOr<JoinReply> RunLeader::Join(const JoinRequest& request, Time now, Effects* decided,
                                          ServerEffects* effects) {
  if (request.protocol() != kProtocolVersion) {
    return FailedPreconditionError("the worker speaks protocol ", request.protocol(),
                                   ", this server ", kProtocolVersion,
                                   "; install the same version of psgd on both");
  }
  if (!request.local_steps() && TakesLocalSteps(options_.coordinator.config.local())) {
    return absl::FailedPreconditionError(
        "this run has local steps (local.steps), which the worker's version of psgd does not know; "
        "install the same version of psgd on both");
  }
  PSGD_RETURN_IF_ERROR(CheckPeerName("the worker's name", request.name()));
  if (options_.draw_token && !IsCurveKey(request.curve_key())) {
    return absl::InvalidArgumentError(
        "the worker sent no public key, which a secured run asks for; install the same version of "
        "psgd on both sides");
  }
  JoinRequest readable = request;
  readable.set_device(Readable(request.device()));
  PSGD_ASSIGN_OR_RETURN(JoinReply reply, coordinator_.Join(readable, now, decided));
  reply.set_trace_steps(options_.trace_steps);
  *reply.mutable_leaders() = LeadersNow();
  if (!options_.draw_token) return reply;
  CoordinatorRecord::Pass& pass = passes_[reply.key().worker()];
  *pass.mutable_key() = reply.key();
  pass.set_curve_key(request.curve_key());
  pass.set_token(options_.draw_token());
  effects->push_back(effect::Admit{pass});
  reply.set_token(pass.token());
  reply.set_curve_key(options_.curve_key);
  return reply;
}

void RunLeader::Heartbeat(uint64_t request, const HeartbeatRequest& asked, Time now,
                          ServerEffects* effects) {
  HeartbeatRequest readable = asked;
  MakeReadable(readable.mutable_report());
  const bool again = coordinator_.HasCounted(readable);
  auto reply = coordinator_.Heartbeat(readable, now);
  // An error ends the worker. So it is sent only after a write proves that this server still leads.
  if (!reply.ok()) return AnswerOnceStored(request, std::move(reply), Effects(), now);
  counts_changed_ = counts_changed_ || !again;
  *reply->mutable_leaders() = LeadersNow();
  // Workers keep their endpoints until those of all shards are known.
  if (EndpointsKnown()) {
    for (std::string& endpoint : Endpoints()) reply->add_endpoints(std::move(endpoint));
  }
  reply->set_clock_ns(now.count());
  AnswerNow(request, AsControlReply(std::move(reply)), effects);
  if (again) return;
  const WorkerReport& report = readable.report();
  if (report.residual_norm_lost() > 0) {
    effects->push_back(effect::News{absl::StrCat("a residual of norm ", report.residual_norm_lost(),
                                                 " of the checkpoint is lost: no codec of worker ",
                                                 asked.key().worker(), " takes it")});
  }
  if (report.has_choices()) effects->push_back(effect::Observed{report.choices()});
  if (report.spans_size() > 0) {
    effects->push_back(
        effect::Observed{std::vector<TraceSpan>(report.spans().begin(), report.spans().end())});
  }
}

// Installs the weights of the checkpoint that the run goes on from, before any worker is there.
void RunLeader::Resume() {
  if (training() || !options_.coordinator.resume || coordinator_.model() != nullptr ||
      !EndpointsKnown()) {
    return;
  }
  Effects decided;
  const absl::Status resumed = coordinator_.Resume(Endpoints(), &decided);
  if (!resumed.ok()) return Lose(std::string(resumed.message()));
  Decide(std::move(decided));
}

absl::StatusOr<RegisterReply> RunLeader::Register(const RegisterRequest& request, Time now,
                                                  Effects* decided) {
  if (!EndpointsKnown()) return absl::UnavailableError("the shards are not ready yet");
  return coordinator_.Register(request, Endpoints(), now, decided);
}

absl::StatusOr<NextSegmentReply> RunLeader::NextSegment(const NextSegmentRequest& request, Time now,
                                                        Effects* decided) {
  const std::string waits = gathered_ ? "" : WaitsFor();
  // A run that is over waits for no server. It adds no copies any more.
  gathered_ = waits.empty() || coordinator_.drained() || coordinator_.over();
  if (gathered_) {
    auto reply = coordinator_.NextSegment(request, now, decided);
    if (reply.ok()) *reply->mutable_leaders() = LeadersNow();
    return reply;
  }
  NextSegmentReply wait;
  wait.set_kind(NextSegmentReply::WAIT);
  wait.set_wait_ms(kWaitMs);
  wait.set_reason(waits);
  return wait;
}

void RunLeader::OnRequest(uint64_t request, const ControlRequest& asked, Time now,
                          ServerEffects* effects) {
  Effects decided;
  const auto answer = [&](auto reply) {
    AnswerOnceStored(request, std::move(reply), std::move(decided), now);
  };
  if (const auto* join = std::get_if<JoinRequest>(&asked)) {
    answer(Join(*join, now, &decided, effects));
  } else if (const auto* registers = std::get_if<RegisterRequest>(&asked)) {
    answer(Register(*registers, now, &decided));
  } else if (const auto* gives = std::get_if<GiveWeightsRequest>(&asked)) {
    // Kept in memory until the worker registers again: nothing is to be stored.
    AnswerNow(request,
              AsControlReply(IfOk<GiveWeightsReply>(coordinator_.GiveWeights(*gives, now))),
              effects);
  } else if (const auto* next = std::get_if<NextSegmentRequest>(&asked)) {
    auto reply = NextSegment(*next, now, &decided);
    if (Waits(reply, decided) && IsConfirmed(now)) {
      counts_changed_ = true;
      AnswerNow(request, AsControlReply(std::move(reply)), effects);
    } else {
      answer(std::move(reply));
    }
  } else if (const auto* evaluated = std::get_if<EvaluatedRequest>(&asked)) {
    EvaluatedRequest measured = *evaluated;
    EvalResult* const result = measured.mutable_result();
    // A program says 0 if it did not measure it.
    if (coordinator_.config().model().has_client() && result->accuracy() == 0)
      result->clear_accuracy();
    const bool is_new = !coordinator_.HasEvaluation(*result);
    const absl::Status status = coordinator_.Evaluated(measured, now, &decided);
    if (status.ok() && is_new) effects->push_back(effect::Observed{*result});
    answer(IfOk<EvaluatedReply>(status));
  } else if (const auto* beat = std::get_if<HeartbeatRequest>(&asked)) {
    Heartbeat(request, *beat, now, effects);
  } else if (const auto* leave = std::get_if<LeaveRequest>(&asked)) {
    LeaveRequest readable = *leave;
    readable.set_reason(Readable(leave->reason()));
    answer(IfOk<LeaveReply>(coordinator_.Leave(readable, now, &decided)));
  } else if (const auto* checkpoint = std::get_if<CheckpointRequest>(&asked)) {
    BeginCheckpoint(request, *checkpoint, now, effects);
  } else if (const auto* drain = std::get_if<DrainRequest>(&asked)) {
    absl::Status status;
    if (drain->has_worker()) {
      status = coordinator_.DrainWorker(drain->worker(), &decided);
    } else {
      asked_to_stop_ = true;
      DrainRequest readable = *drain;
      readable.set_reason(Readable(drain->reason()));
      coordinator_.Drain(readable, &decided);
    }
    answer(IfOk<DrainReply>(status));
  } else if (const auto* hyper = std::get_if<SetHyperRequest>(&asked)) {
    auto changed = coordinator_.SetHyper(*hyper, &decided);
    SetHyperReply reply;
    if (changed.ok()) *reply.mutable_hyper() = *changed;
    answer(IfOk(changed.status(), reply));
  } else if (const auto* rebalance = std::get_if<RebalanceRequest>(&asked)) {
    AnswerNow(request, AsControlReply(copies_.Rebalance(*rebalance)), effects);
  } else {
    AnswerNow(request, ControlReply(Status(now)), effects);
  }
  SettleStoreAndTell(now, effects);
}

void RunLeader::BeginCheckpoint(uint64_t request, const CheckpointRequest& asked, Time now,
                                ServerEffects* effects) {
  const auto id = coordinator_.RequestCheckpoint(asked.name());
  if (!id.ok()) return AnswerNow(request, id.status(), effects);
  ++changes_;
  CheckpointReply begun;
  begun.set_id(*id);
  if (asked.begin_only()) return AnswerNow(request, ControlReply(begun), effects);
  const Duration deadline = Milliseconds(coordinator_.config().cluster().deadline());
  checkpoints_.Await(*id, request, now + deadline);
}

StatusReply RunLeader::Status(Time now) const {
  StatusReply status = coordinator_.Status(now);
  checkpoints_.Show(now, &status);
  if (wait_news_.told()) {
    status.set_waits_for(wait_news_.waits());
    status.set_storage_trouble(absl::StrJoin(StorageTroubles(), "; "));
  }
  copies_.AddStatus(stored(), now, &status);
  return status;
}

std::vector<std::string> RunLeader::StorageTroubles() const {
  std::vector<std::string> troubles;
  if (!store_.trouble().empty() && !options_.shared_store)
    troubles.push_back(absl::StrCat("the run store: ", store_.trouble()));
  for (int s = 0; s < stored().shards_size(); ++s) {
    const CopyState* const copy =
        copies_.Find(stored().shards(s).leader(), static_cast<uint32_t>(s));
    if (copy != nullptr && !copy->status().stalled().empty())
      troubles.push_back(absl::StrCat("shard ", s, ": ", copy->status().stalled()));
  }
  if (!parts_.no_room().ok())
    troubles.push_back(absl::StrCat("room for the last checkpoint: ", parts_.no_room().message()));
  return troubles;
}

std::string RunLeader::WaitsFor() const {
  std::vector<std::string> waits = StorageTroubles();
  if (!store_.trouble().empty() && options_.shared_store)
    waits.push_back(absl::StrCat("the run store: ", store_.trouble()));
  const size_t here = copies_.Present().size();
  if (!gathered_ && here < options_.servers) {
    waits.push_back(absl::StrCat("servers: ", here, " of ", options_.servers, " are here"));
  }
  const size_t copies = std::min(options_.copies, options_.servers);
  for (int s = 0; s < stored().shards_size(); ++s) {
    const ShardCopies& shard = stored().shards(s);
    const auto number = static_cast<uint32_t>(s);
    const CopyState* const copy = copies_.FindReport(shard.leader(), number);
    const std::string trouble =
        copy == nullptr || !copy->status().stalled().empty() ? "" : copy->trouble();
    if (!trouble.empty()) waits.push_back(absl::StrCat("shard ", s, ": ", trouble));
    if (!trouble.empty() && copy->empty()) continue;  // that is why the server has nothing of it
    if (!copies_.IsLive(shard.leader(), number)) {
      waits.push_back(copies_.Find(shard.leader(), number) == nullptr
                          ? absl::StrCat("server ", shard.leader(), ", which has shard ", s)
                          : absl::StrCat("another server that has shard ", s));
      if (!copies_.LacksItsEnd(number).empty())
        absl::StrAppend(&waits.back(), " (", copies_.LacksItsEnd(number), ")");
    } else if (!gathered_ && static_cast<size_t>(shard.in_sync_size()) < copies) {
      waits.push_back(absl::StrCat("a copy of shard ", s));
    } else if (!gathered_ && stored().has_plan() && copies_.MovesTo(number) != 0) {
      // A move beside training is slow, and so are the steps.
      waits.push_back(absl::StrCat("shard ", s, " to be on server ", copies_.MovesTo(number)));
    } else if (!gathered_ && stored().has_plan() && !copies_.FindLeading(shard, number)) {
      waits.push_back(absl::StrCat("server ", shard.leader(), " to lead shard ", s));
    }
  }
  return waits.empty() ? "" : absl::StrCat("waiting for ", absl::StrJoin(waits, "; "));
}

// --- Outcomes of effects
// -----------------------------------------------------------------------------------------

void RunLeader::OnStoreWritten(const absl::StatusOr<int64_t>& revision, Time now,
                               ServerEffects* effects) {
  // A record that the store does not take stays so. But a server that was replaced and does not
  // know it must not end the run of the others.
  const bool never = absl::IsOutOfRange(revision.status()) && IsConfirmed(now);
  if (absl::IsAborted(revision.status()) || never) deposed_ = revision.status();
  if (!store_.Written(revision, now)) return;
  // Not before: a server that was replaced and does not know it must not remove the parts that
  // another one writes.
  if (unsealed_ > 0 && unsealed_ <= store_.run().checkpoint_done) {
    effects->push_back(effect::DiscardParts{std::exchange(unsealed_, 0), stored().epoch()});
  }
  if (training() && EndpointsKnown()) coordinator_.MoveShards(Endpoints());
  SettleStoreAndTell(now, effects);
}

void RunLeader::OnOrderDone(uint32_t shard, uint64_t epoch, uint64_t number,
                            const absl::Status& status, Time now, ServerEffects* effects) {
  if (number > orders_.last() || !progress_.Done(shard, epoch, number, status, now)) return;
  if (!status.ok()) {
    // A shard without a model cannot train.
    if (orders_.installs() || absl::IsDataLoss(status)) Lose(std::string(status.message()));
    news_.push_back(absl::StrCat("shard ", shard, ": ", status.message()));
  }
  SettleStoreAndTell(now, effects);
}

bool RunLeader::OnPartCame(uint64_t checkpoint, uint32_t shard, ServerEffects* effects) const {
  // Replay of a journal makes old cuts again, also for complete checkpoints.
  const auto& under_way = coordinator_.checkpoint_under_way();
  if (!under_way || under_way->checkpoint != checkpoint) return false;
  effects->push_back(effect::WritePart{checkpoint, shard, stored().epoch()});
  return true;
}

void RunLeader::OnPart(uint64_t checkpoint, uint32_t shard,
                       const absl::StatusOr<ShardReceipt>& receipt, Time now,
                       ServerEffects* effects) {
  const auto& under_way = coordinator_.checkpoint_under_way();
  if (!under_way || under_way->checkpoint != checkpoint || parts_.sealing() ||
      shard >= progress_.shards()) {
    return;
  }
  if (receipt.ok()) {
    if (parts_.Written(checkpoint, shard, *receipt)) Seal(now, effects);
  } else if (!WaitsForRoom(shard, receipt.status(), now)) {
    OnSealed(checkpoint, receipt.status(), now, effects);
  }
}

void RunLeader::Seal(Time now, ServerEffects* effects) {
  const auto& under_way = coordinator_.checkpoint_under_way();
  CheckpointManifest manifest;
  manifest.set_id(under_way->checkpoint);
  *manifest.mutable_config() = coordinator_.config();
  *manifest.mutable_model() = *coordinator_.model();
  *manifest.mutable_placement() = *coordinator_.placement();
  manifest.set_name(under_way->name);
  manifest.set_clock(under_way->position.clock);
  manifest.set_steps(under_way->position.steps);
  manifest.set_epoch(under_way->position.epoch);
  *manifest.mutable_remaining() = under_way->position.remaining.Save();
  manifest.set_repeated_batches(under_way->position.repeated);
  manifest.set_lost_batches(under_way->position.lost);
  manifest.set_batches_per_epoch(coordinator_.batches_per_epoch());
  manifest.set_train_samples(coordinator_.train_samples());
  manifest.set_epoch_progress(
      ProgressAt(under_way->position, static_cast<uint32_t>(coordinator_.batches_per_epoch())));
  manifest.set_seconds_trained(coordinator_.SecondsTrained(now));
  *manifest.mutable_hyper() = under_way->hyper;
  *manifest.mutable_total() = under_way->total;
  // Also those of earlier weights that came since.
  const std::vector<EvalResult>& evaluations = coordinator_.evaluations();
  for (size_t i = 0; i < evaluations.size(); ++i) {
    const bool before = i < under_way->evaluations.size();
    if (before || evaluations[i].epoch() <= manifest.epoch_progress()) {
      *manifest.add_evaluations() = evaluations[i];
    }
  }
  for (const auto& [number, part] : parts_.receipts()) *manifest.add_shards() = part;
  effects->push_back(effect::SealCheckpoint{std::move(manifest), stored().epoch()});
}

void RunLeader::OnSealed(uint64_t checkpoint, const absl::StatusOr<SealedCheckpoint>& sealed,
                         Time now, ServerEffects* effects) {
  const auto& under_way = coordinator_.checkpoint_under_way();
  if (!under_way || under_way->checkpoint != checkpoint) return;
  if (WaitsForRoom(std::nullopt, sealed.status(), now)) return;
  parts_.End();
  Effects decided;
  coordinator_.CheckpointDone(checkpoint, sealed.status(), &decided);
  Decide(std::move(decided));
  checkpoint_done_ = checkpoint;
  if (!sealed.ok()) unsealed_ = checkpoint;
  checkpoints_.Ended(checkpoint, sealed, now, effects);
  SettleStoreAndTell(now, effects);
}

bool RunLeader::WaitsForRoom(std::optional<uint32_t> part, const absl::Status& status, Time now) {
  if (!absl::IsResourceExhausted(status) || !coordinator_.last_checkpoint_under_way()) return false;
  if (!WaitsOnForRoom(now)) return false;
  parts_.LackRoom(part, status, now);
  return true;
}

// With a journal the run may go on later, with its last checkpoint: ps-server ends it. Without one,
// the weights must be saved at least.
bool RunLeader::WaitsOnForRoom(Time now) {
  const Config& config = coordinator_.config();
  const Duration most = HasJournal(config) && !coordinator_.fails()
                            ? Duration::max()
                            : Milliseconds(config.cluster().deadline());
  return parts_.WaitsOn(asked_to_stop(), most, now);
}

void RunLeader::WriteLastCheckpointAgain(Time now, ServerEffects* effects) {
  if (parts_.no_room().ok()) return;
  const uint64_t checkpoint = coordinator_.checkpoint_under_way()->checkpoint;
  if (!WaitsOnForRoom(now)) {
    const absl::Status no_room = parts_.no_room();
    return OnSealed(checkpoint, no_room, now, effects);
  }
  if (!parts_.TakeDue(now)) return;
  for (const uint32_t shard : parts_.TakeUnwritten())
    effects->push_back(effect::WritePart{checkpoint, shard, stored().epoch()});
  if (parts_.sealing()) Seal(now, effects);
}

void RunLeader::OnQuarantined(QuarantinedWorker worker, Time now, ServerEffects* effects) {
  worker.why = Readable(worker.why);
  Effects decided;
  coordinator_.Quarantine(worker, &decided);
  Decide(std::move(decided));
  SettleStoreAndTell(now, effects);
}

void RunLeader::Tick(Time now, ServerEffects* effects) {
  copies_.Tick(now);
  Effects decided;
  coordinator_.Tick(now, &decided);
  if (!decided.commands.empty() || !decided.news.empty()) Decide(std::move(decided));
  if (counts_changed_ && now >= store_counts_) {
    counts_changed_ = false;
    store_counts_ = now + kStoreCounts;
    if (CountsAreNew(now)) ++changes_;
  }
  checkpoints_.Tick(now, effects);
  WriteLastCheckpointAgain(now, effects);
  LookWhatWaits(now, effects);
  SettleStoreAndTell(now, effects);
}

std::optional<LateWorkers> RunLeader::LookWhoIsLate(Time now) {
  for (int s = 0; s < stored().shards_size(); ++s) {
    const auto shard = static_cast<uint32_t>(s);
    const CopyState* const copy = copies_.Find(stored().shards(s).leader(), shard);
    if (copy != nullptr) late_watch_.See(shard, copy->status(), now);
  }
  // At the end of the run workers wait for the last segment of others, and pull nothing.
  late_watch_.See(static_cast<uint32_t>(stored().shards_size()), coordinator_.LateAtTheEnd(), now);
  return late_watch_.Late(now, [&](uint32_t worker) {
    return now - coordinator_.LastHeard(worker) > LateWatch::kSilence;
  });
}

std::string RunLeader::WaitsForWorkers(const LateWorkers& late) const {
  // One that evaluates may take its time, but is heard.
  const std::vector<std::string> names = late.silent ? coordinator_.NamesOfLive(late.workers)
                                                     : coordinator_.NamesOfTraining(late.workers);
  if (names.empty()) return "";
  return LateText(late, names, coordinator_.config().cluster().lease());
}

void RunLeader::LookWhatWaits(Time now, ServerEffects* effects) {
  std::string waits = coordinator_.over() ? "" : WaitsFor();
  const bool may_train = coordinator_.state() != StatusReply::WAITING && !coordinator_.over();
  std::optional<LateWorkers> late;
  if (may_train && waits.empty()) {
    late = LookWhoIsLate(now);
  } else {
    late_watch_.Forget();
  }
  if (late) waits = WaitsForWorkers(*late);
  if (late && waits.empty()) {
    late_watch_.Excuse(now);
    late.reset();
  }
  std::optional<Time> since;
  if (late) since = late->since;
  wait_news_.See(std::move(waits), since, now, effects);
}

bool RunLeader::trained() const {
  return coordinator_.over() && !orders_.pending() && coordinator_.NobodyIsLeft();
}

void RunLeader::Close(Time now, ServerEffects* effects) {
  closing_ = true;
  SettleStoreAndTell(now, effects);
}

// --- Storing and announcing
// ------------------------------------------------------------------------------------------

void RunLeader::SettleStoreAndTell(Time now, ServerEffects* effects) {
  if (!deposed_.ok()) return;
  for (const WorkerKey& worker : std::exchange(expelled_, {}))
    effects->push_back(effect::Expel{worker});
  if (closing_ && !copies_.record().over() && trained()) copies_.EndRun();
  for (uint32_t s = 0; s < progress_.shards(); ++s) {
    const absl::Status settled = copies_.Settle(s, now, &news_);
    if (!settled.ok()) Lose(std::string(settled.message()));
  }
  Resume();
  if (!coordinator_.over()) copies_.Balance(&news_);
  GiveOrders(now, effects);
  Store(now, effects);
  // A server that was replaced and does not know it must not end the run of the others.
  if (!lost_.ok() && (store_.run().changes >= lost_change_ || !training())) deposed_ = lost_;
  Assign(effects);
  AnswerPending(now, effects);
  if (AllStored() || !training()) {
    for (std::string& text : std::exchange(news_, {}))
      effects->push_back(effect::News{std::move(text)});
  }
}

RunRecord RunLeader::RecordNow(Time now) const {
  RunRecord record = copies_.record();
  if (!record.has_plan()) return record;
  CoordinatorRecord* const coordinator = record.mutable_coordinator();
  *coordinator = coordinator_.SaveWithoutPlan(now);
  orders_.Save(coordinator);
  for (const auto& [worker, pass] : passes_) *coordinator->add_passes() = pass;
  return record;
}

// Whether more than time has passed since the stored record.
bool RunLeader::CountsAreNew(Time now) const {
  RunRecord record = RecordNow(now);
  if (record.has_plan()) {
    record.mutable_coordinator()->set_seconds_trained(stored().coordinator().seconds_trained());
  }
  return BytesOf(record) != BytesOf(stored());
}

void RunLeader::Store(Time now, ServerEffects* effects) {
  if (AllStored()) store_.TakesIntoAccount(copies_.MarkNow());
  if (AllStored() || orders_.installs() || !store_.MayWrite(now)) return;
  if (store_.WriteAgain(effects)) return;
  if (store_.plan() != nullptr && !store_.plan()->model().has_preparation() &&
      coordinator_.model()->has_preparation()) {
    // The run goes on from a checkpoint of an earlier version, and a worker brought it.
    auto plan = std::make_shared<RunPlan>(*store_.plan());
    *plan->mutable_model() = *coordinator_.model();
    store_.SetPlan(std::move(plan));
  }
  store_.Write({RecordNow(now), Changes(), orders_.last(), checkpoint_done_, copies_.MarkNow()},
               effects);
}

void RunLeader::GiveOrders(Time now, ServerEffects* effects) {
  std::vector<uint64_t> written(progress_.shards());
  const uint64_t last = training() ? store_.run().last_order : orders_.last();
  for (uint32_t s = 0; s < progress_.shards(); ++s) {
    const ShardCopies& shard = stored().shards(static_cast<int>(s));
    const CopyState* const copy = copies_.FindLeading(shard, s);
    if (copy == nullptr) {
      progress_.Wait(s, now);
      continue;
    }
    if (training()) written[s] = copy->written_order();
    progress_.Give(
        s, {shard.leader(), shard.epoch(), copies_.LinkTo(shard.leader()), copy->written_order()},
        last, orders_, now, effects);
  }
  const uint64_t done = progress_.CarriedOut(orders_.last());
  orders_.CarriedOut(done);
  if (!training() && coordinator_.model() != nullptr && !orders_.installs()) {
    copies_.SetPlacement(*coordinator_.placement());
    copies_.BeginTraining();
    auto plan = std::make_shared<RunPlan>();
    *plan->mutable_model() = *coordinator_.model();
    *plan->mutable_placement() = *coordinator_.placement();
    plan->mutable_placement()->clear_endpoints();
    store_.SetPlan(std::move(plan));
    store_.InFirstImages(done);
    return;
  }
  if (!training()) return;
  if (const absl::Status fits = orders_.Written(written); !fits.ok())
    Lose(std::string(fits.message()));
}

void RunLeader::Assign(ServerEffects* effects) {
  Assignment common;
  common.set_run_epoch(stored().epoch());
  common.set_revision(static_cast<uint64_t>(revision()));
  common.set_checkpoint_done(store_.run().checkpoint_done);
  common.set_over(stored().over());
  copies_.Assign(stored(), store_.run().copies, common, effects);
}

void RunLeader::AnswerPending(Time now, ServerEffects* effects) {
  const uint64_t done = progress_.CarriedOut(orders_.last());
  for (auto at = pending_.begin(); at != pending_.end();) {
    const bool stored = at->change <= store_.run().changes || !training();
    if (stored && at->order <= done && !orders_.installs()) {
      AnswerNow(at->request, std::move(at->reply), effects);
    } else if (now >= at->deadline) {
      const std::string waits = WaitsFor();
      AnswerNow(at->request, absl::UnavailableError(waits.empty() ? "the server is busy" : waits),
                effects);
    } else {
      ++at;
      continue;
    }
    at = pending_.erase(at);
  }
}

}  // namespace psgd
