// What happens in a simulated run at times that somebody wrote down.
#include "absl/strings/str_cat.h"
#include "tests/sim/cluster.h"

namespace psgd::sim {

void Cluster::PlanEvents() {
  for (const Event& event : scenario_.events) {
    queue_.After(event.at, [this, event] { Happen(event); });
  }
}

void Cluster::Drain() {
  DrainRequest request;
  request.set_reason("asked to");
  if (!server_->up()) return;
  Effects effects;
  coordinator().Drain(request, &effects);
  server_->Apply(std::move(effects));
}

void Cluster::Happen(const Event& event) {
  if (event.at_worker) return HappenToWorker(event);
  const auto death = event.what == Event::kPower ? Server::Death::kPower : Server::Death::kKilled;
  switch (event.what) {
    case Event::kKill:
    case Event::kPower:
      if (event.who == Event::kStandby) return server_->KillStandby();
      return event.writing_image ? server_->DieWithImage(event.who, death)
                                 : server_->Kill(event.who, death);
    case Event::kPause:
      return server_->Pause(event.who, event.length);
    case Event::kFullDisk:
      return server_->FillDisks(event.length);
    case Event::kClock:
      return server_->StepClock(event.step);
    case Event::kStart:
      return StartProcess();
    case Event::kDisconnect:
      return server_->BreakConnection(event.who);
    case Event::kLeave:
      return server_->Leave(event.who);
    case Event::kMove:
      return server_->MoveTo(event.shard, event.who);
    case Event::kDrop:
    case Event::kRepeat:
    case Event::kSlow:
      return ChangeRates(event);
    case Event::kDrain:
      return Drain();
    case Event::kCut:
      return;  // of a worker
  }
}

void Cluster::HappenToWorker(const Event& event) {
  if (event.who >= workers_.size()) return;  // it was not started yet
  Worker* const worker = workers_[event.who].get();
  if (worker->dead() || worker->done()) return;
  switch (event.what) {
    case Event::kKill:
      return worker->Crash("killed");
    case Event::kPause:
      return worker->Pause(event.length);
    case Event::kClock:
      return worker->StepClock(event.step);
    default:
      break;
  }
  const Time until = queue_.now() + event.length;
  if (event.from_coordinator) network_.Cut(ToCoordinator(event.who), until);
  for (uint32_t shard = 0; shard < server_->shards(); ++shard) {
    if (!event.from_all && (event.from_coordinator || shard != event.shard)) continue;
    network_.Cut(ToShard(event.who, server_->HolderOf(shard), shard), until);
  }
}

void Cluster::ChangeRates(const Event& event) {
  const double drop = network_.drop(), repeat = network_.repeat(), slow = network_.slow();
  network_.SetRates(event.what == Event::kDrop ? event.rate : drop,
                    event.what == Event::kRepeat ? event.rate : repeat,
                    event.what == Event::kSlow ? event.rate : slow);
  queue_.After(event.length, [=, this] { network_.SetRates(drop, repeat, slow); });
}

}  // namespace psgd::sim
