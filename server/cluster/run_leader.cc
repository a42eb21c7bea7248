#include "server/cluster/run_leader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/names.h"
#include "net/transport_security.h"
#include "net/wire_format.h"
#include "server/coordinator/access.h"

namespace psgd {
namespace {

constexpr Duration kRetry = std::chrono::milliseconds(50);
constexpr Duration kAnswerWithin = std::chrono::seconds(2);
constexpr uint32_t kWaitMs = 100;
constexpr size_t kCatchingUp = 4;         // copies that catch up at once
constexpr uint64_t kJoinsAnEpoch = 1000;  // of one worker, before training begins
constexpr Duration kStoreCounts = std::chrono::seconds(1);
// A longer wait is reported.
constexpr Duration kMoment = std::chrono::seconds(2);

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

bool Installs(const ShardCommand& command) { return std::holds_alternative<InstallModel>(command); }

void SetEndpoints(const std::vector<std::string>& endpoints, Placement* placement) {
  placement->mutable_endpoints()->Assign(endpoints.begin(), endpoints.end());
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
    shard.add_in_sync(self.server());
    shard.add_copies(self.server());
    shard.clear_endpoint();
  }
  return record;
}

RunLeader::RunLeader(RunLeaderOptions options, int64_t revision, RunRecord record)
    : options_(std::move(options)),
      coordinator_(options_.coordinator),
      stored_(record),
      record_(std::move(record)),
      revision_(revision),
      heard_(static_cast<size_t>(record_.shards_size())),
      stored_heard_(heard_),
      progress_(static_cast<size_t>(record_.shards_size())),
      targets_(LeadersOf(record_)) {}

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
  std::unique_ptr<RunLeader> leader(new RunLeader(std::move(options), revision, std::move(record)));
  for (const RunServer& server : leader->record_.servers())
    leader->peers_[server.server()].heard = now;
  if (plan != nullptr) PSGD_RETURN_IF_ERROR(leader->Restore(*plan, now));
  return leader;
}

absl::Status RunLeader::Restore(const RunPlan& plan, Time now) {
  plan_ = std::make_shared<RunPlan>(plan);
  plan_stored_ = true;
  CoordinatorRecord coordinator = record_.coordinator();
  *coordinator.mutable_model() = plan.model();
  *coordinator.mutable_placement() = plan.placement();
  SetEndpoints(Endpoints(), coordinator.mutable_placement());
  coordinator_.Restore(coordinator, now);
  PSGD_RETURN_IF_ERROR(orders_.Restore(coordinator));
  for (const CoordinatorRecord::Pass& pass : coordinator.passes())
    passes_[pass.key().worker()] = pass;
  stored_order_ = orders_.last();
  gathered_ = coordinator.ledger().next_id() > 1;
  return absl::OkStatus();
}

// --- Servers and copies
// ------------------------------------------------------------------------------------------

void RunLeader::Welcome(uint64_t link, const ServerState& state, Time now, ServerEffects* effects) {
  const auto refuse = [&](std::string why) {
    effects->push_back(effect::Refuse{link, absl::FailedPreconditionError(std::move(why))});
  };
  RunServer self = state.self();
  if (!state.run_id().empty() && state.run_id() != record_.run_id()) {
    return refuse(absl::StrCat("the run directory of that server is of another run (",
                               state.run_id(), "; this is ", record_.run_id(),
                               "): give it another --run-dir"));
  }
  RunServer* known = nullptr;
  for (RunServer& server : *record_.mutable_servers()) {
    if (server.identity() == self.identity()) known = &server;
  }
  if (known == nullptr) {
    if (record_.over()) return refuse("the run is over");
    known = record_.add_servers();
    known->set_server(record_.next_server());
    record_.set_next_server(known->server() + 1);
    news_.push_back(absl::StrCat("server ", known->server(), " (", self.name(), ") joined"));
  }
  self.set_server(known->server());
  *known = self;
  // The server gets its assignment once this change is stored: a replaced leader that does not know
  // it yet must not make other servers drop their copies.
  ++changes_;
  Peer& peer = peers_[known->server()];
  peer = {};
  peer.link = link;
  peer.heard = now;
  peer.came = changes_;
}

void RunLeader::OnState(uint64_t link, const ServerState& state, Time now, ServerEffects* effects) {
  auto at = std::find_if(peers_.begin(), peers_.end(),
                         [&](const auto& peer) { return peer.second.link == link; });
  if (at == peers_.end()) {
    Welcome(link, state, now, effects);
    at = std::find_if(peers_.begin(), peers_.end(),
                      [&](const auto& peer) { return peer.second.link == link; });
    if (at == peers_.end()) return;
  }
  Peer& peer = at->second;
  peer.heard = now;
  peer.state = state;
  GoOn(now, effects);
}

void RunLeader::OnLinkGone(uint64_t link) {
  for (auto& [server, peer] : peers_) {
    if (peer.link == link) Away(&peer);
  }
}

void RunLeader::Away(Peer* peer) {
  peer->link = 0;
  peer->restarted.clear();
  peer->assigned.clear();
}

bool RunLeader::IsHere(uint32_t server) const {
  const auto peer = peers_.find(server);
  return peer != peers_.end() && peer->second.link != 0;
}

// The server had time enough to connect, or to show that it lives.
bool RunLeader::IsGone(uint32_t server, Time now) const {
  const auto peer = peers_.find(server);
  return peer != peers_.end() && now >= peer->second.heard + options_.patience;
}

bool RunLeader::IsLost(uint32_t server, Time now) const {
  const Config& config = options_.coordinator.config;
  return config.durability().acknowledge() == DurabilityConfig::MEMORY && IsGone(server, now) &&
         now >= peers_.at(server).heard + Milliseconds(config.cluster().deadline());
}

const CopyState* RunLeader::Find(uint32_t server, uint32_t shard) const {
  const auto peer = peers_.find(server);
  if (peer == peers_.end() || peer->second.link == 0) return nullptr;
  for (const CopyState& copy : peer->second.state.copies()) {
    if (copy.shard() == shard) return copy.empty() ? nullptr : &copy;
  }
  return nullptr;
}

// The copy leads or follows since the server's process began: nothing that the process wrote is
// lost.
bool RunLeader::GoesOn(uint32_t server, uint32_t shard) const {
  const CopyState* const copy = Find(server, shard);
  return copy != nullptr && (copy->epoch() > 0 || peers_.at(server).restarted.contains(shard));
}

std::vector<uint64_t> RunLeader::links() const {
  std::vector<uint64_t> links;
  for (const auto& [server, peer] : peers_) {
    if (peer.link != 0 && peer.link != kOwnLink) links.push_back(peer.link);
  }
  return links;
}

std::set<uint32_t> RunLeader::Present() const {
  std::set<uint32_t> present;
  for (const auto& [server, peer] : peers_) {
    if (peer.link != 0 && !peer.state.leaving()) present.insert(server);
  }
  return present;
}

void RunLeader::SettleLeader(uint32_t s, Time now) {
  ShardCopies* const shard = record_.mutable_shards(static_cast<int>(s));
  const uint32_t leader = shard->leader();
  if (GoesOn(leader, s)) return;
  uint32_t goes_on = 0;    // another server in sync, with a copy that goes on
  uint32_t from_disk = 0;  // the server in sync whose disk has most entries
  bool may_come = false;
  for (const uint32_t server : shard->in_sync()) {
    const CopyState* const copy = Find(server, s);
    may_come = may_come || (copy != nullptr && copy->unread());
    if (copy != nullptr && !copy->unread() &&
        (from_disk == 0 || copy->entries() > Find(from_disk, s)->entries() ||
         (copy->entries() == Find(from_disk, s)->entries() && server == leader))) {
      from_disk = server;
    }
    if (server == leader) continue;
    if (GoesOn(server, s)) goes_on = server;
    may_come = may_come || (!IsHere(server) && !IsGone(server, now));
  }
  if (!IsHere(leader) && !IsGone(leader, now)) return;
  if (goes_on != 0) return Promote(s, goes_on);
  // A server whose copy went on all the time may still come. It has what a machine that lost power
  // may have lost.
  if (may_come) return;
  if (from_disk == leader) {
    const absl::Status whole = CheckJournalEnd(*shard, s, Find(leader, s)->entries());
    if (!whole.ok()) return Lose(std::string(whole.message()));
    shard->set_epoch(shard->epoch() + 1);
    peers_.at(leader).restarted[s] = shard->epoch();
    ++changes_;
  } else if (from_disk != 0) {
    Promote(s, from_disk);
    peers_.at(from_disk).restarted[s] = shard->epoch();
  } else if (shard->in_sync_size() == 1) {
    if (IsHere(leader)) {
      Lose(absl::StrCat("server ", leader, " came back without shard ", s,
                        ", of which nobody else has a copy"));
    } else if (IsLost(leader, now)) {
      Lose(absl::StrCat("server ", leader, " has not answered for longer than cluster.deadline, ",
                        "and shard ", s,
                        " was in its memory alone (durability.acknowledge: memory)"));
    }
  }
}

void RunLeader::Promote(uint32_t s, uint32_t server) {
  ShardCopies* const shard = record_.mutable_shards(static_cast<int>(s));
  const uint32_t before = shard->leader();
  Apply({CopyChange::kPromote, s, server}, &record_);
  RemoveInSync(before, shard);
  shard->set_entries(0);  // the old leader may have written entries that no other copy got
  ++changes_;
  news_.push_back(
      absl::StrCat("server ", server, " leads shard ", s, " in place of server ", before));
}

void RunLeader::SettleFollowers(uint32_t s, Time now) {
  ShardCopies* const shard = record_.mutable_shards(static_cast<int>(s));
  if (!GoesOn(shard->leader(), s)) return;  // the followers may be needed
  const std::vector<uint32_t> copies(shard->copies().begin(), shard->copies().end());
  for (const uint32_t server : copies) {
    if (server == shard->leader()) continue;
    if (IsGone(server, now)) {
      Apply({CopyChange::kDrop, s, server}, &record_);
      ++changes_;
    } else if (IsHere(server) && !GoesOn(server, s) && RemoveInSync(server, shard)) {
      ++changes_;  // the server was restarted: its last writes may be lost, so it must catch up
    }
  }
}

bool RunLeader::Leads(uint32_t s) const {
  const ShardCopies& shard = record_.shards(static_cast<int>(s));
  const CopyState* const copy = Find(shard.leader(), s);
  return copy != nullptr && copy->epoch() == shard.epoch() && copy->leads();
}

void RunLeader::HearReports(uint32_t s) {
  if (!Leads(s)) return;
  ShardCopies* const shard = record_.mutable_shards(static_cast<int>(s));
  const CopyState* const copy = Find(shard->leader(), s);
  if (!copy->endpoint().empty() && copy->endpoint() != shard->endpoint()) {
    shard->set_endpoint(copy->endpoint());
    ++changes_;
  }
  shard->set_entries(std::max(shard->entries(), copy->entries()));
  heard_[s] = copy->report();
  for (const uint32_t server : copy->silent()) {
    if (!RemoveInSync(server, shard)) continue;
    ++changes_;
    news_.push_back(absl::StrCat("shard ", s, " goes on without its copy on server ", server,
                                 ", which does not answer"));
  }
  for (const uint32_t server : copy->caught_up()) {
    if (AddInSync(server, shard)) ++changes_;
  }
}

void RunLeader::Balance() {
  if (!training() || record_.over() || coordinator_.over()) return;
  const std::set<uint32_t> present = Present();
  if (present != spread_over_) {
    targets_ = SpreadLeaders(record_, present);
    spread_over_ = present;
  }
  CopyTargets targets{present, targets_, options_.copies};
  size_t catching_up = 0;
  for (int s = 0; s < record_.shards_size(); ++s) {
    const ShardCopies& shard = record_.shards(s);
    catching_up += static_cast<size_t>(shard.copies_size() - shard.in_sync_size());
    // A shard whose leader is away stays where it is until SettleLeader decides.
    if (!present.contains(shard.leader()) && !IsHere(shard.leader()))
      targets.leaders[s] = shard.leader();
  }
  for (uint32_t s = 0; s < static_cast<uint32_t>(record_.shards_size()); ++s) {
    if (!GoesOn(record_.shards(static_cast<int>(s)).leader(), s)) continue;
    const auto change = NextChange(record_, s, targets);
    if (!change || (change->what == CopyChange::kAdd && catching_up >= kCatchingUp)) continue;
    // Copies are dropped once the leading copy reports that it leads.
    if (change->what == CopyChange::kDrop && !Leads(s)) continue;
    catching_up += change->what == CopyChange::kAdd ? 1 : 0;
    const uint32_t before = record_.shards(static_cast<int>(s)).leader();
    Apply(*change, &record_);
    ++changes_;
    if (change->what == CopyChange::kPromote) {
      news_.push_back(
          absl::StrCat("shard ", s, " moved from server ", before, " to server ", change->server));
    }
  }
}

std::vector<std::string> RunLeader::Endpoints() const {
  std::vector<std::string> endpoints;
  for (const ShardCopies& shard : stored_.shards()) endpoints.push_back(shard.endpoint());
  return endpoints;
}

bool RunLeader::EndpointsKnown() const {
  return std::none_of(stored_.shards().begin(), stored_.shards().end(),
                      [](const ShardCopies& shard) { return shard.endpoint().empty(); });
}

void RunLeader::Lose(const std::string& why) {
  if (coordinator_.drained()) return;
  DrainRequest failed;
  failed.set_reason(why);
  failed.set_failed(true);
  Effects decided;
  coordinator_.Drain(failed, &decided);
  Decide(std::move(decided));
  deposed_ = absl::DataLossError(why);
}

// --- Requests
// ------------------------------------------------------------------------------------------

void RunLeader::Decide(Effects decided) {
  ++changes_;
  Expel(decided.commands);
  orders_.Add(std::move(decided.commands));
  for (std::string& news : decided.news) news_.push_back(std::move(news));
}

template <typename Reply>
void RunLeader::AnswerOnceStored(uint64_t request, absl::StatusOr<Reply> reply, Effects decided,
                                 Time now) {
  Decide(std::move(decided));
  pending_.push_back(
      {request, AsControlReply(std::move(reply)), changes_, orders_.last(), now + kAnswerWithin});
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
  leaders.set_epoch(stored_.epoch());
  for (const RunServer& server : stored_.servers()) {
    if (server.server() == stored_.leader()) leaders.add_addresses(server.address());
  }
  for (const RunServer& server : stored_.servers()) {
    if (server.server() != stored_.leader() && server.may_lead() && IsHere(server.server()))
      leaders.add_addresses(server.address());
  }
  return leaders;
}

absl::StatusOr<JoinReply> RunLeader::Join(const JoinRequest& request, Time now, Effects* decided,
                                          ServerEffects* effects) {
  if (request.protocol() != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the worker speaks protocol ", request.protocol(), ", this server ",
                     kProtocolVersion, "; install the same version of psgd on both"));
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
  counts_changed_ = true;
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
  gathered_ = waits.empty() || coordinator_.drained();
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

absl::StatusOr<RebalanceReply> RunLeader::Rebalance(const RebalanceRequest& request) {
  std::vector<uint32_t> targets = SpreadLeaders(record_, Present());
  if (request.moves_size() > 0) targets = targets_;
  for (const RebalanceRequest::Move& move : request.moves()) {
    if (move.shard() >= targets.size()) {
      return absl::NotFoundError(
          absl::StrCat("there is no shard ", move.shard(), "; ps-ctl status lists the shards"));
    }
    if (!Present().contains(move.server())) {
      return absl::NotFoundError(absl::StrCat("server ", move.server(),
                                              " is not there, or leaves; ps-ctl status lists "
                                              "the servers"));
    }
    targets[move.shard()] = move.server();
  }
  targets_ = targets;
  spread_over_ = Present();
  RebalanceReply reply;
  reply.mutable_owners()->Assign(targets.begin(), targets.end());
  return reply;
}

void RunLeader::OnRequest(uint64_t request, const ControlRequest& asked, Time now,
                          ServerEffects* effects) {
  Effects decided;
  if (const auto* join = std::get_if<JoinRequest>(&asked)) {
    auto reply = Join(*join, now, &decided, effects);
    AnswerOnceStored(request, std::move(reply), std::move(decided), now);
  } else if (const auto* registers = std::get_if<RegisterRequest>(&asked)) {
    auto reply = Register(*registers, now, &decided);
    AnswerOnceStored(request, std::move(reply), std::move(decided), now);
  } else if (const auto* next = std::get_if<NextSegmentRequest>(&asked)) {
    auto reply = NextSegment(*next, now, &decided);
    AnswerOnceStored(request, std::move(reply), std::move(decided), now);
  } else if (const auto* evaluated = std::get_if<EvaluatedRequest>(&asked)) {
    const absl::Status status = coordinator_.Evaluated(*evaluated, now, &decided);
    if (status.ok()) effects->push_back(effect::Observed{evaluated->result()});
    AnswerOnceStored(request, IfOk<EvaluatedReply>(status), std::move(decided), now);
  } else if (const auto* beat = std::get_if<HeartbeatRequest>(&asked)) {
    Heartbeat(request, *beat, now, effects);
  } else if (const auto* leave = std::get_if<LeaveRequest>(&asked)) {
    LeaveRequest readable = *leave;
    readable.set_reason(Readable(leave->reason()));
    const absl::Status status = coordinator_.Leave(readable, now, &decided);
    AnswerOnceStored(request, IfOk<LeaveReply>(status), std::move(decided), now);
  } else if (const auto* checkpoint = std::get_if<CheckpointRequest>(&asked)) {
    BeginCheckpoint(request, *checkpoint, now, effects);
  } else if (const auto* drain = std::get_if<DrainRequest>(&asked)) {
    absl::Status status;
    if (drain->has_worker()) {
      status = coordinator_.DrainWorker(drain->worker(), &decided);
    } else {
      DrainRequest readable = *drain;
      readable.set_reason(Readable(drain->reason()));
      coordinator_.Drain(readable, &decided);
    }
    AnswerOnceStored(request, IfOk<DrainReply>(status), std::move(decided), now);
  } else if (const auto* hyper = std::get_if<SetHyperRequest>(&asked)) {
    auto changed = coordinator_.SetHyper(*hyper, &decided);
    SetHyperReply reply;
    if (changed.ok()) *reply.mutable_hyper() = *changed;
    AnswerOnceStored(request, IfOk(changed.status(), reply), std::move(decided), now);
  } else if (const auto* rebalance = std::get_if<RebalanceRequest>(&asked)) {
    AnswerNow(request, AsControlReply(Rebalance(*rebalance)), effects);
  } else {
    AnswerNow(request, ControlReply(Status(now)), effects);
  }
  GoOn(now, effects);
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
  awaited_checkpoints_.push_back({*id, request, now + deadline});
}

void RunLeader::EndCheckpointWaits(Time now, ServerEffects* effects) {
  std::erase_if(awaited_checkpoints_, [&](const Awaiting& awaiting) {
    if (now < awaiting.deadline) return false;
    AnswerNow(awaiting.request,
              absl::DeadlineExceededError(absl::StrCat(
                  "checkpoint ", awaiting.checkpoint,
                  " was asked for but no worker has reached the end of its segment within "
                  "cluster.deadline; it will be taken when they do (cluster.segment sets how "
                  "often)")),
              effects);
    return true;
  });
}

StatusReply RunLeader::Status(Time now) const {
  StatusReply status = coordinator_.Status(now);
  for (const auto& [checkpoint, taken] : checkpoints_) {
    *status.add_checkpoints() = checkpoint;
    status.mutable_checkpoints()->rbegin()->set_age_seconds(Seconds(now - taken));
  }
  status.set_failed_checkpoint(failed_checkpoint_);
  if (told_waits_) status.set_waits_for(waits_);
  for (const RunServer& server : stored_.servers()) {
    ServerStatus* const told = status.add_servers();
    told->set_server(server.server());
    told->set_name(server.name());
    told->set_connected(IsHere(server.server()));
    told->set_leads(server.server() == stored_.leader());
    const auto peer = peers_.find(server.server());
    if (peer == peers_.end()) continue;
    told->set_leaving(peer->second.state.leaving());
    told->set_seconds_since_heard(Seconds(now - peer->second.heard));
  }
  for (int s = 0; s < stored_.shards_size(); ++s) {
    const ShardCopies& shard = stored_.shards(s);
    ShardStatus* const told = status.add_shards();
    if (const CopyState* const copy = Find(shard.leader(), static_cast<uint32_t>(s)))
      *told = copy->status();
    told->set_shard(static_cast<uint32_t>(s));
    told->set_server(shard.leader());
    told->set_endpoint(shard.endpoint());
    *told->mutable_in_sync() = shard.in_sync();
    *told->mutable_copies() = shard.copies();
  }
  return status;
}

std::string RunLeader::WaitsFor() const {
  std::vector<std::string> waits;
  if (!store_trouble_.empty()) waits.push_back(absl::StrCat("the run store: ", store_trouble_));
  const size_t here = Present().size();
  if (!gathered_ && here < options_.servers) {
    waits.push_back(absl::StrCat("servers: ", here, " of ", options_.servers, " are here"));
  }
  const size_t copies = std::min(options_.copies, options_.servers);
  for (int s = 0; s < stored_.shards_size(); ++s) {
    const ShardCopies& shard = stored_.shards(s);
    const auto number = static_cast<uint32_t>(s);
    if (!GoesOn(shard.leader(), number)) {
      waits.push_back(absl::StrCat("server ", shard.leader(), ", which has shard ", s));
    } else if (!gathered_ && static_cast<size_t>(shard.in_sync_size()) < copies) {
      waits.push_back(absl::StrCat("a copy of shard ", s));
    }
    const CopyState* const copy = Find(shard.leader(), number);
    if (copy != nullptr && !copy->trouble().empty())
      waits.push_back(absl::StrCat("shard ", s, ": ", copy->trouble()));
  }
  return waits.empty() ? "" : absl::StrCat("waiting for ", absl::StrJoin(waits, "; "));
}

// --- Outcomes of effects
// -----------------------------------------------------------------------------------------

void RunLeader::OnStoreWritten(const absl::StatusOr<int64_t>& revision, Time now,
                               ServerEffects* effects) {
  write_under_way_ = false;
  if (absl::IsAborted(revision.status())) {
    deposed_ = revision.status();
    return;
  }
  store_trouble_ = std::string(revision.status().message());
  if (!revision.ok()) {
    write_again_ = now + kRetry;
    return;
  }
  revision_ = *revision;
  stored_changes_ = writing_.changes;
  stored_order_ = writing_.last_order;
  stored_checkpoint_done_ = writing_.checkpoint_done;
  stored_heard_ = writing_.heard;
  stored_ = std::move(writing_.record);
  plan_stored_ = plan_stored_ || writing_.plan != nullptr;
  if (training() && EndpointsKnown()) coordinator_.MoveShards(Endpoints());
  GoOn(now, effects);
}

void RunLeader::OnOrderDone(uint32_t shard, uint64_t epoch, uint64_t number,
                            const absl::Status& status, Time now, ServerEffects* effects) {
  Progress& progress = progress_[shard];
  if (epoch != progress.epoch || number <= progress.done) return;
  if (absl::IsUnavailable(status)) {
    progress.sent = progress.done;  // the order is sent again
    progress.retry = now + kRetry;
    return;
  }
  if (!status.ok()) {
    // A shard without a model cannot train.
    if (orders_.installs() || absl::IsDataLoss(status)) Lose(std::string(status.message()));
    news_.push_back(absl::StrCat("shard ", shard, ": ", std::string(status.message())));
  }
  progress.done = number;
  GoOn(now, effects);
}

void RunLeader::OnPart(uint64_t checkpoint, uint32_t shard,
                       const absl::StatusOr<ShardReceipt>& receipt, Time now,
                       ServerEffects* effects) {
  const auto& under_way = coordinator_.checkpoint_under_way();
  if (!under_way || under_way->checkpoint != checkpoint || sealing_) return;
  if (!receipt.ok()) {
    OnSealed(checkpoint, receipt.status(), now, effects);
    return;
  }
  if (std::exchange(receipts_of_, checkpoint) != checkpoint) receipts_.clear();
  receipts_[shard] = *receipt;
  if (receipts_.size() < static_cast<size_t>(record_.shards_size())) return;
  sealing_ = true;
  CheckpointManifest manifest;
  manifest.set_id(checkpoint);
  *manifest.mutable_config() = coordinator_.config();
  *manifest.mutable_model() = *coordinator_.model();
  *manifest.mutable_placement() = *coordinator_.placement();
  manifest.set_name(under_way->name);
  manifest.set_clock(under_way->position.clock);
  manifest.set_epoch(under_way->position.epoch);
  *manifest.mutable_remaining() = under_way->position.remaining.Save();
  manifest.set_batches_per_epoch(coordinator_.batches_per_epoch());
  manifest.set_epoch_progress(
      ProgressAt(under_way->position, static_cast<uint32_t>(coordinator_.batches_per_epoch())));
  manifest.set_seconds_trained(coordinator_.SecondsTrained(now));
  *manifest.mutable_hyper() = under_way->hyper;
  *manifest.mutable_total() = under_way->total;
  manifest.mutable_evaluations()->Add(under_way->evaluations.begin(), under_way->evaluations.end());
  for (const auto& [number, part] : receipts_) *manifest.add_shards() = part;
  effects->push_back(effect::SealCheckpoint{std::move(manifest)});
}

void RunLeader::OnSealed(uint64_t checkpoint, const absl::StatusOr<CheckpointInfo>& info, Time now,
                         ServerEffects* effects) {
  const auto& under_way = coordinator_.checkpoint_under_way();
  if (!under_way || under_way->checkpoint != checkpoint) return;
  sealing_ = false;
  receipts_.clear();
  Effects decided;
  coordinator_.CheckpointDone(checkpoint, info.status(), &decided);
  Decide(std::move(decided));
  checkpoint_done_ = checkpoint;
  failed_checkpoint_ = info.ok() ? ""
                                 : absl::StrCat("checkpoint ", checkpoint, ": ",
                                                std::string(info.status().message()));
  if (info.ok()) {
    checkpoints_.emplace_back(*info, now);
    // The store deletes the same checkpoints.
    const auto unnamed = [](const auto& entry) { return entry.first.name().empty(); };
    if (std::ranges::count_if(checkpoints_, unnamed) > coordinator_.config().durability().keep())
      checkpoints_.erase(std::ranges::find_if(checkpoints_, unnamed));
  }
  std::erase_if(awaited_checkpoints_, [&](const Awaiting& awaiting) {
    if (awaiting.checkpoint != checkpoint) return false;
    CheckpointReply taken;
    taken.set_id(checkpoint);
    if (info.ok()) {
      taken.set_epoch(info->epoch());
      taken.set_clock(info->clock());
      taken.set_name(info->name());
    }
    AnswerNow(awaiting.request, AsControlReply(IfOk(info.status(), taken)), effects);
    return true;
  });
  GoOn(now, effects);
}

void RunLeader::OnQuarantined(const WorkerKey& worker, const std::string& why, Time now,
                              ServerEffects* effects) {
  Effects decided;
  coordinator_.Quarantine(worker, Readable(why), &decided);
  Decide(std::move(decided));
  GoOn(now, effects);
}

void RunLeader::Tick(Time now, ServerEffects* effects) {
  // A silent server with an open link is frozen, or cut off in one direction.
  for (auto& [server, peer] : peers_) {
    if (peer.link != 0 && IsGone(server, now)) Away(&peer);
  }
  Effects decided;
  coordinator_.Tick(now, &decided);
  if (!decided.commands.empty() || !decided.news.empty()) Decide(std::move(decided));
  if (counts_changed_ && now >= store_counts_) {
    counts_changed_ = false;
    store_counts_ = now + kStoreCounts;
    ++changes_;
  }
  EndCheckpointWaits(now, effects);
  LookWhatWaits(now, effects);
  GoOn(now, effects);
}

void RunLeader::LookWhatWaits(Time now, ServerEffects* effects) {
  std::string waits = coordinator_.over() ? "" : WaitsFor();
  if (waits_.empty()) waits_since_ = now;
  if (!waits.empty() && !told_waits_ && now >= waits_since_ + kMoment) {
    told_waits_ = true;
    effects->push_back(effect::News{waits});
  }
  if (waits.empty() && std::exchange(told_waits_, false)) {
    effects->push_back(effect::News{absl::StrCat(
        "goes on after ", static_cast<int64_t>(std::lround(Seconds(now - waits_since_))), " s")});
  }
  waits_ = std::move(waits);
}

bool RunLeader::trained() const {
  return coordinator_.over() && !orders_.pending() && NobodyIsLeft();
}

void RunLeader::Close(Time now, ServerEffects* effects) {
  closing_ = true;
  GoOn(now, effects);
}

// --- Storing and announcing
// ------------------------------------------------------------------------------------------

void RunLeader::GoOn(Time now, ServerEffects* effects) {
  if (!deposed_.ok()) return;
  for (const WorkerKey& worker : std::exchange(expelled_, {}))
    effects->push_back(effect::Expel{worker});
  if (closing_ && !record_.over() && trained()) {
    record_.set_over(true);
    ++changes_;
  }
  for (uint32_t s = 0; s < progress_.size(); ++s) {
    HearReports(s);
    if (!training()) continue;
    SettleLeader(s, now);
    SettleFollowers(s, now);
  }
  Resume();
  Balance();
  GiveOrders(now, effects);
  Store(now, effects);
  Assign(effects);
  AnswerPending(now, effects);
  if (stored_changes_ == changes_ || !training()) {
    for (std::string& text : std::exchange(news_, {}))
      effects->push_back(effect::News{std::move(text)});
  }
}

RunRecord RunLeader::RecordNow(Time now) const {
  RunRecord record = record_;
  record.clear_coordinator();
  if (!record.has_plan()) return record;
  CoordinatorRecord* const coordinator = record.mutable_coordinator();
  *coordinator = coordinator_.Save(now);
  orders_.Save(coordinator);
  for (const auto& [worker, pass] : passes_) *coordinator->add_passes() = pass;
  coordinator->clear_model();
  coordinator->clear_placement();
  return record;
}

void RunLeader::Store(Time now, ServerEffects* effects) {
  if (stored_changes_ == changes_) stored_heard_ = heard_;
  if (write_under_way_ || stored_changes_ == changes_ || now < write_again_ || orders_.installs())
    return;
  write_under_way_ = true;
  // A write without an answer may have succeeded. The same record is written again: the store would
  // take a different record for another server's.
  if (!store_trouble_.empty()) {
    effects->push_back(effect::WriteStore{0, revision_, writing_.record, writing_.plan});
    return;
  }
  writing_ = {RecordNow(now),   plan_stored_ ? nullptr : plan_,
              changes_,         orders_.last(),
              checkpoint_done_, heard_};
  effects->push_back(effect::WriteStore{0, revision_, writing_.record, writing_.plan});
}

uint64_t RunLeader::CarriedOut() const {
  uint64_t done = orders_.last();
  for (const Progress& progress : progress_) done = std::min(done, progress.done);
  return done;
}

void RunLeader::GiveOrders(Time now, ServerEffects* effects) {
  std::vector<uint64_t> written(progress_.size());
  for (uint32_t s = 0; s < progress_.size(); ++s) {
    const ShardCopies& shard = stored_.shards(static_cast<int>(s));
    const CopyState* const copy = Find(shard.leader(), s);
    if (copy == nullptr || copy->epoch() != shard.epoch() || !copy->leads()) {
      progress_[s].retry = now;
      continue;
    }
    Progress& progress = progress_[s];
    const uint64_t link = peers_.at(shard.leader()).link;
    if (progress.epoch != shard.epoch())
      progress = {shard.epoch(), link, 0, copy->written_order(), {}};
    if (progress.link != link || progress.sent == 0) {  // orders on their way are lost
      progress.link = link;
      progress.sent = progress.done;
    }
    if (training()) written[s] = copy->written_order();
    if (now < progress.retry) continue;
    for (OrderBook::Order& order : orders_.orders()) {
      if (order.number <= progress.done) continue;
      if (order.number <= progress.sent && Installs(order.command)) break;
      if (order.number <= progress.sent) continue;
      if (training() && !Installs(order.command) && order.number > stored_order_) break;
      effects->push_back(effect::SendOrder{{shard.leader(), peers_.at(shard.leader()).link, s,
                                            shard.epoch(), order.number, order.command}});
      progress.sent = order.number;
      if (Installs(order.command)) break;  // first a disk must have the weights
    }
  }
  const uint64_t done = CarriedOut();
  for (OrderBook::Order& order : orders_.orders()) order.carried_out = order.number <= done;
  if (!training() && coordinator_.model() != nullptr && !orders_.installs()) {
    record_.set_has_plan(true);
    auto plan = std::make_shared<RunPlan>();
    *plan->mutable_model() = *coordinator_.model();
    *plan->mutable_placement() = *coordinator_.placement();
    plan->mutable_placement()->clear_endpoints();
    plan_ = std::move(plan);
    stored_order_ = done;  // the shards' first images have these orders
    ++changes_;
    return;
  }
  if (!training()) return;
  if (const absl::Status fits = orders_.Written(written); !fits.ok())
    Lose(std::string(fits.message()));
}

// A copy just read from disk leads only after SettleLeader chose it, and under a new epoch.
bool RunLeader::MayLead(uint32_t server, uint32_t s) const {
  const CopyState* const copy = Find(server, s);
  if (copy == nullptr) return false;
  if (copy->epoch() > 0) return true;
  const auto& restarted = peers_.at(server).restarted;
  const auto from = restarted.find(s);
  return from != restarted.end() && stored_.shards(static_cast<int>(s)).epoch() >= from->second;
}

Assignment RunLeader::AssignmentFor(uint32_t server) const {
  Assignment assignment;
  assignment.set_run_epoch(stored_.epoch());
  assignment.set_revision(static_cast<uint64_t>(revision_));
  assignment.set_run_id(stored_.run_id());
  assignment.set_server(server);
  assignment.set_checkpoint_done(stored_checkpoint_done_);
  assignment.set_over(stored_.over());
  for (int s = 0; s < stored_.shards_size(); ++s) {
    const ShardCopies& shard = stored_.shards(s);
    const auto number = static_cast<uint32_t>(s);
    if (!HoldsCopy(shard, server)) continue;
    AssignedCopy assigned;
    assigned.set_shard(number);
    assigned.set_epoch(shard.epoch());
    assigned.set_leader(shard.leader());
    *assigned.mutable_in_sync() = shard.in_sync();
    for (const RunServer& other : stored_.servers()) {
      if (other.server() == shard.leader()) assigned.set_leader_address(other.address());
    }
    if (shard.leader() == server) {
      assigned.set_fresh(!stored_.has_plan());
      if (!assigned.fresh() && !MayLead(server, number)) assigned.set_epoch(0);
      assigned.set_heard(stored_heard_[number]);
    }
    *assignment.add_copies() = std::move(assigned);
  }
  return assignment;
}

void RunLeader::Assign(ServerEffects* effects) {
  for (auto& [server, peer] : peers_) {
    const bool known = std::any_of(
        stored_.servers().begin(), stored_.servers().end(),
        [&, number = server](const RunServer& other) { return other.server() == number; });
    if (peer.link == 0 || !known || peer.came > stored_changes_) continue;
    Assignment assignment = AssignmentFor(server);
    Assignment same = assignment;
    same.clear_revision();  // a new revision alone changes nothing for the server
    std::string text = same.SerializeAsString();
    if (text == peer.assigned) continue;
    peer.assigned = std::move(text);
    effects->push_back(effect::SendAssignment{peer.link, std::move(assignment)});
  }
}

void RunLeader::AnswerPending(Time now, ServerEffects* effects) {
  const uint64_t done = CarriedOut();
  for (auto at = pending_.begin(); at != pending_.end();) {
    const bool stored = at->change <= stored_changes_ || !training();
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

bool RunLeader::NobodyIsLeft() const {
  const StatusReply status = coordinator_.Status(Time{});
  return std::none_of(status.workers().begin(), status.workers().end(),
                      [](const WorkerStatus& worker) { return worker.live(); });
}

}  // namespace psgd
