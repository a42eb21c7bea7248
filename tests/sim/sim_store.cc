#include "tests/sim/sim_store.h"

#include <utility>

namespace psgd::sim {
namespace {

absl::Status Away() { return absl::UnavailableError("the run store does not answer"); }

}  // namespace

void SimStore::Read(ReadDone done) {
  queue_->After(Delay(), [this, done = std::move(done)] {
    if (away() || chance_.Happens(lost_answers_)) return done(Away(), nullptr);
    done(RunStore::Held{revision_, record_, led(), {}}, plan_);
  });
}

absl::StatusOr<int64_t> SimStore::WriteNow(int64_t revision, const RunRecord& next,
                                           const std::shared_ptr<const RunPlan>& plan,
                                           RunStore::As as) {
  if (revision != revision_) {
    // An earlier try whose answer was lost.
    if (BytesOf(next) == BytesOf(record_)) return revision_;
    return absl::AbortedError("somebody else changed the run's record");
  }
  if (as == RunStore::As::kSuccessor && led()) return absl::AbortedError("the run is led");
  record_ = next;
  if (plan != nullptr) plan_ = plan;
  if (as == RunStore::As::kSuccessor) led_until_ = queue_->now() + silence_;
  return ++revision_;
}

void SimStore::Write(int64_t revision, RunRecord next, std::shared_ptr<const RunPlan> plan,
                     RunStore::As as, WriteDone done) {
  wanted_ = next;
  queue_->After(Delay(), [=, this, next = std::move(next), done = std::move(done)] {
    if (away()) return done(Away());
    if (chance_.Happens(lost_answers_ / 2)) return done(Away());
    const absl::StatusOr<int64_t> written = WriteNow(revision, next, plan, as);
    const bool lost = chance_.Happens(lost_answers_);
    queue_->After(Delay(), [=] { done(lost ? Away() : written); });
  });
}

void SimStore::Keep(uint64_t epoch, std::function<void(absl::Status)> done) {
  queue_->After(Delay(), [=, this, done = std::move(done)] {
    if (away() || chance_.Happens(lost_answers_)) return done(Away());
    if (epoch != record_.epoch()) return done(absl::AbortedError("another server leads the run"));
    led_until_ = queue_->now() + silence_;
    done(absl::OkStatus());
  });
}

}  // namespace psgd::sim
