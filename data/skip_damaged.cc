#include "data/skip_damaged.h"

#include <algorithm>
#include <utility>

namespace psgd {

void DamageCount::Add(absl::string_view problem) {
  std::lock_guard lock(mutex_);
  ++count_;
  last_ = std::string(problem);
}

uint64_t DamageCount::count() const {
  std::lock_guard lock(mutex_);
  return count_;
}

std::string DamageCount::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

SkipDamaged::SkipDamaged(std::shared_ptr<const Dataset> whole, std::shared_ptr<DamageCount> damage)
    : whole_(std::move(whole)), damage_(std::move(damage)) {}

absl::Status SkipDamaged::Read(const SampleKey& key, const Sample& sample) const {
  const absl::Status read = whole_->Read(key, sample);
  if (!absl::IsDataLoss(read)) return read;
  if (!damage_) {
    return DataLossError(read.message(),
                         "; replace the file, or skip such files (data.images.skip_damaged=true)");
  }
  damage_->Add(read.message());
  std::ranges::fill(sample.values, 0.0f);
  std::ranges::fill(sample.labels, -1);
  std::ranges::fill(sample.targets, 0.0f);
  return absl::OkStatus();
}

}  // namespace psgd
