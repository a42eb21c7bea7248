#include "server/control/server_standing.h"

#include <utility>

#include "server/control/server_shares.h"

namespace psgd {

ServerStanding StandingBoard::now() const {
  std::lock_guard lock(mutex_);
  return standing_;
}

ServerStanding StandingBoard::WaitChanged(const ServerStanding& known, Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return standing_ != known; });
  return standing_;
}

void StandingBoard::SetResultsWaitFor(std::string what) {
  std::lock_guard lock(mutex_);
  results_wait_for_ = std::move(what);
}

void StandingBoard::AddTo(StatusReply* status) const {
  std::lock_guard lock(mutex_);
  if (standing_.asked_to_stop && !status->storage_trouble().empty())
    status->set_waits_for(StopWaitsForStorage(*status));
  if (standing_.stop_waits_for_store) status->set_waits_for(StopWaitsForRunStore(*status));
  if (!results_wait_for_.empty()) status->set_waits_for(results_wait_for_);
}

void StandingBoard::Leave() {
  std::lock_guard lock(mutex_);
  leaving_ = true;
}

void StandingBoard::Look(const ServerCore& core, bool linked) {
  const RunLeader* const leader = core.leader();
  const Time time = SteadyNow();
  std::lock_guard lock(mutex_);
  if (leader != nullptr || !leaving_ || linked) linked_at_ = time;
  ServerStanding now = standing_;
  now.server = core.holder().self().server();
  now.leads = leader != nullptr;
  now.asked_to_stop = leader != nullptr && leader->asked_to_stop();
  now.stop_waits_for_store = now.asked_to_stop && leader->shared_store_is_away();
  now.trained = leader != nullptr && leader->trained();
  now.closed = leader != nullptr && leader->closed();
  if (leaving_ && leader == nullptr && !now.ended && core.holder().copies() == 0) {
    now.ended = absl::CancelledError("its shards are on other servers, and it leaves the run");
  }
  if (!now.ended && time - linked_at_ > deadline_) {
    now.ended = absl::UnavailableError(
        "it was asked to leave, but no server that leads the run took its shards within "
        "cluster.deadline; has the run ended?");
  }
  Change(now);
}

void StandingBoard::End(const absl::Status& why) {
  std::lock_guard lock(mutex_);
  ServerStanding now = standing_;
  now.ended = why;
  Change(now);
}

void StandingBoard::Change(const ServerStanding& now) {
  if (now == standing_) return;
  standing_ = now;
  changed_.notify_all();
}

}  // namespace psgd
