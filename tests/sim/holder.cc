#include "tests/sim/holder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster.h"

namespace psgd::sim {

Holder::Holder(Cluster* cluster, const Scenario& scenario, uint32_t server, Saboteur* saboteur, OnCut on_cut)
    : cluster_(cluster),
      scenario_(scenario),
      server_(server),
      saboteur_(saboteur),
      on_cut_(std::move(on_cut)),
      chance_(scenario.network_seed, 500 + server) {}

DurableShard* Holder::Find(uint32_t shard) const {
  const auto found = shards_.find(shard);
  return found == shards_.end() ? nullptr : found->second.get();
}

ShardDisk* Holder::EmptyDisk(uint32_t shard) {
  disks_[shard] = std::make_unique<ShardDisk>();
  disks_[shard]->full = full_;
  return disks_[shard].get();
}

void Holder::Drop(uint32_t shard) {
  shards_.erase(shard);
  disks_.erase(shard);
  commit_due_.erase(shard);
}

void Holder::Fill(bool full) {
  full_ = full;
  for (auto& [shard, disk] : disks_) disk->full = full;
}

void Holder::Die() {
  for (auto& [shard, durable] : shards_) {
    // Written, and nobody heard of it any more.
    Outbox lost;
    if (chance_.Happens(0.3)) durable->Commit(&lost);
  }
  shards_.clear();
  commit_due_.clear();
  ++life_;
}

void Holder::Deliver(uint32_t process, uint32_t shard, Message message) {
  DurableShard* const durable = Find(shard);
  if (durable == nullptr) return;
  for (Message& changed : saboteur_->OnMessage(std::move(message))) {
    if (cluster_->tracing()) {
      cluster_->Note(absl::StrCat("-> server ", server_, " ", changed.header.ShortDebugString()));
    }
    durable->OnMessage(process, std::move(changed));
  }
  if (durable->journal() == nullptr || scenario_.disk_delay.count() == 0) {
    Commit(shard);
  } else {
    CommitLater(shard);
  }
}

void Holder::CommitLater(uint32_t shard) {
  if (!commit_due_.insert(shard).second) return;
  cluster_->queue().After(chance_.Between(Duration(0), scenario_.disk_delay), [this, shard, life = life_] {
    if (life != life_) return;
    commit_due_.erase(shard);
    Commit(shard);
  });
}

void Holder::Commit(uint32_t shard) {
  DurableShard* const durable = Find(shard);
  if (durable == nullptr) return;
  Outbox out;
  durable->Commit(&out);
  for (Outgoing& outgoing : out) {
    saboteur_->OnAnswer(&outgoing.message);
    cluster_->Answer(static_cast<uint32_t>(outgoing.to), server_, shard, std::move(outgoing.message),
                     durable->core());
  }
  while (auto cut = durable->TakeFinishedCut()) on_cut_(shard, *cut);
  if (auto image = durable->TakeDueImage()) SaveImageLater(shard, std::move(*image));
}

void Holder::CommitAll() {
  for (const auto& [shard, durable] : shards_) Commit(shard);
}

void Holder::SaveImageLater(uint32_t shard, ShardImage image) {
  const Duration length = chance_.Between(std::chrono::milliseconds(0), std::chrono::milliseconds(80));
  cluster_->queue().After(length, [this, shard, life = life_, image = std::move(image)] {
    DurableShard* const durable = Find(shard);
    if (life != life_ || durable == nullptr) return;
    ++images_;
    durable->ImageSaved(durable->journal()->SaveImage(image));
  });
}

}  // namespace psgd::sim
