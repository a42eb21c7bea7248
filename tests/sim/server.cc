#include "tests/sim/server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster.h"

namespace psgd::sim {

Server::Server(Cluster* cluster, const Scenario& scenario)
    : cluster_(cluster),
      scenario_(scenario),
      chance_(scenario.network_seed, 3),
      saboteur_(scenario.sabotage),
      disks_(scenario.config.cluster().shards()),
      standby_(scenario.network_seed, disks_.size(), scenario.sabotage != Sabotage::kDontWait,
               [this](uint32_t shard) {
        // Of the life in which it leads.
        DurableShardOptions options = ShardOptionsFor(shard);
        options.journal = nullptr;
        options.shard.starts = static_cast<uint32_t>(crashes_ + 2);
        return options;
      }),
      behind_(std::make_shared<Standby*>(&standby_)) {
  for (auto& disk : disks_) disk = std::make_unique<ShardDisk>();
  Start();
  if (replicated()) BeginStandbyLater();
}

bool Server::replicated() const {
  return scenario_.config.durability().acknowledge() == DurabilityConfig::REPLICATED;
}

bool Server::journals() const {
  return scenario_.config.durability().acknowledge() != DurabilityConfig::MEMORY;
}

DurableShardOptions Server::ShardOptionsFor(uint32_t shard) {
  DurableShardOptions options;
  options.shard.shard = shard;
  options.shard.config = scenario_.config;
  options.shard.reply_bytes = scenario_.reply_bytes;
  options.shard.held_bytes = scenario_.held_bytes;
  options.shard.starts = static_cast<uint32_t>(crashes_ + 1);
  options.image_after = scenario_.image_after;
  if (replicated()) {
    options.journal =
        std::make_unique<SimReplicatedJournal>(disks_[shard].get(), shard, behind_);
  } else if (journals()) {
    options.journal = std::make_unique<SimJournal>(disks_[shard].get());
  }
  return options;
}

void Server::Start() {
  CoordinatorOptions options;
  options.config = scenario_.config;
  options.first_incarnation = static_cast<uint32_t>(crashes_ + 1);
  coordinator_ = std::make_unique<CoordinatorCore>(options);
  for (uint32_t s = 0; s < disks_.size(); ++s) {
    shards_.push_back(std::make_unique<DurableShard>(ShardOptionsFor(s)));
  }
  commit_due_.assign(disks_.size(), false);
  up_ = true;
}

void Server::Die() {
  if (!up_) return;
  if (cluster_->tracing()) cluster_->Note("the server dies");
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    // Written, and nobody heard of it any more.
    Outbox lost;
    if (chance_.Happens(0.3)) shards_[s]->Commit(&lost);
  }
  shards_.clear();
  coordinator_.reset();
  orders_ = OrderBook();
  cuts_.clear();
  up_ = false;
  ++life_;
  ++crashes_;
  steps_to_live_ = 0;
  Damage(scenario_.disk_fault, disks_[0].get());
  cluster_->queue().After(
      chance_.Between(std::chrono::milliseconds(5), std::chrono::milliseconds(600)),
      [this] { StartAgain(); });
}

void Server::DieSoon() { steps_to_live_ = static_cast<int>(chance_.Between(1, 9)); }

bool Server::DiesHere() {
  if (steps_to_live_ == 0 || --steps_to_live_ > 0) return false;
  Die();
  return true;
}

void Server::StartAgain() {
  if (cluster_->tracing()) cluster_->Note("the server is started again");
  // Nobody was told of a model yet: all begins anew.
  if (record_.empty()) {
    for (auto& disk : disks_) *disk = {};
    told_ = 0;
    if (replicated()) standby_.Begin();
    Start();
    return;
  }
  CoordinatorRecord record;
  record.ParseFromString(record_);
  const bool takes_over = standby_.may_lead() && chance_.Happens(0.85);
  const absl::Status recovered = takes_over ? TakeOver() : Recover(record);
  if (replicated() && !takes_over) {
    // It comes to the server that is back as a new one.
    standby_.Die();
    BeginStandbyLater();
  }
  if (!recovered.ok()) {
    cluster_->oracle().Breach(absl::StrCat("the server cannot go on: ", recovered.ToString()));
    return;
  }
  up_ = true;
  CarryOut();
}

void Server::RestoreCoordinator(const CoordinatorRecord& record) {
  CoordinatorOptions options;
  options.config = scenario_.config;
  options.first_incarnation = static_cast<uint32_t>(crashes_ + 1);
  coordinator_ = std::make_unique<CoordinatorCore>(options);
  coordinator_->Restore(record, Now());
  commit_due_.assign(disks_.size(), false);
}

absl::Status Server::Recover(const CoordinatorRecord& record) {
  RestoreCoordinator(record);
  PSGD_RETURN_IF_ERROR(orders_.Restore(record));
  for (uint32_t s = 0; s < disks_.size(); ++s) {
    std::vector<std::string> notes;
    PSGD_ASSIGN_OR_RETURN(auto shard, DurableShard::Recover(ShardOptionsFor(s), &notes));
    shards_.push_back(std::move(shard));
  }
  RestoreCuts();
  return absl::OkStatus();
}

void Server::RestoreCuts() {
  const auto& under_way = coordinator_->checkpoint_under_way();
  for (uint32_t s = 0; s < disks_.size(); ++s) {
    const auto cut = shards_[s]->TakeReplayedCut();
    if (cut && under_way && cut->checkpoint == under_way->checkpoint) {
      TakeCut(s, *cut);
    } else if (cut) {
      shards_[s]->CheckpointDone(cut->checkpoint);
    }
  }
}

bool Server::Apply(Effects effects) {
  orders_.Add(std::move(effects.commands));
  if (cluster_->tracing()) {
    for (const std::string& line : effects.news) cluster_->Note(line);
  }
  return CarryOut();
}

bool Server::CarryOut() {
  const bool installs = orders_.installs();
  if (DiesHere()) return false;
  if (!installs && !SaveRecord()) return false;
  if (DiesHere()) return false;
  for (OrderBook::Order& order : orders_.orders()) {
    if (std::exchange(order.carried_out, true)) continue;
    Tell(order.number, order.command);
    for (uint32_t s = 0; s < shards_.size(); ++s) {
      const auto changed = saboteur_.OnCommand(s, order.command);
      if (!changed) continue;
      const absl::Status status = shards_[s]->Execute(*changed, order.number);
      if (!status.ok()) {
        // A disk that is full when the model comes: the run ends, as people would end it.
        if (!absl::IsResourceExhausted(status)) {
          cluster_->oracle().Breach(absl::StrCat("shard ", s, ": ", status.ToString()));
        }
        Die();
        return false;
      }
      Commit(s);
      if (DiesHere()) return false;
    }
  }
  uint64_t written = orders_.last();
  for (const auto& shard : shards_) {
    written = std::min(written, shard->stalled().ok() ? shard->core().last_order() : 0);
  }
  orders_.Written(written);
  if (installs && !SaveRecord()) return false;
  return !DiesHere();
}

bool Server::SaveRecord() {
  if (!journals() || coordinator_->model() == nullptr) return true;
  if (disks_[0]->full) return false;
  if (scenario_.sabotage == Sabotage::kOldRecord && crashes_ == 0 && told_ > 4) return true;
  CoordinatorRecord record = coordinator_->Save(Now());
  orders_.Save(&record);
  if (scenario_.sabotage == Sabotage::kForgetOrders) record.clear_orders();
  record_ = record.SerializeAsString();
  return !replicated() || standby_.Save(record_).ok();
}

void Server::Tell(uint64_t number, const ShardCommand& command) {
  if (number <= told_) return;
  told_ = number;
  Oracle& oracle = cluster_->oracle();
  if (const auto* removed = std::get_if<RemoveWorker>(&command)) oracle.Removed(removed->key);
  if (const auto* begun = std::get_if<BeginSegment>(&command)) {
    oracle.Dealt(begun->segment);
    if (cluster_->tracing()) {
      cluster_->Note(absl::StrCat("segment ", begun->segment.ShortDebugString()));
    }
  }
  if (const auto* cut = std::get_if<TakeCheckpoint>(&command)) {
    oracle.CutOrdered(*cut);
    if (cluster_->tracing()) {
      cluster_->Note(absl::StrCat("checkpoint ", cut->id, " at clock ", cut->clock));
    }
  }
}

void Server::Deliver(uint32_t process, uint32_t shard, Message message) {
  if (!up_) return;
  for (Message& changed : saboteur_.OnMessage(std::move(message))) {
    if (cluster_->tracing()) {
      cluster_->Note(absl::StrCat("-> ", changed.header.ShortDebugString()));
    }
    shards_[shard]->OnMessage(process, std::move(changed));
  }
  if (!journals() || scenario_.disk_delay.count() == 0) {
    Commit(shard);
  } else {
    CommitLater(shard);
  }
}

void Server::CommitLater(uint32_t shard) {
  if (commit_due_[shard]) return;
  commit_due_[shard] = true;
  cluster_->queue().After(chance_.Between(Duration(0), scenario_.disk_delay),
                          [this, shard, life = life_] {
                            if (life != life_) return;
                            commit_due_[shard] = false;
                            Commit(shard);
                          });
}

void Server::Commit(uint32_t shard) {
  Outbox out;
  shards_[shard]->Commit(&out);
  for (Outgoing& outgoing : out) {
    saboteur_.OnAnswer(&outgoing.message);
    cluster_->Answer(static_cast<uint32_t>(outgoing.to), shard, std::move(outgoing.message),
                     shards_[shard]->core());
  }
  while (auto cut = shards_[shard]->TakeFinishedCut()) TakeCut(shard, *cut);
  if (auto image = shards_[shard]->TakeDueImage()) SaveImageLater(shard, std::move(*image));
}

void Server::SaveImageLater(uint32_t shard, ShardImage image) {
  const Duration length =
      chance_.Between(std::chrono::milliseconds(0), std::chrono::milliseconds(80));
  cluster_->queue().After(length, [this, shard, life = life_, image = std::move(image)] {
    if (life != life_) return;
    ++images_;
    shards_[shard]->ImageSaved(shards_[shard]->journal()->SaveImage(image));
  });
}

void Server::TakeCut(uint32_t shard, const ShardCut& cut) {
  cluster_->oracle().CutTaken(shard, cut);
  const uint64_t id = cut.checkpoint;
  const size_t seen = ++cuts_[id];
  if (seen == 1) cut_fails_[id] = chance_.Happens(scenario_.failed_checkpoints);
  // The first shard whose part cannot be written spoils the checkpoint, whatever the others do.
  if (seen != (cut_fails_[id] ? 1 : shards_.size())) return;
  cluster_->queue().After(
      chance_.Between(std::chrono::milliseconds(1), std::chrono::milliseconds(50)),
      [this, id, life = life_] {
        if (life == life_) CheckpointWritten(id);
      });
}

void Server::CheckpointWritten(uint64_t id) {
  Effects effects;
  coordinator_->CheckpointDone(
      id, cut_fails_[id] ? absl::UnavailableError("no space") : absl::OkStatus(), &effects);
  if (!Apply(std::move(effects)) && !up_) return;
  for (const auto& shard : shards_) shard->CheckpointDone(id);
}

void Server::FillDisks(Duration length) {
  for (auto& disk : disks_) disk->full = true;
  cluster_->queue().After(length, [this] {
    for (auto& disk : disks_) disk->full = false;
  });
}

void Server::CheckDisks() {
  if (!journals() || record_.empty()) return;
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    disks_[s]->full = false;
    Commit(s);
    std::vector<std::string> notes;
    const auto again = DurableShard::Recover(ShardOptionsFor(s), &notes);
    if (!again.ok()) {
      cluster_->oracle().Breach(absl::StrCat("shard ", s, " cannot be made again: ",
                                             again.status().ToString()));
      continue;
    }
    const auto here = shards_[s]->core().ShareWeights();
    const auto there = (*again)->core().ShareWeights();
    for (size_t i = 0; i < here.size(); ++i) {
      const auto one = AsFloats(here[i].second), other = AsFloats(there[i].second);
      if (std::equal(one.begin(), one.end(), other.begin(), other.end())) continue;
      cluster_->oracle().Breach(absl::StrCat("the journal of shard ", s, " makes other weights of slice ",
                                             here[i].first));
    }
  }
}

Time Server::Now() const { return cluster_->queue().now() + clock_offset_; }

void Server::StepClock(Duration step) {
  clock_offset_ += step;
  if (scenario_.sabotage == Sabotage::kHideStep) hidden_step_ = step;
}

void Server::Heard(const WorkerKey& key) {
  heard_[{key.worker(), key.incarnation()}] = cluster_->queue().now();
}

bool Server::EndLeases(Time now) {
  Effects effects;
  coordinator_->Tick(now, &effects);
  const Duration lease = Milliseconds(scenario_.config.cluster().lease());
  for (const ShardCommand& command : effects.commands) {
    const auto* out = std::get_if<RemoveWorker>(&command);
    if (out == nullptr) continue;
    const auto heard = heard_.find({out->key.worker(), out->key.incarnation()});
    if (heard == heard_.end()) continue;
    // A step of the clock may count for a little.
    const Duration silent = cluster_->queue().now() - heard->second;
    if (silent >= lease / 3) continue;
    cluster_->oracle().Breach(absl::StrCat("worker ", out->key.worker(), " was put out, though it was heard ",
                                           Seconds(silent), " s before"));
  }
  return Apply(std::move(effects));
}

void Server::Tick() {
  if (!up_) return;
  // A disk that was full is tried again.
  for (uint32_t s = 0; s < shards_.size(); ++s) Commit(s);
  constexpr Duration kStep = std::chrono::milliseconds(100);
  for (; hidden_step_ > kStep; hidden_step_ -= kStep) {
    if (!EndLeases(Now() - hidden_step_)) return;
  }
  hidden_step_ = {};
  EndLeases(Now());
}

}  // namespace psgd::sim
