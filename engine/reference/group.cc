#include "engine/reference/group.h"

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace psgd::reference {
namespace {

struct Group {
  explicit Group(size_t parts) : buckets(parts), shares(parts, 1.0f) {}

  void AddUp(size_t gradient);

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::span<const GroupGradient>> buckets;  // by part: its present gradients
  std::vector<float> shares;
  size_t arrived = 0;
  uint64_t sums = 0;
  bool aborted = false;
};

void Group::AddUp(size_t gradient) {
  const GroupGradient& sums = buckets[0][gradient];
  const auto parts = static_cast<float>(buckets.size());
  for (size_t i = 0; i < sums.count; ++i) {
    float sum = 0;
    for (size_t p = 0; p < buckets.size(); ++p) {
      sum += (sums.mean ? 1 / parts : shares[p]) * buckets[p][gradient].data[i];
    }
    sums.data[i] = sum;
  }
}

absl::Status Aborted() { return absl::AbortedError("another replica of the group failed"); }

class Part : public GroupPart {
 public:
  Part(std::shared_ptr<Group> group, size_t index) : group_(std::move(group)), index_(index) {}

  absl::Status Begin(float share) override {
    const std::lock_guard lock(group_->mutex);
    if (group_->aborted) return Aborted();
    group_->shares[index_] = share;
    return absl::OkStatus();
  }

  absl::Status Reduce(std::span<const GroupGradient> bucket) override {
    std::unique_lock lock(group_->mutex);
    if (group_->aborted) return Aborted();
    group_->buckets[index_] = bucket;
    const uint64_t sum = group_->sums;
    if (++group_->arrived == group_->buckets.size()) {
      for (size_t i = 0; i < bucket.size(); ++i) group_->AddUp(i);
      group_->arrived = 0;
      ++group_->sums;
      group_->changed.notify_all();
    }
    group_->changed.wait(lock, [&] { return group_->sums != sum || group_->aborted; });
    if (group_->sums != sum) return absl::OkStatus();
    return Aborted();
  }

  absl::Status End() override { return absl::OkStatus(); }

  void Abort() override {
    const std::lock_guard lock(group_->mutex);
    group_->aborted = true;
    group_->changed.notify_all();
  }

 private:
  const std::shared_ptr<Group> group_;
  const size_t index_;
};

}  // namespace

std::vector<std::unique_ptr<GroupPart>> MakeGroup(size_t parts) {
  const auto group = std::make_shared<Group>(parts);
  std::vector<std::unique_ptr<GroupPart>> made;
  for (size_t i = 0; i < parts; ++i) made.push_back(std::make_unique<Part>(group, i));
  return made;
}

}  // namespace psgd::reference
