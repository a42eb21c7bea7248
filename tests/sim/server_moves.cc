// The part of the simulated servers that moves shards between them: the steps of
// server/shard_moves, as ParameterServer takes them.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster.h"

namespace psgd::sim {
namespace {

absl::Status NotHere() { return absl::FailedPreconditionError("the shard is not here"); }

}  // namespace

std::vector<std::string> Server::Endpoints() const {
  std::vector<std::string> endpoints;
  for (const uint32_t owner : moves_.owners()) endpoints.push_back(std::to_string(owner));
  return endpoints;
}

void Server::MoveOn() {
  // Now and then the mover hangs.
  const Duration most =
      join_chance_.Happens(0.1) ? std::chrono::milliseconds(150) : std::chrono::milliseconds(6);
  const Duration after = join_chance_.Between(std::chrono::microseconds(200), most);
  cluster_->queue().After(after, [this] {
    MoveOn();
    if (!up_ || own_.paused() || coordinator_->model() == nullptr) return;
    if (Faulty() && join_chance_.Happens(scenario_.moves)) AskForMove();
    StepOfMove();
  });
}

void Server::AskForMove() {
  const uint32_t to = join_chance_.Happens(0.3) ? ShardMoves::kCoordinator : AnyJoined();
  if (to == 0 || (to != ShardMoves::kCoordinator && !At(to).connected)) return;
  MoveTo(static_cast<uint32_t>(join_chance_.Between(0, static_cast<int64_t>(shards()) - 1)), to);
}

void Server::MoveTo(uint32_t shard, uint32_t server) {
  std::vector<uint32_t> target = moves_.target();
  target[shard] = server;
  moves_.SetTarget(std::move(target));
}

void Server::StepOfMove() {
  const auto step = moves_.Next(!orders_.pending() && !coordinator_->checkpoint_under_way() &&
                                !coordinator_->over());
  if (!step || DiesHere()) return;
  if (Faulty() && journals() && join_chance_.Happens(scenario_.killed_moves)) {
    const uint32_t server = join_chance_.Happens(0.5) ? step->server : HolderOf(step->shard);
    if (server != ShardMoves::kCoordinator) KillOther(server, Death::kKilled);
  }
  const absl::Status status = CarryOutStep(*step);
  if (!up_) return;
  if (cluster_->tracing()) {
    constexpr const char* kNames[] = {"give", "take", "follow", "write down", "go on", "drop"};
    cluster_->Note(absl::StrCat("shard ", step->shard, ": server ", step->server, " is to ",
                                kNames[static_cast<int>(step->what)], ": ", status.ToString()));
  }
  const auto ended = moves_.Done(status, round_);
  coordinator_->MoveShards(Endpoints());
  if (ended) ++(ended->status.ok() ? moves_done_ : moves_undone_);
  (void)DiesHere();
}

absl::Status Server::CarryOutStep(const ShardMoves::Step& step) {
  switch (step.what) {
    case ShardMoves::Do::kGive:
      return Give(step);
    case ShardMoves::Do::kTake:
      return Take(step);
    case ShardMoves::Do::kFollow:
      return Follow(step);
    case ShardMoves::Do::kWriteDown:
      return WriteDownMove(step);
    case ShardMoves::Do::kGoOn:
      return Call(step.server, [shard = step.shard](Holder& holder) {
        DurableShard* const durable = holder.Find(shard);
        if (durable == nullptr) return NotHere();
        durable->KeepOn();
        return absl::OkStatus();
      });
    case ShardMoves::Do::kDrop:
      return Call(step.server, [this, shard = step.shard](Holder& holder) {
        if (holder.server() != ShardMoves::kCoordinator) At(holder.server()).cuts.erase(shard);
        holder.Drop(shard);
        return absl::OkStatus();
      });
  }
  return absl::OkStatus();
}

absl::Status Server::Give(const ShardMoves::Step& step) {
  const auto given = std::make_shared<ShardImage>();
  const absl::Status status = Call(step.server, [this, given, shard = step.shard](Holder& holder) {
    DurableShard* const durable = holder.Find(shard);
    if (durable == nullptr) return NotHere();
    PSGD_ASSIGN_OR_RETURN(*given, durable->Give());
    saboteur_.OnGive(given.get());
    return absl::OkStatus();
  });
  if (status.ok()) moving_ = *given;
  return status;
}

absl::Status Server::Take(const ShardMoves::Step& step) {
  const absl::Status taken =
      Call(step.server, [this, image = moving_, shard = step.shard](Holder& holder) {
        holder.Drop(shard);
        holder.EmptyDisk(shard);
        auto durable = DurableShard::FromImage(ShardOptionsFor(holder, shard), image);
        if (!durable.ok()) {
          holder.Drop(shard);
          return durable.status();
        }
        (*durable)->StandStill();
        holder.Put(shard, *std::move(durable));
        return absl::OkStatus();
      });
  followed_ = moving_.record.entry();
  moving_ = {};
  return taken;
}

absl::Status Server::Follow(const ShardMoves::Step& step) {
  const auto given = std::make_shared<GivenSteps>();
  PSGD_RETURN_IF_ERROR(
      Call(HolderOf(step.shard), [this, given, step, entry = followed_](Holder& holder) {
        DurableShard* const durable = holder.Find(step.shard);
        if (durable == nullptr) return NotHere();
        PSGD_ASSIGN_OR_RETURN(*given, durable->GiveSince(entry, step.last));
        saboteur_.OnGiveSince(durable, given.get());
        return absl::OkStatus();
      }));
  const auto written = std::make_shared<uint64_t>(0);
  PSGD_RETURN_IF_ERROR(Call(step.server, [given, written, shard = step.shard](Holder& holder) {
    DurableShard* const durable = holder.Find(shard);
    if (durable == nullptr) return NotHere();
    PSGD_RETURN_IF_ERROR(durable->Follow(given->steps.first, given->steps.entries));
    durable->CheckpointDone(given->checkpoint_done);
    *written = durable->core().last_order();
    return absl::OkStatus();
  }));
  followed_ = given->steps.last();
  round_ = {given->bytes(), given->stands_still};
  written_[step.shard] = *written;
  return absl::OkStatus();
}

absl::Status Server::WriteDownMove(const ShardMoves::Step& step) {
  if (step.server != ShardMoves::kCoordinator && !At(step.server).connected) {
    return absl::UnavailableError("the new server is away");
  }
  return SaveRecord() ? absl::OkStatus() : absl::UnavailableError("it cannot be written down");
}

}  // namespace psgd::sim
