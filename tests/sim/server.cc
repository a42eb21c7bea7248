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
      own_(cluster, scenario, ShardMoves::kCoordinator, &saboteur_,
           [this](uint32_t shard, const ShardCut& cut) { TakeCut(shard, cut); }),
      standby_(scenario.network_seed, shards(), scenario.sabotage != Sabotage::kDontWait,
               [this](uint32_t shard) { return ShardOptionsWithoutJournal(shard); }),
      behind_(std::make_shared<Standby*>(&standby_)),
      moves_(std::vector<uint32_t>(shards(), ShardMoves::kCoordinator)),
      join_chance_(scenario.network_seed, 6) {
  Start();
  if (replicated()) BeginStandbyLater();
  JoinLater();
}

bool Server::replicated() const {
  return scenario_.config.durability().acknowledge() == DurabilityConfig::REPLICATED;
}

bool Server::journals() const {
  return scenario_.config.durability().acknowledge() != DurabilityConfig::MEMORY;
}

bool Server::syncs() const {
  return scenario_.config.durability().acknowledge() == DurabilityConfig::FSYNC;
}

DurableShardOptions Server::ShardOptionsWithoutJournal(uint32_t shard) {
  DurableShardOptions options;
  options.shard.shard = shard;
  options.shard.config = scenario_.config;
  if (scenario_.sabotage == Sabotage::kGateOff)
    options.shard.config.mutable_consistency()->set_staleness(-1);
  options.shard.reply_bytes = scenario_.reply_bytes;
  options.shard.held_bytes = scenario_.held_bytes;
  options.shard.starts = ++shard_lives_;
  options.image_after = scenario_.image_after;
  options.given_bytes = scenario_.given_bytes;
  return options;
}

DurableShardOptions Server::ShardOptionsFor(Holder& holder, uint32_t shard) {
  DurableShardOptions options = ShardOptionsWithoutJournal(shard);
  ShardDisk* const disk = holder.disks()[shard].get();
  if (replicated()) {
    options.journal = std::make_unique<SimReplicatedJournal>(disk, shard, behind_);
  } else if (journals()) {
    options.journal =
        std::make_unique<SimJournal>(disk, SimJournalOptions{syncs(), scenario_.disk_fault});
  }
  return options;
}

void Server::Start() {
  CoordinatorOptions options;
  options.config = scenario_.config;
  options.first_incarnation = static_cast<uint32_t>(crashes_ + 1);
  coordinator_ = std::make_unique<CoordinatorCore>(options);
  for (uint32_t s = 0; s < shards(); ++s) {
    own_.EmptyDisk(s);
    own_.Put(s, std::make_unique<DurableShard>(ShardOptionsFor(own_, s)));
  }
  written_.assign(shards(), 0);
  up_ = true;
}

const DurableShard* Server::shard(uint32_t s) const {
  const uint32_t holder = HolderOf(s);
  return (holder == ShardMoves::kCoordinator ? own_ : *joined_[holder - 2].holder).Find(s);
}

bool Server::settled() const {
  for (uint32_t s = 0; s < shards(); ++s) {
    if (shard(s) == nullptr) return false;
  }
  return !orders_.pending() && !moves_.under_way();
}

uint64_t Server::images() const {
  uint64_t images = own_.images();
  for (const Joined& joined : joined_) images += joined.holder->images();
  return images;
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
  std::vector<bool> behind(shards());  // those that could not carry one out get none after it
  for (OrderBook::Order& order : orders_.orders()) {
    if (order.carried_out) continue;
    order.carried_out = true;
    Tell(order.number, order.command);
    for (uint32_t s = 0; s < shards(); ++s) {
      absl::Status status;
      if (!behind[s]) status = Execute(s, saboteur_.OnCommand(s, order.command), order.number);
      behind[s] = behind[s] || absl::IsUnavailable(status);
      if (behind[s]) {
        order.carried_out = false;
      } else if (!status.ok()) {
        // A disk that is full when the model comes: the run ends, as people would end it.
        if (!absl::IsResourceExhausted(status)) {
          cluster_->FoundOut(absl::StrCat("shard ", s, ": ", status.ToString()));
        }
        Die(Death::kKilled);
        return false;
      }
      if (DiesHere()) return false;
    }
  }
  if (orders_.pending()) return false;
  if (const absl::Status known = orders_.Written(written_); !known.ok()) {
    cluster_->FoundOut(std::string(known.message()));
    return false;
  }
  if (installs && !SaveRecord()) return false;
  return !DiesHere();
}

absl::Status Server::Execute(uint32_t shard, const ShardCommand& command, uint64_t number) {
  const auto written = std::make_shared<uint64_t>(0);
  const absl::Status status = Call(HolderOf(shard), [=](Holder& holder) {
    DurableShard* const durable = holder.Find(shard);
    if (durable == nullptr) return absl::FailedPreconditionError("the shard is not here");
    PSGD_RETURN_IF_ERROR(durable->Execute(command, number));
    holder.Commit(shard);
    *written = durable->stalled().ok() ? durable->core().last_order() : 0;
    return absl::OkStatus();
  });
  if (status.ok()) written_[shard] = *written;
  return status;
}

bool Server::SaveRecord() {
  std::vector<uint32_t> owners = moves_.owners();
  if (scenario_.sabotage == Sabotage::kTellUnwritten)
    owners.assign(shards(), ShardMoves::kCoordinator);
  if (!journals()) cluster_->oracle().WrittenDown(owners);
  if (!journals() || coordinator_->model() == nullptr) return true;
  if (own_.full()) return false;
  if (scenario_.sabotage == Sabotage::kOldRecord && crashes_ == 0 && told_ > 4) return true;
  CoordinatorRecord record = coordinator_->Save(Now());
  orders_.Save(&record);
  record.mutable_owners()->Assign(owners.begin(), owners.end());
  if (scenario_.sabotage == Sabotage::kForgetOrders) record.clear_orders();
  record_.Write(record.SerializeAsString(), syncs());
  cluster_->oracle().WrittenDown(owners);
  return !replicated() || standby_.Save(record_.latest()).ok();
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

void Server::Deliver(uint32_t process, uint32_t server, uint32_t shard, Message message) {
  Holder* const holder = HolderAt(server);
  holder->WhenAwake([holder, process, shard, message = std::move(message)] {
    holder->Deliver(process, shard, message);
  });
}

void Server::TakeCut(uint32_t shard, const ShardCut& cut) {
  cluster_->oracle().CutTaken(shard, cut);
  const uint64_t id = cut.checkpoint;
  if (!cuts_[id].insert(shard).second) return;  // it came again
  const size_t seen = cuts_[id].size();
  if (seen == 1) cut_fails_[id] = chance_.Happens(scenario_.failed_checkpoints);
  // The first shard whose part cannot be written spoils the checkpoint, whatever the others do.
  if (seen != (cut_fails_[id] ? 1 : shards())) return;
  cluster_->queue().After(
      chance_.Between(std::chrono::milliseconds(1), std::chrono::milliseconds(50)),
      [this, id, life = life_] {
        if (life == life_) own_.WhenAwake([this, id] { CheckpointWritten(id); });
      });
}

void Server::CheckpointWritten(uint64_t id) {
  Effects effects;
  coordinator_->CheckpointDone(
      id, cut_fails_[id] ? absl::UnavailableError("no space") : absl::OkStatus(), &effects);
  (void)Apply(std::move(effects));
  if (up_) TellCheckpointDone(id);
}

void Server::TellCheckpointDone(uint64_t id) {
  // Then shards forget what the cut could be made from again, should the server die.
  if (!SaveRecord()) {
    cluster_->queue().After(std::chrono::milliseconds(20), [this, id, life = life_] {
      if (life == life_) own_.WhenAwake([this, id] { TellCheckpointDone(id); });
    });
    return;
  }
  for (uint32_t s = 0; s < shards(); ++s) {
    (void)Call(HolderOf(s), [this, s, id](Holder& holder) {
      if (holder.server() != ShardMoves::kCoordinator) At(holder.server()).cuts.erase(s);
      if (DurableShard* const durable = holder.Find(s)) durable->CheckpointDone(id);
      return absl::OkStatus();
    });
  }
}

void Server::FillDisks(Duration length) {
  const auto fill = [this](bool full) {
    own_.Fill(full);
    for (Joined& joined : joined_) joined.holder->Fill(full);
  };
  fill(true);
  cluster_->queue().After(length, [fill] { fill(false); });
}

void Server::CheckDisks() {
  if (!journals() || record_.latest().empty()) return;
  for (uint32_t s = 0; s < shards(); ++s) {
    const uint32_t server = HolderOf(s);
    Holder& holder = *HolderAt(server);
    holder.Fill(false);
    holder.Commit(s);
    std::vector<std::string> notes;
    const auto again = DurableShard::Recover(ShardOptionsFor(holder, s), &notes);
    if (!again.ok()) {
      cluster_->oracle().Breach(
          absl::StrCat("shard ", s, " cannot be made again: ", again.status().ToString()));
      continue;
    }
    const auto here = holder.Find(s)->core().ShareWeights();
    const auto there = (*again)->core().ShareWeights();
    for (size_t i = 0; i < here.size(); ++i) {
      const auto one = AsFloats(here[i].second), other = AsFloats(there[i].second);
      if (std::equal(one.begin(), one.end(), other.begin(), other.end())) continue;
      cluster_->oracle().Breach(absl::StrCat("the journal of shard ", s,
                                             " makes other weights of slice ", here[i].first));
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
    cluster_->oracle().Breach(absl::StrCat("worker ", out->key.worker(),
                                           " was put out, though it was heard ", Seconds(silent),
                                           " s before"));
  }
  return Apply(std::move(effects));
}

void Server::Tick() {
  TickJoined();
  if (!up_ || own_.paused()) return;
  // A disk that was full is tried again.
  own_.CommitAll();
  constexpr Duration kStep = std::chrono::milliseconds(100);
  for (; hidden_step_ > kStep; hidden_step_ -= kStep) {
    if (!EndLeases(Now() - hidden_step_)) return;
  }
  hidden_step_ = {};
  EndLeases(Now());
}

}  // namespace psgd::sim
