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

void LocalRun::BuryFollowers() {
  for (ServerOfChain& died : cluster_->TakeDeadFollowers()) {
    const bool over = status_.state() == StatusReply::FINISHED || status_.state() == StatusReply::FAILED;
    if (!over) {
      display_.Note(absl::StrCat("follower ", died.replica, " died; ",
                                 WantsFollowers() ? "another takes its place" : "the run goes on without it"),
                    /*important=*/true);
    }
    dead_followers_.insert(std::move(died));
  }
}

void LocalRun::DropDeadFollowers() {
  for (const Chain::Member& member : status_.chain().members()) {
    if (!dead_followers_.contains({member.replica(), member.address()})) continue;
    DropFollowerRequest request;
    request.set_replica(member.replica());
    (void)client_->DropFollower(request);
  }
}

bool LocalRun::WantsFollowers() const {
  return HasFollowers() &&
         (status_.state() == StatusReply::TRAINING || status_.state() == StatusReply::WAITING);
}

void LocalRun::ReplaceFollowers() {
  const bool missing = cluster_->followers() < options_.config.durability().followers();
  if (!WantsFollowers() || !missing || SteadyNow() < next_follower_ || !cluster_->server().Running()) return;
  // Meanwhile nobody looks after the others.
  const absl::Status started = cluster_->StartFollower(options_.launch.ready_deadline / 4);
  if (started.ok() || absl::IsCancelled(started)) return;
  next_follower_ = SteadyNow() + kFollowerRetry;
  display_.Note(absl::StrCat(std::string(started.message()), "; the run goes on without, and another is started later"),
                /*important=*/true);
}

}  // namespace psgd
