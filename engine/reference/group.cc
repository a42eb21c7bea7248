#include "engine/reference/group.h"

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace psgd::reference {
namespace {

struct Group {
  explicit Group(size_t parts) : gradients(parts), shares(parts, 1.0f) {}

  void AddUp(size_t count, bool mean);

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<float*> gradients;  // by part: its gradient in the present sum
  std::vector<float> shares;
  size_t arrived = 0;
  uint64_t sums = 0;
  bool aborted = false;
};

void Group::AddUp(size_t count, bool mean) {
  const auto parts = static_cast<float>(gradients.size());
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (size_t p = 0; p < gradients.size(); ++p) {
      sum += (mean ? 1 / parts : shares[p]) * gradients[p][i];
    }
    gradients[0][i] = sum;
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

  absl::Status Reduce(float* gradient, size_t count, bool mean) override {
    std::unique_lock lock(group_->mutex);
    if (group_->aborted) return Aborted();
    group_->gradients[index_] = gradient;
    const uint64_t sum = group_->sums;
    if (++group_->arrived == group_->gradients.size()) {
      group_->AddUp(count, mean);
      group_->arrived = 0;
      ++group_->sums;
      group_->changed.notify_all();
    }
    group_->changed.wait(lock, [&] { return group_->sums != sum || group_->aborted; });
    if (group_->sums != sum) return absl::OkStatus();
    return Aborted();
  }

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
