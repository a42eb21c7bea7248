#include "server/shard/pull_times.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace psgd {
namespace {

// In an unsecured run a peer may claim any worker number.
constexpr size_t kMostWorkers = 8192;

uint32_t Microseconds(Duration duration) {
  const auto count = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(count, 0, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

PullTimes::Worker* PullTimes::Find(uint32_t worker) {
  const auto found = workers_.find(worker);
  if (found != workers_.end()) return &found->second;
  return workers_.size() < kMostWorkers ? &workers_[worker] : nullptr;
}

void PullTimes::Begin(const DataHeader& header, Time now) {
  begun_ = now;
  pushes_ = nullptr;
  if (!header.has_push() && !header.has_pull()) return;
  Worker* const worker = Find(header.worker());
  if (worker == nullptr) return;
  // A push that comes while its pull waits counts as work during the wait.
  if (header.has_push() && !worker->pulled) pushes_ = worker;
  if (header.has_pull() && !worker->pulled) {
    worker->pulled = now;
    worker->work_before = work_;
  }
}

void PullTimes::End(Time now) {
  const Duration took = now - *std::exchange(begun_, std::nullopt);
  work_ += took;
  if (pushes_ != nullptr) pushes_->pushes += took;
}

void PullTimes::Stamp(DataHeader* message, Time now) {
  if (!message->has_pull_reply() || !message->pull_reply().last()) return;
  const auto found = workers_.find(message->worker());
  if (found == workers_.end() || !found->second.pulled) return;
  const Worker worker = std::exchange(found->second, {});
  const Duration here = now - *worker.pulled;
  const Duration worked = std::min(here, work_ - worker.work_before);
  message->mutable_pull_reply()->set_apply_us(Microseconds(worker.pushes + worked));
  message->mutable_pull_reply()->set_wait_us(Microseconds(here - worked));
}

}  // namespace psgd
