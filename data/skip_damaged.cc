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

SkipDamaged::SkipDamaged(std::shared_ptr<const PictureDataset> whole,
                         std::shared_ptr<DamageCount> damage)
    : whole_(std::move(whole)), damage_(std::move(damage)) {}

absl::Status SkipDamaged::Read(const SampleKey& key, std::span<float> pixels,
                               std::span<int32_t> labels) const {
  const absl::Status read = whole_->Read(key, pixels, labels);
  if (!absl::IsDataLoss(read)) return read;
  damage_->Add(read.message());
  std::fill(pixels.begin(), pixels.end(), 0.0f);
  std::fill(labels.begin(), labels.end(), -1);
  return absl::OkStatus();
}

}  // namespace psgd
