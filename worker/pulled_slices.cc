#include "worker/pulled_slices.h"

#include <algorithm>
#include <utility>

#include "net/wire_format.h"

namespace psgd {
namespace {

constexpr size_t kOtherFieldBytes = 1024;  // far more than a header has besides slices and marks

}  // namespace

PulledSlices::PulledSlices(const Placement& placement, uint32_t fragments)
    : fragments_(placement, fragments),
      installed_(placement.slices_size()),
      asked_(placement.slices_size()),
      to_come_(placement.slices_size()),
      left_(placement.endpoints_size()),
      slices_(placement.slices_size()) {
  for (const auto& slice : placement.slices()) shard_of_.push_back(slice.shard());
}

void PulledSlices::Begin(uint64_t clock, bool all, bool aside) {
  clock_ = clock;
  aside_ = aside;
  arrived_.clear();
  std::ranges::fill(left_, 0);
  for (uint32_t slice = 0; slice < asked_.size(); ++slice) {
    asked_[slice] = all || !installed_all_ || fragments_.Carries(clock, slice);
    if (asked_[slice]) ++left_[shard_of_[slice]];
  }
  to_come_ = asked_;
}

void PulledSlices::AddWanted(uint32_t shard, Pull* pull) const {
  pull->clear_slices();
  pull->clear_marks();
  bool all = true, any_mark = false;
  for (uint32_t slice = 0; slice < to_come_.size(); ++slice) {
    if (shard_of_[slice] != shard) continue;
    all = all && to_come_[slice];
    if (!to_come_[slice]) continue;
    const uint64_t mark = installed_[slice].mark;
    pull->add_slices(slice);
    pull->add_marks(mark);
    any_mark = any_mark || mark != 0;
  }
  if (all) pull->clear_slices();
  // Without marks the slices come whole.
  const bool fit = pull->ByteSizeLong() < kMaxHeaderBytes - kOtherFieldBytes;
  if (!any_mark || !fit) pull->clear_marks();
}

bool PulledSlices::Add(uint32_t shard, const PullPart& part, Bytes payload, uint32_t life) {
  const uint32_t slice = part.slice();
  if (slice >= to_come_.size() || !to_come_[slice] || shard_of_[slice] != shard) return true;
  to_come_[slice] = false;
  --left_[shard];
  arrived_.push_back(slice);
  slices_[slice] = {part.codec(),       part.version(), part.form(), part.mark(),
                    std::move(payload), part.zstd(),    life};
  return part.version() >= installed_[slice].version;
}

std::vector<PulledSlice> PulledSlices::TakeAll() {
  installed_all_ = installed_all_ || !aside_;
  for (size_t slice = 0; slice < slices_.size(); ++slice) {
    if (!asked_[slice] || aside_) continue;
    installed_[slice] = slices_[slice];
    installed_[slice].payload = {};
  }
  arrived_.clear();
  return std::exchange(slices_, std::vector<PulledSlice>(slices_.size()));
}

std::optional<std::pair<uint32_t, PulledSlice>> PulledSlices::TakeNext() {
  if (arrived_.empty()) return std::nullopt;
  const uint32_t slice = arrived_.front();
  arrived_.pop_front();
  PulledSlice taken = slices_[slice];
  slices_[slice].payload = {};
  return std::pair(slice, std::move(taken));
}

}  // namespace psgd
