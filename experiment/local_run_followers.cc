// The part of LocalRun that keeps as many servers behind the first as the run wants.
#include "absl/strings/str_cat.h"
#include "experiment/local_run.h"
#include "experiment/readable.h"

namespace psgd {
namespace {
constexpr Duration kFollowerRetry = std::chrono::seconds(10);
}  // namespace

bool LocalRun::HasFollowers() const {
  return options_.config.durability().acknowledge() == DurabilityConfig::REPLICATED;
}

absl::Status LocalRun::StartFollowers() {
  if (!HasFollowers()) return absl::OkStatus();
  for (int f = 0; f < options_.config.durability().followers(); ++f) {
    PSGD_RETURN_IF_ERROR(cluster_->StartFollower(options_.launch.ready_deadline));
  }
  return absl::OkStatus();
}

absl::Status LocalRun::TakenOver() {
  const Time start = SteadyNow();
  PSGD_RETURN_IF_ERROR(cluster_->WaitTakenOver());
  client_->SetServers({cluster_->addresses().control});
  client_->TryAnother();
  last_heard_ = last_going_on_ = SteadyNow();
  display_.Note(absl::StrCat("the follower at ", cluster_->addresses().control, " took over after ",
                             ReadableTime(Seconds(last_heard_ - start)), "; training goes on"));
  return absl::OkStatus();
}

void LocalRun::ReplaceFollowers() {
  if (!HasFollowers()) return;
  const bool goes_on =
      status_.state() == StatusReply::TRAINING || status_.state() == StatusReply::WAITING;
  for (const uint32_t replica : cluster_->TakeDeadFollowers()) {
    if (!goes_on) continue;  // they end with the run
    display_.Note(absl::StrCat("follower ", replica, " died; another takes its place"),
                  /*important=*/true);
    DropFollowerRequest request;
    request.set_replica(replica);
    // One that had not caught up yet is in nobody's way.
    (void)client_->DropFollower(request);
  }
  const bool missing = cluster_->followers() < options_.config.durability().followers();
  if (!goes_on || !missing || SteadyNow() < next_follower_ || !cluster_->server().Running()) return;
  // Meanwhile nobody looks after the others.
  const absl::Status started = cluster_->StartFollower(options_.launch.ready_deadline / 4);
  if (started.ok() || absl::IsCancelled(started)) return;
  next_follower_ = SteadyNow() + kFollowerRetry;
  display_.Note(absl::StrCat(std::string(started.message()), "; the run goes on without, and another is started later"),
                /*important=*/true);
}

}  // namespace psgd
