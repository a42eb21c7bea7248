// A run store in simulated time: slow, now and then away, and it loses answers. Servers agree in
// it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "net/run_store.h"
#include "simulate/chance.h"
#include "simulate/event_queue.h"

namespace psgd::sim {

// Not thread-safe.
class SimStore {
 public:
  SimStore(EventQueue* queue, uint64_t seed, Duration silence, bool shared, double lost_answers)
      : queue_(queue),
        chance_(seed, 77),
        silence_(silence),
        shared_(shared),
        lost_answers_(lost_answers) {}

  using ReadDone =
      std::function<void(absl::StatusOr<RunStore::Held>, std::shared_ptr<const RunPlan>)>;
  using WriteDone = std::function<void(absl::StatusOr<int64_t>)>;
  void Read(ReadDone done);
  void Write(int64_t revision, RunRecord next, std::shared_ptr<const RunPlan> plan, RunStore::As as,
             WriteDone done);
  void Keep(uint64_t epoch, std::function<void(absl::Status)> done);
  void GoAway(Duration length) { away_until_ = std::max(away_until_, queue_->now() + length); }
  void Heal() { away_until_ = {}, lost_answers_ = 0; }

  // As it is, seen from outside.
  const RunRecord& record() const { return record_; }
  // As a server last wanted it to be. The write may be on its way.
  const RunRecord& wanted() const { return wanted_; }
  int64_t revision() const { return revision_; }

 private:
  absl::StatusOr<int64_t> WriteNow(int64_t revision, const RunRecord& next,
                                   const std::shared_ptr<const RunPlan>& plan, RunStore::As as);
  bool away() const { return queue_->now() < away_until_; }
  bool led() const { return shared_ && queue_->now() < led_until_; }
  Duration Delay() {
    return chance_.Between(std::chrono::microseconds(200), std::chrono::milliseconds(4));
  }

  EventQueue* const queue_;
  Chance chance_;
  const Duration silence_;
  const bool shared_;
  double lost_answers_;
  Time away_until_{}, led_until_{};
  int64_t revision_ = 0;
  RunRecord record_, wanted_;
  std::shared_ptr<const RunPlan> plan_;
};

}  // namespace psgd::sim
