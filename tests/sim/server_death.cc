// The part of the simulated server that dies, or stands still, and is started again.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster.h"

namespace psgd::sim {

void Server::Die(Death death) {
  if (!up_) return;
  // A leader that loses its disk is followed by another server; without one it is only killed.
  const bool power = death == Death::kPower && (!replicated() || standby_.may_lead());
  must_take_over_ = power && replicated();
  if (cluster_->tracing())
    cluster_->Note(power ? "the server's machine loses power" : "the server dies");
  bool lost = own_.Die(power);
  coordinator_.reset();
  orders_ = OrderBook();
  cuts_.clear();
  moving_ = {};
  up_ = false;
  ++life_;
  ++crashes_;
  steps_to_live_ = 0;
  DisconnectAll();
  if (own_.disks().contains(0)) Damage(scenario_.disk_fault, own_.disks()[0].get());
  if (power) {
    ++power_losses_;
    lost = record_.LosePower(&chance_) || lost;
    if (lost && !replicated()) cluster_->oracle().MayHaveLost();
  }
  cluster_->queue().After(
      chance_.Between(std::chrono::milliseconds(5), std::chrono::milliseconds(600)),
      [this] { StartAgain(); });
}

void Server::DieSoon(Death death) {
  steps_to_live_ = static_cast<int>(chance_.Between(1, 9));
  death_ = death;
}

bool Server::DiesHere() {
  if (steps_to_live_ == 0 || --steps_to_live_ > 0) return false;
  Die(death_);
  return true;
}

void Server::DieWithImage(uint32_t server, Death death) {
  HolderAt(server)->TellOfNextImage([=, this](Duration length) {
    cluster_->queue().After(length / 2, [=, this] { Kill(server, death); });
  });
}

void Server::Pause(uint32_t server, Duration length) {
  if (cluster_->tracing())
    cluster_->Note(absl::StrCat("server ", server, " stands still for ", Seconds(length), " s"));
  ++pauses_;
  HolderAt(server)->Pause(cluster_->queue().now() + length);
}

void Server::StartAgain() {
  if (cluster_->tracing()) cluster_->Note("the server is started again");
  // Nobody was told of a model yet: all begins anew.
  if (record_.latest().empty()) {
    moves_ = ShardMoves(std::vector<uint32_t>(shards(), ShardMoves::kCoordinator));
    told_ = 0;
    if (replicated()) standby_.Begin();
    Start();
    return;
  }
  CoordinatorRecord record;
  record.ParseFromString(record_.latest());
  const bool takes_over = standby_.may_lead() && (chance_.Happens(0.85) || must_take_over_);
  const absl::Status recovered = takes_over ? TakeOver() : Recover(record);
  if (replicated() && !takes_over) {
    // It comes to the server that is back as a new one.
    standby_.Die();
    BeginStandbyLater();
  }
  if (!recovered.ok())
    return cluster_->FoundOut(absl::StrCat("the server cannot go on: ", recovered.ToString()));
  up_ = true;
  CarryOut();
}

void Server::RestoreCoordinator(const CoordinatorRecord& record) {
  CoordinatorOptions options;
  options.config = scenario_.config;
  options.first_incarnation = static_cast<uint32_t>(crashes_ + 1);
  coordinator_ = std::make_unique<CoordinatorCore>(options);
  coordinator_->Restore(record, Now());
  written_.assign(shards(), 0);
  moves_ = ShardMoves({record.owners().begin(), record.owners().end()});
  coordinator_->MoveShards(Endpoints());
}

absl::Status Server::Recover(const CoordinatorRecord& record) {
  RestoreCoordinator(record);
  PSGD_RETURN_IF_ERROR(orders_.Restore(record));
  told_ = std::min(
      told_, orders_.last());  // those that power took are forgotten, and their numbers given anew
  for (uint32_t s = 0; s < shards(); ++s) {
    if (HolderOf(s) != ShardMoves::kCoordinator) {
      own_.Drop(s);  // it may have been moved when the server died
      continue;
    }
    if (!own_.disks().contains(s))
      return absl::DataLossError(absl::StrCat("shard ", s, " has no journal here"));
    std::vector<std::string> notes;
    PSGD_ASSIGN_OR_RETURN(auto shard, DurableShard::Recover(ShardOptionsFor(own_, s), &notes));
    torn_images_ += notes.size();
    PSGD_RETURN_IF_ERROR(orders_.Check(s, shard->core().last_order()));
    own_.Put(s, std::move(shard));
  }
  RestoreCuts();
  return absl::OkStatus();
}

void Server::RestoreCuts() {
  const auto& under_way = coordinator_->checkpoint_under_way();
  for (const auto& [s, shard] : own_.shards()) {
    const auto cut = shard->TakeReplayedCut();
    if (cut && under_way && cut->checkpoint == under_way->checkpoint) {
      TakeCut(s, *cut);
    } else if (cut) {
      shard->CheckpointDone(cut->checkpoint);
    }
  }
}

}  // namespace psgd::sim
