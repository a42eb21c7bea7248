#include "tests/sim/run_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/has_journal.h"
#include "server/cluster/copies.h"

namespace psgd::sim {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(10);
constexpr Duration kAskNext = std::chrono::milliseconds(150);
constexpr uint32_t kWorkersBeforeCalm = kMembers - 5;  // the rest is for ending the run
// How often a server dies right after it answers a push, where the scenario has such deaths.
constexpr double kDiesAfterAnswer = 0.05;
constexpr uint32_t kIncarnationsOfARun = 1u << 24;

Link LinkToShard(uint32_t process, uint32_t machine, uint32_t shard) {
  return {process, 1000 * (machine + 1) + shard};
}

}  // namespace

RunWorld::RunWorld(const Scenario& scenario, const RunFaults& faults, bool trace)
    : World(scenario, trace),
      faults_(faults),
      network_(&queue_, scenario_.network_seed, scenario_.network),
      chance_(scenario_.network_seed, 2),
      store_(&queue_, scenario_.network_seed, kServerSilence, faults_.shared_store,
             faults_.lost_answers),
      saboteur_(scenario_.sabotage),
      answer_kills_(faults_.answer_kills),
      start_(queue_.now()) {
  for (int i = 0; i < faults_.machines; ++i) {
    machines_.push_back(std::make_unique<SimServer>(this, static_cast<uint32_t>(i)));
  }
  coordinator_.config = scenario_.config;
}

RunWorld::RunWorld(const Scenario& scenario, const RunFaults& faults, bool trace,
                   const RunWorld& earlier)
    : RunWorld(scenario, faults, trace) {
  const CheckpointManifest& manifest = *earlier.sealed_;
  oracle_.GoOnFrom(earlier.oracle_, manifest, earlier.sealed_parts_);
  started_before_ = earlier.workers_.size();
  trace_ = earlier.trace_;
  outcome_ = earlier.outcome_;
  ++outcome_.resumed;
  outcome_.weights.clear();
  coordinator_.first_incarnation = kIncarnationsOfARun;
  coordinator_.resume = SnapshotOf(manifest);
  if (faults_.bug == CopyBug::kDealAll)
    coordinator_.resume->position.remaining = BatchQueue::UpTo(scenario_.batches_per_epoch);
  last_checkpoint_ = manifest.id();
  auto loaded = LoadedCheckpoint::Assemble(manifest, earlier.sealed_parts_);
  if (loaded.ok()) {
    coordinator_.checkpoint = std::make_shared<LoadedCheckpoint>(*std::move(loaded));
  } else {
    oracle_.Breach(loaded.status().ToString());
  }
}

RunWorld::~RunWorld() = default;

CoordinatorOptions RunWorld::CoordinatorOf(bool begins) const {
  CoordinatorOptions options = coordinator_;
  if (!begins) {
    options.resume.reset();
    options.checkpoint.reset();
  }
  return options;
}

void RunWorld::Mix(uint64_t value) {
  outcome_.hash = (outcome_.hash ^ value) * 0x100000001b3ull;
  outcome_.hash ^= outcome_.hash >> 29;
}

SimServer* RunWorld::MachineOf(uint32_t server) {
  for (const auto& machine : machines_) {
    if (server != 0 && machine->server() == server) return machine.get();
  }
  return nullptr;
}

SimServer* RunWorld::Leading() {
  const RunRecord& record = store_.record();
  SimServer* const machine = MachineOf(record.leader());
  const bool leads = machine != nullptr && machine->up() && machine->core().leader() != nullptr &&
                     machine->core().leader()->stored().epoch() == record.epoch();
  return leads ? machine : nullptr;
}

// --- Workers
// ------------------------------------------------------------------------------------------

void RunWorld::StartProcess() {
  if (started() >= kMembers) return;
  workers_.push_back(std::make_unique<Worker>(this, static_cast<uint32_t>(workers_.size()),
                                              scenario_.network_seed));
  if (tracing()) Note(absl::StrCat("process ", workers_.back()->process(), " starts"));
  workers_.back()->Start();
}

void RunWorld::Ask(Worker* worker, ControlRequest request, Answered answer) {
  Attempt(worker, request, std::make_shared<bool>(false), std::move(answer));
}

void RunWorld::Attempt(Worker* worker, const ControlRequest& request,
                       std::shared_ptr<bool> answered, Answered answer) {
  const uint32_t process = worker->process();
  const uint32_t machine = asks_[process];
  network_.Send({process, machine}, true, [=, this] {
    const uint64_t id = next_request_++;
    asked_[id] = {worker, machine, request, [=, this](absl::StatusOr<ControlReply> reply) {
                    if (*answered || absl::IsUnavailable(reply.status())) return;
                    *answered = true;
                    worker->Post([=] { answer(reply); });
                  }};
    machines_[machine]->Request(id, request);
  });
  queue_.After(kAskNext, [=, this] {
    if (*answered || worker->dead()) return;
    const SimServer* const leader = Leading();
    // As when the worker's patience ends: the run is over, and nobody leads it.
    if (store_.record().over() && (leader == nullptr || leader->over())) {
      *answered = true;
      return worker->Post([=] { answer(absl::FailedPreconditionError("the run is over")); });
    }
    asks_[process] = (machine + 1) % machines();
    Attempt(worker, request, answered, answer);
  });
}

void RunWorld::AnswerRequest(uint64_t request, absl::StatusOr<ControlReply> reply) {
  const auto at = asked_.find(request);
  if (at == asked_.end()) return;
  const Asked asked = std::move(at->second);
  asked_.erase(at);
  if (reply.ok()) {
    if (const auto* registered = std::get_if<RegisterReply>(&*reply)) {
      oracle_.Registered(std::get<RegisterRequest>(asked.request).key(), registered->placement());
    }
  }
  network_.Send({asked.worker->process(), asked.machine}, false, [=] { asked.answer(reply); });
}

void RunWorld::SendToShard(Worker* worker, uint32_t machine, uint32_t shard,
                           const Message& message) {
  const uint32_t process = worker->process();
  network_.Send(LinkToShard(process, machine, shard), true, [=, this] {
    Mix(static_cast<uint64_t>(queue_.now().count()));
    if (tracing())
      Note(absl::StrCat("-> machine ", machine, " ", message.header.ShortDebugString()));
    machines_[machine]->Deliver(process, shard, message);
  });
}

void RunWorld::AnswerWorker(uint32_t machine, uint32_t shard, Outgoing outgoing,
                            const ShardCore& core) {
  saboteur_.OnAnswer(&outgoing.message);
  if (outgoing.message.header.has_pull_reply()) {
    oracle_.Showed(outgoing.message, core.ShareWeights());
  }
  oracle_.Answered(outgoing.message, machine);
  if (tracing())
    Note(absl::StrCat("<- machine ", machine, " ", outgoing.message.header.ShortDebugString()));
  MayDieAfter(machine, outgoing.message);
  const auto process = static_cast<uint32_t>(outgoing.to);
  network_.Send(LinkToShard(process, machine, shard), false,
                [this, process, shard, message = std::move(outgoing.message)] {
                  workers_[process]->Receive(shard, message);
                });
}

void RunWorld::MayDieAfter(uint32_t machine, const Message& answer) {
  if (!answer.header.has_push_ack() || answer_kills_ == 0 || !chance_.Happens(kDiesAfterAnswer)) {
    return;
  }
  --answer_kills_;
  queue_.After(Duration(0), [this, machine] {
    SimServer& server = *machines_[machine];
    if (server.up() && !server.over() && !IsNeededNow(server)) server.Die(false, false);
  });
}

void RunWorld::Ordered(const ShardOrderTo& order, std::shared_ptr<const Placement> placement) {
  if (placement != nullptr) placement_ = std::move(placement);
  if (const auto* admit = std::get_if<AdmitWorker>(&order.command)) {
    WorkerKey& newest = admitted_[admit->key.worker()];
    // A server that led the run before may not know that it leads no more.
    if (admit->key.incarnation() > newest.incarnation()) newest = admit->key;
  } else if (const auto* begin = std::get_if<BeginSegment>(&order.command)) {
    if (begin->segment.id() <= last_segment_) return;
    last_segment_ = begin->segment.id();
    // It may begin before a worker hears that it is registered.
    for (const uint32_t worker : begin->segment.workers())
      oracle_.Registered(admitted_[worker], *placement_);
    // Shards are not told its batches. The run store has them before any shard hears of it.
    for (const LedgerRecord::Dealt& dealt : store_.record().coordinator().ledger().dealt()) {
      if (dealt.segment().id() == last_segment_) oracle_.Dealt(dealt.segment());
    }
  } else if (const auto* take = std::get_if<TakeCheckpoint>(&order.command)) {
    if (take->id <= last_checkpoint_) return;
    last_checkpoint_ = take->id;
    cut_taken_.clear();
    oracle_.CutOrdered(*take);
  } else if (const auto* remove = std::get_if<RemoveWorker>(&order.command)) {
    oracle_.Removed(remove->key);
  }
}

void RunWorld::CutTaken(uint32_t shard, const ShardCut& cut) {
  if (cut.checkpoint == last_checkpoint_ && cut_taken_.insert(shard).second)
    oracle_.CutTaken(shard, cut);
}

void RunWorld::Sealed(const CheckpointManifest& manifest) {
  sealed_ = manifest;
  sealed_parts_.clear();
  for (const ShardReceipt& shard : manifest.shards()) {
    const auto part = parts_.find(shard.shard());
    if (part == parts_.end() || part->second == nullptr ||
        part->second->checkpoint != manifest.id()) {
      return oracle_.Breach(
          absl::StrCat("checkpoint ", manifest.id(), " lacks shard ", shard.shard()));
    }
    sealed_parts_.push_back(part->second->snapshot);
  }
}

bool RunWorld::MayGoOn() const {
  if (faults_.given_up_after.count() == 0 || !sealed_ || !oracle_.breaches().empty()) return false;
  // Enough workers must be left.
  const auto workers = static_cast<size_t>(scenario_.config.cluster().workers());
  return started() + workers <= kWorkersBeforeCalm &&
         (!Over() || store_.record().coordinator().draining());
}

// --- Servers
// ------------------------------------------------------------------------------------------

bool RunWorld::AreCut(uint32_t from, uint32_t to) const {
  const auto cut = cuts_.find({from, to});
  return cut != cuts_.end() && queue_.now() < cut->second;
}

bool RunWorld::IsCutOff(uint32_t machine) const {
  for (uint32_t other = 0; other < machines(); ++other) {
    if (AreCut(machine, other) || AreCut(other, machine)) return true;
  }
  return false;
}

void RunWorld::Carry(Stream stream, Duration pause, std::function<void()> deliver,
                     std::function<void()> lost) {
  const uint32_t from = stream.from, to = stream.to;
  if (AreCut(from, to)) return lost();
  const Duration delay =
      chance_.Between(std::chrono::microseconds(50), std::chrono::milliseconds(3));
  Time& last = last_arrival_[stream];
  last = std::max(last + pause, queue_.now() + delay);
  queue_.At(last, [=, this, life = machines_[from]->life()] {
    const bool died = machines_[from]->life() != life && queue_.now() > heard_until_[from];
    died || AreCut(from, to) ? lost() : deliver();
  });
}

void RunWorld::Died(uint32_t machine) {
  heard_until_[machine] =
      queue_.now() + chance_.Between(Duration(0), Duration(std::chrono::milliseconds(3)));
}

// The record may soon say that it is not in sync.
bool RunWorld::IsReportedSilent(uint32_t shard, uint32_t server) const {
  return std::ranges::any_of(machines_, [&](const auto& machine) {
    const CopyCore* const copy = machine->copy(shard);
    if (copy == nullptr) return false;
    const CopyState state = copy->State();
    return std::ranges::find(state.silent(), server) != state.silent().end();
  });
}

bool RunWorld::CanLoseDisk(const SimServer& server) const {
  if (!faults_.shared_store && server.machine() == 0) return false;  // the record is on it
  return CanLoseDisk(server, store_.record()) && CanLoseDisk(server, store_.wanted());
}

bool RunWorld::CanLoseDisk(const SimServer& server, const RunRecord& record) const {
  if (!record.has_plan() || server.server() == 0 || faults_.copies < 2) return false;
  const bool journal = HasJournal(scenario_.config);
  for (uint32_t number = 0; number < static_cast<uint32_t>(record.shards_size()); ++number) {
    const ShardCopies& shard = record.shards(static_cast<int>(number));
    if (!IsInSync(shard, server.server())) continue;
    const bool elsewhere =
        std::any_of(shard.in_sync().begin(), shard.in_sync().end(), [&](uint32_t other) {
          return other != server.server() && !IsReportedSilent(number, other) &&
                 std::any_of(machines_.begin(), machines_.end(), [&](const auto& machine) {
                   const CopyCore* const copy = machine->copy(number);
                   // Without a journal a server that was restarted has nothing.
                   const bool has = journal || (copy != nullptr && copy->shard() != nullptr);
                   return machine->steady() && machine->server() == other && has &&
                          !IsCutOff(machine->machine());
                 });
        });
    if (!elsewhere) return false;
  }
  return true;
}

bool RunWorld::IsNeededNow(const SimServer& server) const {
  const RunRecord& record = store_.record();
  return std::any_of(record.shards().begin(), record.shards().end(), [&](const auto& shard) {
    const auto leads = [&](const auto& machine) { return machine->server() == shard.leader(); };
    return IsInSync(shard, server.server()) && std::ranges::none_of(machines_, leads);
  });
}

Worker* RunWorld::AnyWorker() {
  std::vector<Worker*> alive;
  for (const auto& worker : workers_) {
    if (!worker->dead() && !worker->done()) alive.push_back(worker.get());
  }
  if (alive.empty()) return nullptr;
  return alive[static_cast<size_t>(chance_.Between(0, static_cast<int64_t>(alive.size()) - 1))];
}

void RunWorld::KillWorker() {
  Worker* const worker = AnyWorker();
  if (worker != nullptr && started() < kWorkersBeforeCalm) worker->Crash("killed");
}

void RunWorld::KillAny(bool power) {
  SimServer& server = *machines_[static_cast<size_t>(chance_.Between(0, faults_.machines - 1))];
  if (!server.up() || server.over() || IsNeededNow(server)) return;
  const bool journal = HasJournal(scenario_.config);
  if (!journal && !CanLoseDisk(server)) return;
  const bool soon = journal && !power && !faults_.kills_workers && chance_.Happens(0.4);
  if (soon) return server.DieSoon();
  const bool lose_disk = chance_.Happens(faults_.deleted_disks) && CanLoseDisk(server);
  // What was not synced is lost with the power, which only other copies can make good.
  const bool synced = scenario_.config.durability().acknowledge() == DurabilityConfig::FSYNC;
  server.Die(power && (synced || CanLoseDisk(server)), lose_disk);
  if (faults_.kills_workers) KillWorker();
}

void RunWorld::CutAny() {
  if (faults_.machines < 2) return;
  const auto from = static_cast<uint32_t>(chance_.Between(0, faults_.machines - 1));
  const auto to =
      (from + static_cast<uint32_t>(chance_.Between(1, faults_.machines - 1))) % machines();
  const Time until = std::min(queue_.now() + chance_.Between(std::chrono::milliseconds(20),
                                                             std::chrono::milliseconds(2500)),
                              scenario_.network.heals_at);
  const bool alone = chance_.Happens(0.3);  // cut off from all others
  for (uint32_t other = 0; other < machines(); ++other) {
    if (other == from || (!alone && other != to)) continue;
    cuts_[{from, other}] = until;
    if (!chance_.Happens(0.2)) cuts_[{other, from}] = until;
  }
  if (tracing())
    Note(absl::StrCat("machine ", from, " is cut off from ", alone ? "all" : absl::StrCat(to)));
}

// Cuts a worker off from a server, or from one of its shards.
void RunWorld::CutWorker() {
  Worker* const worker = AnyWorker();
  if (worker == nullptr) return;
  ++outcome_.workers_cut_off;
  const auto machine = static_cast<uint32_t>(chance_.Between(0, faults_.machines - 1));
  const auto shard =
      static_cast<uint32_t>(chance_.Between(0, scenario_.config.cluster().shards() - 1));
  const Time until = queue_.now() + chance_.Between(std::chrono::milliseconds(10),
                                                    std::chrono::milliseconds(2000));
  const bool whole = chance_.Happens(0.5);
  if (whole) network_.Cut({worker->process(), machine}, until);
  for (uint32_t s = 0; s < static_cast<uint32_t>(scenario_.config.cluster().shards()); ++s) {
    if (whole || s == shard) network_.Cut(LinkToShard(worker->process(), machine, s), until);
  }
  if (tracing())
    Note(absl::StrCat("process ", worker->process(), " is cut off from machine ", machine,
                      whole ? "" : absl::StrCat(", shard ", shard)));
}

void RunWorld::PlanMisfortunes() {
  const auto plan = [this](int times, std::function<void()> what) {
    for (int i = 0; i < times; ++i)
      queue_.After(chance_.Between(Duration(0), kFaultsFor * 3 / 4), what);
  };
  plan(scenario_.crashes, [this] { KillWorker(); });
  plan(scenario_.restarts, [this] {
    if (started() < kWorkersBeforeCalm) StartProcess();
  });
  plan(scenario_.slow_step.count() > 0 ? 1 : 0, [this] {
    if (Worker* const worker = AnyWorker()) worker->SlowDown(scenario_.slow_step);
  });
  plan(scenario_.leavers, [this] {
    Worker* const worker = AnyWorker();
    if (worker != nullptr && started() < kWorkersBeforeCalm) worker->AskToLeave();
  });
  plan(scenario_.pauses, [this] {
    if (Worker* const worker = AnyWorker()) {
      worker->Pause(
          chance_.Between(std::chrono::milliseconds(10), std::chrono::milliseconds(1800)));
    }
  });
  plan(scenario_.partitions, [this] { CutWorker(); });
  if (scenario_.drain_after.count() > 0) {
    queue_.After(scenario_.drain_after, [this] {
      DrainRequest drain;
      drain.set_reason("asked to");
      if (SimServer* const leader = Leading()) leader->Request(next_request_++, drain);
    });
  }
  plan(faults_.kills, [this] { KillAny(false); });
  plan(faults_.power_losses, [this] { KillAny(true); });
  plan(faults_.pauses, [this] {
    SimServer& server = *machines_[static_cast<size_t>(chance_.Between(0, faults_.machines - 1))];
    const Duration length =
        chance_.Between(std::chrono::milliseconds(10), std::chrono::milliseconds(2500));
    if (tracing())
      Note(absl::StrCat("machine ", server.machine(), " stands still for ", Seconds(length), " s"));
    server.Pause(queue_.now() + length);
  });
  plan(faults_.cuts, [this] { CutAny(); });
  plan(faults_.store_outages, [this] {
    store_.GoAway(chance_.Between(std::chrono::milliseconds(20), std::chrono::milliseconds(1200)));
  });
  plan(faults_.rebalances, [this] {
    RebalanceRequest request;
    RebalanceRequest::Move* const move = request.add_moves();
    move->set_shard(
        static_cast<uint32_t>(chance_.Between(0, scenario_.config.cluster().shards() - 1)));
    move->set_server(static_cast<uint32_t>(chance_.Between(1, faults_.machines)));
    if (SimServer* const leader = Leading()) leader->Request(next_request_++, request);
  });
  plan(faults_.leaves, [this] {
    // Before the first segment the run would wait for another server.
    if (store_.record().coordinator().ledger().next_id() <= 1) return;
    ++outcome_.leaves;
    machines_[static_cast<size_t>(chance_.Between(1, faults_.machines - 1))]->Leave();
  });
  plan(scenario_.full_disks, [this] {
    SimServer* const server =
        machines_[static_cast<size_t>(chance_.Between(0, faults_.machines - 1))].get();
    server->FillDisk(true);
    queue_.After(chance_.Between(std::chrono::milliseconds(20), std::chrono::milliseconds(900)),
                 [server] { server->FillDisk(false); });
  });
}

void RunWorld::CheckLeaders() {
  for (uint32_t s = 0; s < static_cast<uint32_t>(scenario_.config.cluster().shards()); ++s) {
    std::map<uint64_t, uint32_t> leaders;  // by epoch
    for (const auto& machine : machines_) {
      const CopyCore* const copy = machine->copy(s);
      if (copy == nullptr || !copy->leads()) continue;
      const auto [at, first] = leaders.emplace(copy->epoch(), machine->machine());
      if (!first) {
        oracle_.Breach(absl::StrCat("machines ", at->second, " and ", machine->machine(),
                                    " both lead shard ", s, " under epoch ", copy->epoch()));
      }
    }
  }
  std::map<uint64_t, uint32_t> leaders;
  for (const auto& machine : machines_) {
    if (!machine->up() || machine->core().leader() == nullptr) continue;
    const uint64_t epoch = machine->core().leader()->stored().epoch();
    if (!leaders.emplace(epoch, machine->machine()).second) {
      oracle_.Breach(absl::StrCat("two machines lead the run under epoch ", epoch));
    }
  }
}

void RunWorld::CheckClocks() {
  const RunRecord& record = store_.record();
  if (!record.has_plan() || record.over() || scenario_.sabotage != Sabotage::kNone ||
      scenario_.disk_fault != DiskFault::kNone || faults_.bug != CopyBug::kNone) {
    return;
  }
  std::vector<std::pair<uint32_t, MemberClocks>> all, leading;
  for (uint32_t s = 0; s < static_cast<uint32_t>(record.shards_size()); ++s) {
    const ShardCopies& shard = record.shards(static_cast<int>(s));
    for (const auto& machine : machines_) {
      const CopyCore* const copy = machine->copy(s);
      if (!machine->up() || copy == nullptr || copy->shard() == nullptr ||
          copy->epoch() != shard.epoch() || !IsInSync(shard, machine->server())) {
        continue;
      }
      all.emplace_back(s, copy->shard()->core().Clocks());
      if (copy->leads()) leading.push_back(all.back());
    }
  }
  const uint64_t most = MostClocksAhead(scenario_.config);
  for (const auto& [s, clocks] : all) {
    std::vector<ReadJournal> journals = {{s, &clocks}};
    for (const auto& [other, others] : leading) {
      if (other != s) journals.push_back({other, &others});
    }
    const absl::Status agrees = CompareJournal(journals, s, most);
    if (!agrees.ok()) oracle_.Breach(absl::StrCat("while nothing is lost: ", agrees.message()));
  }
}

void RunWorld::Tick() {
  queue_.After(kLook, [this] { Tick(); });
  for (const auto& machine : machines_) machine->Tick();
  CheckLeaders();
  CheckClocks();
  if (queue_.now() < scenario_.network.heals_at) return;
  store_.Heal();
  SimServer* const leader = Leading();
  if (leader == nullptr || leader->core().leader()->coordinator().over()) return;
  const auto alive = std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) {
    return !worker->dead() && !worker->done();
  });
  const bool begun = leader->core().leader()->coordinator().state() != StatusReply::WAITING;
  if (alive < (begun ? 1 : scenario_.processes)) StartProcess();
}

bool RunWorld::Over() const {
  return store_.record().over() &&
         std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->dead() || worker->done(); });
}

void RunWorld::CheckEnd() {
  const RunRecord& record = store_.record();
  for (uint32_t s = 0; s < static_cast<uint32_t>(record.shards_size()); ++s) {
    const ShardCopies& shard = record.shards(static_cast<int>(s));
    SimServer* const leader = MachineOf(shard.leader());
    // It died while the store was told that the run is over: only its disk has the weights.
    if (leader == nullptr) return;
    const CopyCore* const leading = leader->copy(s);
    if (leading == nullptr || leading->shard() == nullptr) {
      // A run that was stopped before training has no weights, for example because a disk was full.
      if (record.has_plan()) oracle_.Breach(absl::StrCat("nobody leads shard ", s, " in the end"));
      continue;
    }
    for (const auto& [slice, bytes] : leading->shard()->core().ShareWeights()) {
      const auto values = AsFloats(bytes);
      outcome_.weights[slice].assign(values.begin(), values.end());
      Mix(ChecksumOf(bytes.span()));
    }
    CheckDisk(leader, s);
    // Copies with as many steps have the same weights.
    for (const auto& machine : machines_) {
      const CopyCore* const copy = machine->copy(s);
      if (copy == nullptr || copy->shard() == nullptr || copy->epoch() != leading->epoch() ||
          !IsInSync(shard, machine->server()) ||
          copy->shard()->entries() != leading->shard()->entries()) {
        continue;
      }
      for (const auto& [slice, bytes] : copy->shard()->core().ShareWeights()) {
        const auto values = AsFloats(bytes);
        if (!std::equal(values.begin(), values.end(), outcome_.weights[slice].begin())) {
          oracle_.Breach(
              absl::StrCat("machine ", machine->machine(), " has other weights of slice ", slice));
        }
      }
    }
  }
  if (oracle_.breaches().empty()) oracle_.Ended(outcome_.weights, record.coordinator().draining());
}

void RunWorld::CheckDisk(SimServer* machine, uint32_t shard) {
  if (!HasJournal(scenario_.config) || !store_.record().has_plan()) return;
  const auto again = machine->MadeAgain(shard);
  if (!again.ok()) {
    oracle_.Breach(
        absl::StrCat("shard ", shard, " cannot be made again: ", again.status().ToString()));
    return;
  }
  for (const auto& [slice, bytes] : (*again)->core().ShareWeights()) {
    const auto values = AsFloats(bytes);
    if (!std::equal(values.begin(), values.end(), outcome_.weights[slice].begin())) {
      oracle_.Breach(
          absl::StrCat("the journal of shard ", shard, " makes other weights of slice ", slice));
    }
  }
}

RunOutcome RunWorld::Run() {
  for (uint32_t i = 0; i < machines(); ++i) machines_[i]->Boot(i == 0);
  if (coordinator_.resume && chance_.Happens(faults_.early_deaths)) machines_[0]->DieSoon();
  for (int i = 0; i < scenario_.processes; ++i) StartProcess();
  PlanMisfortunes();
  Tick();
  const Time limit = scenario_.network.heals_at + scenario_.patience;
  const Time ends =
      faults_.given_up_after.count() > 0 ? start_ + faults_.given_up_after : Time::max();
  bool given_up = false;
  while (!Over() && !given_up && !must_begin_again_ && queue_.now() < limit &&
         oracle_.breaches().empty() && queue_.RunOne()) {
    given_up = queue_.now() >= ends && MayGoOn();
  }
  if (Over()) {
    CheckEnd();
  } else if (given_up || must_begin_again_) {
    if (tracing()) Note("all processes end");
  } else if (oracle_.breaches().empty()) {
    SimServer* const leader = Leading();
    std::string why = leader == nullptr ? "nobody leads it" : leader->core().leader()->WaitsFor();
    for (const ShardCopies& shard : store_.record().shards())
      absl::StrAppend(&why, " {", shard.ShortDebugString(), "}");
    oracle_.Breach(absl::StrCat("the run did not end: ", why));
  }
  if (!oracle_.breaches().empty() && tracing()) {
    for (const auto& machine : machines_) {
      for (const auto& [s, copy] : machine->copies()) {
        Note(absl::StrCat(
            "machine ", machine->machine(), " (server ", machine->server(), ") shard ", s, " {",
            copy->State().ShortDebugString(), "}",
            copy->shard() != nullptr && copy->shard()->has_unwritten() ? " unwritten" : ""));
      }
    }
    for (const ShardCopies& shard : store_.record().shards()) Note(shard.ShortDebugString());
  }
  outcome_.breaches = oracle_.breaches();
  outcome_.counts = oracle_.counts();
  outcome_.took = queue_.now() - start_;
  outcome_.trace.assign(trace_.begin(), trace_.end());
  return outcome_;
}

RunFaults OneServer() {
  RunFaults faults;
  faults.machines = 1;
  faults.copies = 1;
  faults.shared_store = false;
  return faults;
}

RunOutcome Simulate(const Scenario& scenario, const RunFaults& faults, bool trace) {
  RunWorld first(scenario, faults, trace);
  RunOutcome outcome = first.Run();
  if (!first.MayGoOn()) return outcome;
  Scenario next = scenario;
  ++next.network_seed;
  next.config.mutable_cluster()->set_shards(1 + scenario.config.cluster().shards() % 3);
  next.drain_after = {};
  RunFaults faults_then = faults;
  faults_then.given_up_after = {};
  for (uint64_t again = 0;; ++again) {
    RunWorld resumed(next, faults_then, trace, first);
    outcome = resumed.Run();
    outcome.begun_again = again;
    if (!resumed.must_begin_again()) return outcome;
    ++next.network_seed;
    faults_then.early_deaths = 0;
  }
}

std::string Failure(const Scenario& scenario, const RunFaults& faults) {
  if (Simulate(scenario, faults, false).breaches.empty()) return "";
  const RunOutcome outcome = Simulate(scenario, faults, true);
  return absl::StrCat(Describe(scenario, faults), "\n", absl::StrJoin(outcome.trace, "\n"),
                      "\nbreach: ", absl::StrJoin(outcome.breaches, "\n"));
}

std::pair<Scenario, RunFaults> RandomRun(uint64_t seed) {
  Scenario s = RandomScenario(seed);
  Chance chance(seed, 99);
  RunFaults f;
  // Longer than all misfortunes of a run together: nobody gives up.
  s.config.mutable_cluster()->set_deadline(30000);
  s.config.mutable_durability()->set_acknowledge(chance.Choice(
      {DurabilityConfig::JOURNAL, DurabilityConfig::JOURNAL, DurabilityConfig::FSYNC}));
  s.image_after = chance.Choice<uint64_t>({20u << 10, 100u << 10, 1u << 30});
  s.given_bytes = chance.Choice<size_t>({0, 64u << 20});
  s.full_disks = static_cast<int>(chance.Choice({0, 0, 1, 2}));
  f.machines = static_cast<int>(chance.Choice({1, 2, 3, 3, 4}));
  f.copies = chance.Choice<size_t>({1, 2, 2, 3});
  f.shared_store = chance.Happens(0.7);
  f.kills = static_cast<int>(chance.Choice({0, 1, 3, 6}));
  f.answer_kills = static_cast<int>(chance.Choice({0, 0, 2, 4}));
  f.power_losses = static_cast<int>(chance.Choice({0, 1, 1, 2}));
  s.torn_images = chance.Choice({0.0, 0.5});
  f.deleted_disks = chance.Choice({0.0, 0.3});
  f.pauses = static_cast<int>(chance.Choice({0, 0, 1, 3}));
  f.cuts = static_cast<int>(chance.Choice({0, 1, 3}));
  f.store_outages = static_cast<int>(chance.Choice({0, 0, 1, 2}));
  f.lost_answers = f.shared_store ? chance.Choice({0.0, 0.0, 0.05, 0.2}) : 0;
  f.rebalances = static_cast<int>(chance.Choice({0, 1, 4}));
  if (f.machines > 2 && Chance(seed, 97).Happens(0.2)) f.leaves = 1;
  f.image_pause = Chance(seed, 95).Choice<Duration>(
      {Duration(0), std::chrono::milliseconds(50), std::chrono::milliseconds(400)});
  Chance ends(seed, 94);
  if (ends.Happens(0.3)) {
    f.given_up_after =
        ends.Between(std::chrono::milliseconds(100), std::chrono::milliseconds(1500));
    f.early_deaths = 0.5;
  }
  if (s.config.durability().acknowledge() == DurabilityConfig::JOURNAL && f.power_losses > 0) {
    // What was not synced is lost if the other copies are away just then: one misfortune at a time.
    f.power_losses = 1;
    f.kills = f.answer_kills = f.pauses = f.cuts = 0;
    f.early_deaths = 0;
  }
  if (f.machines > 1 && f.copies > 1 && Chance(seed, 93).Happens(0.15)) {
    // Without a journal each death also loses the data: one misfortune at a time.
    s.config.mutable_durability()->set_acknowledge(DurabilityConfig::MEMORY);
    f.shared_store = true;
    f.answer_kills = f.power_losses = f.pauses = f.cuts = s.full_disks = 0;
    f.early_deaths = 0;  // it may come right after training begins, when no other copy is there
  }
  return {s, f};
}

std::string Describe(const Scenario& s, const RunFaults& f) {
  return absl::StrCat(Describe(s), "; ", f.machines, " machines, ", f.copies, " copies, ",
                      f.shared_store ? "shared" : "local", " store, kills ", f.kills, " and ",
                      f.answer_kills, " after an answer", ", power losses ", f.power_losses,
                      ", deleted disks ", f.deleted_disks, ", pauses ", f.pauses, ", cuts ", f.cuts,
                      ", store outages ", f.store_outages, ", lost answers ", f.lost_answers,
                      ", rebalances ", f.rebalances, ", leaves ", f.leaves, ", given up after ",
                      Seconds(f.given_up_after), " s, early deaths ", f.early_deaths,
                      ", image pause ", Seconds(f.image_pause), " s");
}

}  // namespace psgd::sim
