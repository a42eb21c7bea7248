// The run's record in the memory of its only server. Used by runs without a journal, which end with
// that server. Thread-safe.
#pragma once

#include <mutex>
#include <optional>

#include "net/run_store.h"

namespace psgd {

class MemoryRunStore final : public RunStore {
 public:
  absl::StatusOr<Held> Read() override {
    std::lock_guard lock(mutex_);
    return held_;
  }
  absl::StatusOr<RunPlan> ReadPlan() override {
    std::lock_guard lock(mutex_);
    if (!plan_) return absl::NotFoundError("training has not begun");
    return *plan_;
  }
  absl::StatusOr<int64_t> Write(int64_t revision, const RunRecord& next, const RunPlan* plan,
                                As) override {
    std::lock_guard lock(mutex_);
    if (revision != held_.revision) return absl::AbortedError("the record is another one by now");
    held_.record = next;
    if (plan != nullptr) plan_ = *plan;
    return ++held_.revision;
  }
  absl::Status Keep(uint64_t epoch) override {
    std::lock_guard lock(mutex_);
    return epoch == held_.record.epoch() ? absl::OkStatus()
                                         : absl::AbortedError("another server leads the run");
  }
  absl::Status Remove(int64_t revision) override {
    std::lock_guard lock(mutex_);
    if (revision != held_.revision) return absl::AbortedError("the record is another one by now");
    held_ = {};
    plan_.reset();
    return absl::OkStatus();
  }
  bool shared() const override { return false; }

 private:
  std::mutex mutex_;  // guards the members below
  Held held_;
  std::optional<RunPlan> plan_;
};

}  // namespace psgd
