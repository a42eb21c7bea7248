#include "server/control/server_links.h"

namespace psgd {

absl::StatusOr<uint64_t> ServerLinks::Serve(
    LeaderSays begins, ServingStream* stream,
    const std::function<void(uint64_t link, ServerSays)>& heard) {
  TaskQueue queue;
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return absl::UnavailableError("the server ends");
    for (const auto& [worker, pass] : passes_) *begins.mutable_begin()->add_passes() = pass;
    number = next_++;
    // It comes before all that Tell says.
    const Link& link = links_[number] = {stream, &queue};
    link.Tell(begins);
  }
  ServerSays says;
  while (stream->Receive(&says)) heard(number, std::move(says));
  {
    std::lock_guard lock(mutex_);
    links_.erase(number);
    gone_.notify_all();
  }
  stream->End();
  return number;
}

void ServerLinks::Tell(uint64_t link, const LeaderSays& says) {
  std::lock_guard lock(mutex_);
  const auto to = links_.find(link);
  if (to != links_.end()) to->second.Tell(says);
}

void ServerLinks::TellAll(const LeaderSays& says) {
  std::lock_guard lock(mutex_);
  for (const auto& [number, link] : links_) link.Tell(says);
}

void ServerLinks::Admit(const CoordinatorRecord::Pass& pass) {
  if (members_ == nullptr) return;
  members_->Admit(pass.key().worker(), pass.key().incarnation(),
                  {.curve_key = pass.curve_key(), .token = pass.token()});
  std::lock_guard lock(mutex_);
  passes_[pass.key().worker()] = pass;
}

void ServerLinks::Expel(const WorkerKey& worker) {
  if (members_ == nullptr) return;
  members_->Remove(worker.worker(), worker.incarnation());
  std::lock_guard lock(mutex_);
  const auto pass = passes_.find(worker.worker());
  if (pass != passes_.end() && pass->second.key().incarnation() == worker.incarnation())
    passes_.erase(pass);
}

void ServerLinks::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const auto& [number, link] : links_) link.stream->End();
}

void ServerLinks::WaitUntilNone(Duration limit) {
  std::unique_lock lock(mutex_);
  gone_.wait_for(lock, limit, [&] { return links_.empty(); });
}

}  // namespace psgd
