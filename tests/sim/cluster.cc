#include "tests/sim/cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace psgd::sim {
namespace {
constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr Duration kAskAgain = std::chrono::milliseconds(150);
constexpr uint32_t kProcessesBeforeCalm = kMembers - 5;  // the rest is for ending the run
}  // namespace

Cluster::Cluster(const Scenario& scenario, bool trace)
    : World(scenario, trace),
      network_(&queue_, scenario_.network_seed, scenario_.network),
      chance_(scenario_.network_seed, 2),
      start_(queue_.now()) {
  server_ = std::make_unique<Server>(this, scenario_);
}

void Cluster::Ask(Worker* worker, ControlRequest request, Answered answer) {
  Attempt(worker, request, std::make_shared<bool>(false), std::move(answer));
}

void Cluster::Attempt(Worker* worker, const ControlRequest& request, std::shared_ptr<bool> answered,
                      Answered answer) {
  const Link link = ToCoordinator(worker->process());
  network_.Send(link, true, [=, this] {
    server_->WhenAwake([=, this] {
      if (!server_->up()) return;
      Effects effects;
      const absl::StatusOr<ControlReply> reply = Handle(request, &effects);
      if (reply.ok()) server_->Heard(worker->key());
      if (!server_->Apply(std::move(effects))) return;
      network_.Send(link, false, [=] {
        if (*answered) return;
        *answered = true;
        worker->Post([=] { answer(reply); });
      });
    });
  });
  queue_.After(kAskAgain, [=, this] {
    if (!*answered && !worker->dead()) Attempt(worker, request, answered, answer);
  });
}

absl::StatusOr<ControlReply> Cluster::Handle(const ControlRequest& request, Effects* effects) {
  const Time now = server_->Now();
  if (const auto* join = std::get_if<JoinRequest>(&request))
    return coordinator().Join(*join, now, effects);
  if (const auto* registers = std::get_if<RegisterRequest>(&request)) {
    auto reply = coordinator().Register(*registers, server_->Endpoints(), now, effects);
    if (reply.ok()) oracle_.Registered(registers->key(), reply->placement());
    return reply;
  }
  if (const auto* next = std::get_if<NextSegmentRequest>(&request)) {
    return coordinator().NextSegment(*next, now, effects);
  }
  if (const auto* beat = std::get_if<HeartbeatRequest>(&request)) {
    auto reply = coordinator().Heartbeat(*beat, now);
    if (reply.ok() && scenario_.joined > 0) {
      for (std::string& endpoint : server_->Endpoints()) reply->add_endpoints(std::move(endpoint));
    }
    return reply;
  }
  if (const auto* evaluated = std::get_if<EvaluatedRequest>(&request)) {
    PSGD_RETURN_IF_ERROR(coordinator().Evaluated(*evaluated, now, effects));
    return EvaluatedReply();
  }
  PSGD_RETURN_IF_ERROR(coordinator().Leave(std::get<LeaveRequest>(request), now, effects));
  return LeaveReply();
}

void Cluster::Mix(uint64_t value) {
  outcome_.hash = (outcome_.hash ^ value) * 0x100000001b3ull;
  outcome_.hash ^= outcome_.hash >> 29;
}

void Cluster::StartProcess() {
  if (workers_.size() >= kMembers) return;
  workers_.push_back(std::make_unique<Worker>(this, static_cast<uint32_t>(workers_.size()),
                                              scenario_.network_seed));
  if (tracing()) Note(absl::StrCat("process ", workers_.back()->process(), " starts"));
  workers_.back()->Start();
}

Worker* Cluster::AnyWorker() {
  std::vector<Worker*> alive;
  for (const auto& worker : workers_) {
    if (!worker->dead() && !worker->done()) alive.push_back(worker.get());
  }
  if (alive.empty()) return nullptr;
  return alive[static_cast<size_t>(chance_.Between(0, static_cast<int64_t>(alive.size()) - 1))];
}

void Cluster::PlanMisfortunes() {
  const auto plan = [this](int times, std::function<void()> what) {
    for (int i = 0; i < times; ++i) {
      // Early, while there is training to disturb.
      queue_.After(chance_.Between(Duration(0), kFaultsFor / 4), what);
    }
  };
  plan(scenario_.crashes, [this] {
    Worker* worker = AnyWorker();
    if (worker != nullptr && workers_.size() < kProcessesBeforeCalm) worker->Crash("killed");
  });
  plan(scenario_.restarts, [this] {
    if (workers_.size() < kProcessesBeforeCalm) StartProcess();
  });
  plan(scenario_.pauses, [this] {
    if (Worker* worker = AnyWorker()) {
      worker->Pause(
          chance_.Between(std::chrono::milliseconds(10), std::chrono::milliseconds(1800)));
    }
  });
  plan(scenario_.partitions, [this] {
    Worker* worker = AnyWorker();
    if (worker == nullptr) return;
    const int64_t shards = scenario_.config.cluster().shards();
    const int64_t node = chance_.Between(0, shards);
    const auto shard = static_cast<uint32_t>(node);
    const Link link = node == shards ? ToCoordinator(worker->process())
                                     : ToShard(worker->process(), server_->HolderOf(shard), shard);
    const Duration length =
        chance_.Between(std::chrono::milliseconds(50), std::chrono::milliseconds(2000));
    if (tracing()) Note(absl::StrCat("process ", link.first, " cut off from node ", link.second));
    network_.Cut(link, queue_.now() + length);
  });
  if (scenario_.drain_after.count() > 0) {
    queue_.After(scenario_.drain_after, [this] { Drain(); });
  }
  const auto plan_deaths = [&](int times, Server::Death death) {
    plan(times, [this, death] {
      if (chance_.Happens(0.5)) {
        server_->Die(death);
      } else {
        server_->DieSoon(death);
      }
    });
  };
  plan_deaths(scenario_.server_crashes, Server::Death::kKilled);
  plan_deaths(scenario_.power_losses, Server::Death::kPower);
  plan(scenario_.server_pauses, [this] {
    server_->PauseAny(
        chance_.Between(std::chrono::milliseconds(10), std::chrono::milliseconds(2500)));
  });
  plan(scenario_.standby_deaths, [this] { server_->KillStandby(); });
  plan(scenario_.joined_crashes, [this] { server_->KillJoined(Server::Death::kKilled); });
  plan(scenario_.joined_power_losses, [this] { server_->KillJoined(Server::Death::kPower); });
  plan(scenario_.broken_connections, [this] { server_->BreakAnyConnection(); });
  plan(scenario_.leaves, [this] { server_->LeaveJoined(); });
  plan(scenario_.full_disks, [this] {
    server_->FillDisks(
        chance_.Between(std::chrono::milliseconds(20), std::chrono::milliseconds(900)));
  });
  plan(scenario_.clock_steps, [this] {
    const Duration step = chance_.Between(-std::chrono::seconds(5), std::chrono::seconds(8));
    Worker* worker = AnyWorker();
    const bool of_server = worker == nullptr || chance_.Happens(0.5);
    if (tracing()) {
      Note(absl::StrCat("the clock of ",
                        of_server ? "the server" : absl::StrCat("process ", worker->process()),
                        " steps by ", Seconds(step), " s"));
    }
    if (of_server) {
      server_->StepClock(step);
    } else {
      worker->StepClock(step);
    }
  });
  if (scenario_.slow_step.count() > 0) {
    plan(1, [this] {
      if (Worker* worker = AnyWorker()) worker->SlowDown(scenario_.slow_step);
    });
  }
}

void Cluster::FoundOut(const std::string& what) {
  if (!oracle_.may_have_lost()) return oracle_.Breach(what);
  if (tracing()) Note(absl::StrCat("found out: ", what));
  outcome_.found_out = what;
}

void Cluster::Ended(Worker* worker) { Mix(worker->process()); }

void Cluster::SendToShard(Worker* worker, uint32_t server, uint32_t shard, const Message& message) {
  const uint32_t process = worker->process();
  network_.Send(ToShard(process, server, shard), true, [=, this] {
    Mix(static_cast<uint64_t>(queue_.now().count()));
    server_->Deliver(process, server, shard, message);
  });
}

void Cluster::Answer(uint32_t process, uint32_t server, uint32_t shard, Message message,
                     const ShardCore& core) {
  oracle_.Answered(message, server);
  if (message.header.has_pull_reply()) {
    oracle_.Showed(message.header.pull_reply(), core.ShareWeights());
  }
  if (tracing()) Note(absl::StrCat("<- server ", server, " ", message.header.ShortDebugString()));
  network_.Send(ToShard(process, server, shard), false,
                [this, process, shard, message = std::move(message)] {
                  workers_[process]->Receive(shard, message);
                });
}

void Cluster::Tick() {
  queue_.After(kTick, [this] { Tick(); });
  server_->Tick();
  if (!server_->up() || queue_.now() < scenario_.network.heals_at || coordinator().over()) return;
  // Somebody starts the workers that are missing.
  const auto alive = std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) {
    return !worker->dead() && !worker->done();
  });
  const bool begun = coordinator().state() != StatusReply::WAITING;
  if (alive < (begun ? 1 : scenario_.processes)) StartProcess();
}

bool Cluster::Over() const {
  return server_->up() && server_->coordinator().over() && server_->settled() &&
         std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->dead() || worker->done(); });
}

void Cluster::CheckEnd() {
  const StatusReply status = coordinator().Status(server_->Now());
  outcome_.evaluations = status.evaluations_size();
  if (outcome_.evaluations == 0 && !coordinator().drained()) {
    oracle_.Breach("the run ended without an evaluation");
  }
  for (uint32_t s = 0; s < server_->shards(); ++s) {
    for (const auto& [slice, bytes] : server_->shard(s)->core().ShareWeights()) {
      const auto values = AsFloats(bytes);
      outcome_.weights[slice].assign(values.begin(), values.end());
      Mix(ChecksumOf(bytes.span()));
    }
  }
  oracle_.Ended(outcome_.weights);
  server_->CheckDisks();
}

Outcome Cluster::Run() {
  for (int i = 0; i < scenario_.processes; ++i) StartProcess();
  PlanMisfortunes();
  PlanEvents();
  Tick();
  const Time limit = scenario_.network.heals_at + scenario_.patience;
  while (!Over() && queue_.now() < limit && oracle_.breaches().empty() &&
         outcome_.found_out.empty() && queue_.RunOne()) {
  }
  if (!outcome_.found_out.empty()) {
    // What the weights are worth, the checkpoints know.
  } else if (Over()) {
    CheckEnd();
  } else if (oracle_.breaches().empty() && oracle_.may_have_lost()) {
    // Nobody knows of the segment that a worker is in: nothing is trained wrongly, and people see
    // it.
    outcome_.found_out = "training stood still";
  } else if (oracle_.breaches().empty()) {
    std::string waiting;
    for (uint32_t s = 0; s < server_->shards(); ++s) {
      if (server_->shard(s) == nullptr) continue;
      const ShardCore& shard = server_->shard(s)->core();
      absl::StrAppend(&waiting, " ", shard.SlowestClock(), "..", shard.FastestClock(), "/",
                      shard.waiting_pulls());
    }
    oracle_.Breach(absl::StrCat("the run did not end; shards' clocks and waiting pulls:", waiting));
  }
  for (uint32_t s = 0; s < server_->shards(); ++s) {
    if (server_->shard(s) == nullptr) continue;
    const ShardStats& stats = server_->shard(s)->core().stats();
    outcome_.stats.pushes += stats.pushes;
    outcome_.stats.pulls += stats.pulls;
    outcome_.stats.duplicates += stats.duplicates;
    for (const auto& [reason, count] : stats.refused) outcome_.stats.refused[reason] += count;
    outcome_.stats.pull_staleness.Merge(stats.pull_staleness);
  }
  outcome_.crashes = server_->crashes();
  outcome_.takeovers = server_->takeovers();
  outcome_.images = server_->images();
  outcome_.power_losses = server_->power_losses();
  outcome_.torn_images = server_->torn_images();
  outcome_.server_pauses = server_->pauses();
  outcome_.moves = server_->moves();
  outcome_.undone_moves = server_->undone_moves();
  outcome_.joined_crashes = server_->joined_crashes();
  outcome_.breaches = oracle_.breaches();
  outcome_.counts = oracle_.counts();
  outcome_.took = queue_.now() - start_;
  outcome_.trace.assign(trace_.begin(), trace_.end());
  return outcome_;
}

}  // namespace psgd::sim
