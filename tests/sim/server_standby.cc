// The part of the simulated server that is followed.
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster.h"

namespace psgd::sim {

absl::Status Server::TakeOver() {
  if (cluster_->tracing()) cluster_->Note("the standby takes over");
  ++takeovers_;
  must_take_over_ = false;
  Standby::Held held = standby_.TakeOver();
  CoordinatorRecord record;
  record.ParseFromString(held.record);
  record_.Clear();
  record_.Write(held.record, /*sync=*/false);
  for (uint32_t s = 0; s < shards(); ++s) own_.disks()[s] = std::move(held.disks[s]);
  behind_ = std::move(held.behind);
  *behind_ = &standby_;
  RestoreCoordinator(record);
  PSGD_RETURN_IF_ERROR(orders_.Restore(record));
  for (uint32_t s = 0; s < shards(); ++s) own_.Put(s, std::move(held.shards[s]));
  RestoreCuts();
  BeginStandbyLater();
  return absl::OkStatus();
}

void Server::KillStandby() {
  if (!standby_.up() || must_take_over_) return;
  if (cluster_->tracing()) cluster_->Note("the standby dies");
  standby_.Die();
  BeginStandbyLater();
}

void Server::BeginStandbyLater() {
  cluster_->queue().After(
      chance_.Between(std::chrono::milliseconds(2), std::chrono::milliseconds(120)), [this] {
        // A standby that waits for a leader keeps what it has.
        if (!up_ || coordinator_->model() == nullptr) return BeginStandbyLater();
        if (standby_.up()) return;
        standby_.Begin();
        CatchUp();
      });
}

void Server::CatchUp() {
  if (!standby_.up() || standby_.may_lead()) return;
  if (up_ && !own_.paused() && SaveRecord()) {
    for (const auto& [s, shard] : own_.shards()) {
      if (standby_.connected(s)) continue;
      const auto start = shard->StartForFollower();
      if (absl::IsUnavailable(start.status())) continue;
      const absl::Status connected = start.ok() ? standby_.Connect(s, *start) : start.status();
      if (!connected.ok()) {
        cluster_->oracle().Breach(
            absl::StrCat("shard ", s, " cannot be followed: ", connected.ToString()));
      }
    }
    if (standby_.complete()) return standby_.TakeIn();
  }
  cluster_->queue().After(std::chrono::milliseconds(20), [this] { CatchUp(); });
}

}  // namespace psgd::sim
