#include "tests/sim/cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace psgd::sim {
namespace {
constexpr size_t kTraceTail = 80;
constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr uint32_t kProcessesBeforeCalm = kMembers - 5;  // the rest is for ending the run
}  // namespace

Cluster::Cluster(const Scenario& scenario, bool trace)
    : scenario_([&] {
        Scenario planned = scenario;
        planned.network.heals_at = EventQueue().now() + kFaultsFor;
        return planned;
      }()),
      tracing_(trace),
      network_(&queue_, scenario_.network_seed, scenario_.network),
      chance_(scenario_.network_seed, 2),
      oracle_(scenario_),
      saboteur_(scenario_.sabotage),
      start_(queue_.now()) {
  CoordinatorOptions options;
  options.config = scenario_.config;
  coordinator_ = std::make_unique<CoordinatorCore>(options);
  for (int s = 0; s < scenario_.config.cluster().shards(); ++s) {
    ShardOptions shard;
    shard.shard = s;
    shard.config = scenario_.config;
    shard.reply_bytes = scenario_.reply_bytes;
    shard.held_bytes = scenario_.held_bytes;
    shards_.push_back(std::make_unique<ShardCore>(shard));
  }
}

void Cluster::Note(const std::string& what) {
  trace_.push_back(absl::StrCat((queue_.now() - start_).count() / 1000, " us  ", what));
  if (trace_.size() > kTraceTail) trace_.pop_front();
}

void Cluster::Mix(uint64_t value) {
  outcome_.hash = (outcome_.hash ^ value) * 0x100000001b3ull;
  outcome_.hash ^= outcome_.hash >> 29;
}

void Cluster::StartProcess() {
  if (workers_.size() >= kMembers) return;
  workers_.push_back(std::make_unique<Worker>(this, static_cast<uint32_t>(workers_.size()),
                                              scenario_.network_seed));
  if (tracing_) Note(absl::StrCat("process ", workers_.back()->process(), " starts"));
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
      worker->Pause(chance_.Between(std::chrono::milliseconds(10), std::chrono::milliseconds(1800)));
    }
  });
  plan(scenario_.partitions, [this] {
    Worker* worker = AnyWorker();
    if (worker == nullptr) return;
    const auto shards = static_cast<int64_t>(shards_.size());
    const int64_t node = chance_.Between(0, shards);
    const Link link = node == shards ? ToCoordinator(worker->process())
                                     : ToShard(worker->process(), static_cast<uint32_t>(node));
    const Duration length =
        chance_.Between(std::chrono::milliseconds(50), std::chrono::milliseconds(2000));
    if (tracing_) Note(absl::StrCat("process ", link.first, " cut off from node ", link.second));
    network_.Cut(link, queue_.now() + length);
  });
  if (scenario_.drain_after.count() > 0) {
    queue_.After(scenario_.drain_after, [this] {
      DrainRequest request;
      request.set_reason("asked to");
      Effects effects;
      coordinator_->Drain(request, &effects);
      Apply(std::move(effects));
    });
  }
  if (scenario_.slow_step.count() > 0) {
    plan(1, [this] {
      if (Worker* worker = AnyWorker()) worker->SlowDown(scenario_.slow_step);
    });
  }
}

void Cluster::Ended(Worker* worker) {
  Mix(worker->process());
}

void Cluster::SendToShard(Worker* worker, uint32_t shard, const Message& message) {
  const uint32_t process = worker->process();
  network_.Send(ToShard(process, shard), true,
                [=, this] { Deliver(process, shard, message); });
}

void Cluster::Deliver(uint32_t process, uint32_t shard, Message message) {
  Mix(static_cast<uint64_t>(queue_.now().count()));
  Outbox out;
  for (Message& changed : saboteur_.OnMessage(std::move(message))) {
    if (tracing_) Note(absl::StrCat("-> ", changed.header.ShortDebugString()));
    shards_[shard]->OnMessage(process, std::move(changed), &out);
  }
  Flush(shard, &out);
}

void Cluster::Flush(uint32_t shard, Outbox* out) {
  for (Outgoing& outgoing : *out) {
    saboteur_.OnAnswer(&outgoing.message);
    oracle_.Answered(outgoing.message);
    if (outgoing.message.header.has_pull_reply()) {
      oracle_.Showed(outgoing.message.header.pull_reply(), shards_[shard]->ShareWeights());
    }
    if (tracing_) Note(absl::StrCat("<- ", outgoing.message.header.ShortDebugString()));
    const auto process = static_cast<uint32_t>(outgoing.to);
    network_.Send(ToShard(process, shard), false,
                  [this, process, shard, message = std::move(outgoing.message)] {
                    workers_[process]->Receive(shard, message);
                  });
  }
  out->clear();
  TakeCuts(shard);
}

void Cluster::Apply(Effects effects) {
  for (const ShardCommand& command : effects.commands) {
    if (const auto* removed = std::get_if<RemoveWorker>(&command)) oracle_.Removed(removed->key);
    if (const auto* begun = std::get_if<BeginSegment>(&command)) {
      oracle_.Dealt(begun->segment);
      if (tracing_) Note(absl::StrCat("segment ", begun->segment.ShortDebugString()));
    }
    if (const auto* cut = std::get_if<TakeCheckpoint>(&command)) {
      oracle_.CutOrdered(*cut);
      if (tracing_) Note(absl::StrCat("checkpoint ", cut->id, " at clock ", cut->clock));
    }
    for (uint32_t s = 0; s < shards_.size(); ++s) {
      const auto changed = saboteur_.OnCommand(s, command);
      if (!changed) continue;
      Outbox out;
      const absl::Status status = shards_[s]->Execute(*changed, &out);
      if (!status.ok()) oracle_.Breach(absl::StrCat("shard ", s, ": ", status.ToString()));
      Flush(s, &out);
    }
  }
  for (const std::string& line : effects.news) {
    if (tracing_) Note(line);
  }
}

void Cluster::TakeCuts(uint32_t shard) {
  while (auto cut = shards_[shard]->TakeFinishedCut()) {
    oracle_.CutTaken(shard, *cut);
    const uint64_t id = cut->checkpoint;
    const size_t seen = ++cuts_[id];
    if (seen == 1) cut_fails_[id] = chance_.Happens(scenario_.failed_checkpoints);
    // The first shard whose part cannot be written spoils the checkpoint, whatever the others do.
    if (seen == (cut_fails_[id] ? 1 : shards_.size())) {
      queue_.After(chance_.Between(std::chrono::milliseconds(1), std::chrono::milliseconds(50)),
                   [this, id] { CheckpointWritten(id); });
    }
  }
}

void Cluster::CheckpointWritten(uint64_t id) {
  Effects effects;
  coordinator_->CheckpointDone(
      id, cut_fails_[id] ? absl::UnavailableError("no space") : absl::OkStatus(), &effects);
  Apply(std::move(effects));
}

void Cluster::Tick() {
  queue_.After(kTick, [this] { Tick(); });
  Effects effects;
  coordinator_->Tick(queue_.now(), &effects);
  Apply(std::move(effects));
  if (queue_.now() < scenario_.network.heals_at || coordinator_->over()) return;
  // Somebody starts the workers that are missing.
  const auto alive = std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) {
    return !worker->dead() && !worker->done();
  });
  const bool begun = coordinator_->state() != StatusReply::WAITING;
  if (alive < (begun ? 1 : scenario_.processes)) StartProcess();
}

bool Cluster::Over() const {
  return coordinator_->over() &&
         std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->dead() || worker->done(); });
}

void Cluster::CheckEnd() {
  const StatusReply status = coordinator_->Status(queue_.now());
  outcome_.evaluations = status.evaluations_size();
  if (outcome_.evaluations == 0 && !coordinator_->drained()) {
    oracle_.Breach("the run ended without an evaluation");
  }
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    for (const auto& [slice, bytes] : shards_[s]->ShareWeights()) {
      const auto values = AsFloats(bytes);
      outcome_.weights[slice].assign(values.begin(), values.end());
      Mix(ChecksumOf(bytes.span()));
    }
  }
  oracle_.Ended(outcome_.weights);
}

Outcome Cluster::Run() {
  for (int i = 0; i < scenario_.processes; ++i) StartProcess();
  PlanMisfortunes();
  Tick();
  const Time limit = scenario_.network.heals_at + scenario_.patience;
  while (!Over() && queue_.now() < limit && oracle_.breaches().empty() && queue_.RunOne()) {
  }
  if (Over()) {
    CheckEnd();
  } else if (oracle_.breaches().empty()) {
    std::string waiting;
    for (const auto& shard : shards_) {
      absl::StrAppend(&waiting, " ", shard->SlowestClock(), "..", shard->FastestClock(), "/",
                      shard->waiting_pulls());
    }
    oracle_.Breach(absl::StrCat("the run did not end; shards' clocks and waiting pulls:", waiting));
  }
  for (const auto& shard : shards_) {
    const ShardStats& stats = shard->stats();
    outcome_.stats.pushes += stats.pushes;
    outcome_.stats.pulls += stats.pulls;
    outcome_.stats.duplicates += stats.duplicates;
    for (const auto& [reason, count] : stats.refused) outcome_.stats.refused[reason] += count;
    outcome_.stats.pull_staleness.Merge(stats.pull_staleness);
  }
  outcome_.breaches = oracle_.breaches();
  outcome_.counts = oracle_.counts();
  outcome_.took = queue_.now() - start_;
  outcome_.trace.assign(trace_.begin(), trace_.end());
  return outcome_;
}

}  // namespace psgd::sim
