#include "tests/sim/holder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster.h"

namespace psgd::sim {

Holder::Holder(Cluster* cluster, const Scenario& scenario, uint32_t server, Saboteur* saboteur,
               OnCut on_cut)
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

bool Holder::Die(bool power) {
  for (auto& [shard, durable] : shards_) {
    if (durable->journal() == nullptr) continue;
    // Written, if perhaps not synced, and nobody heard of it any more.
    ShardDisk* const disk = disks_.at(shard).get();
    Outbox lost;
    disk->dies_writing = chance_.Happens(0.5);
    if (chance_.Happens(0.3)) durable->Commit(&lost);
    disk->dies_writing = false;
  }
  shards_.clear();
  commit_due_.clear();
  ++life_;
  awake_at_ = {};
  bool lost = false;
  for (auto& [shard, disk] : disks_) {
    disk->late.clear();
    if (!power) continue;
    lost = LosePower(&chance_, disk.get()) || lost;
    if (chance_.Happens(scenario_.torn_images)) TearImage(disk.get());
  }
  return lost;
}

void Holder::Pause(Time until) { awake_at_ = std::max(awake_at_, until); }

bool Holder::paused() const { return cluster_->queue().now() < awake_at_; }

void Holder::WhenAwake(std::function<void()> action) {
  if (!paused()) return action();
  cluster_->queue().At(awake_at_, [this, action = std::move(action), life = life_] {
    if (life == life_) WhenAwake(action);
  });
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
  cluster_->queue().After(chance_.Between(Duration(0), scenario_.disk_delay),
                          [this, shard, life = life_] {
                            if (life != life_) return;
                            WhenAwake([this, shard] {
                              commit_due_.erase(shard);
                              Commit(shard);
                            });
                          });
}

void Holder::Commit(uint32_t shard) {
  DurableShard* const durable = Find(shard);
  if (durable == nullptr) return;
  Outbox out;
  durable->Commit(&out);
  for (Outgoing& outgoing : out) {
    saboteur_->OnAnswer(&outgoing.message);
    cluster_->Answer(static_cast<uint32_t>(outgoing.to), server_, shard,
                     std::move(outgoing.message), durable->core());
  }
  while (auto cut = durable->TakeFinishedCut()) {
    saboteur_->OnCut(durable->core(), &*cut);
    on_cut_(shard, *cut);
  }
  if (auto image = durable->TakeDueImage()) SaveImageLater(shard, std::move(*image));
}

void Holder::CommitAll() {
  for (const auto& [shard, durable] : shards_) Commit(shard);
}

void Holder::SaveImageLater(uint32_t shard, ShardImage image) {
  const Duration length =
      chance_.Between(std::chrono::milliseconds(0), std::chrono::milliseconds(80));
  if (const OnImage on_image = std::exchange(on_image_, nullptr)) on_image(length);
  cluster_->queue().After(length, [this, shard, life = life_, image = std::move(image)] {
    if (life == life_) WhenAwake([this, shard, image] { SaveImageNow(shard, image); });
  });
}

void Holder::SaveImageNow(uint32_t shard, const ShardImage& image) {
  DurableShard* const durable = Find(shard);
  if (durable == nullptr) return;
  ++images_;
  durable->ImageSaved(durable->journal()->SaveImage(image));
}

}  // namespace psgd::sim
