#include "data/epoch_order.h"

#include <numeric>
#include <utility>

#include "common/philox.h"

namespace psgd {

EpochOrder::EpochOrder(uint64_t samples, int batch, uint64_t seed)
    : samples_(static_cast<uint32_t>(samples)),
      batch_(static_cast<uint32_t>(batch)),
      seed_(seed),
      batches_(samples_ / batch_) {}

std::vector<uint32_t> EpochOrder::Batch(uint32_t epoch, uint32_t batch_index) {
  const Permutation order = Find(epoch);
  const auto first = order->begin() + static_cast<ptrdiff_t>(batch_index) * batch_;
  return {first, first + batch_};
}

EpochOrder::Permutation EpochOrder::Find(uint32_t epoch) {
  std::lock_guard lock(mutex_);
  const auto holds = [&](const Cached& cached) { return cached.order && cached.epoch == epoch; };
  if (holds(cache_[0])) return cache_[0].order;
  std::swap(cache_[0], cache_[1]);
  // The order is shuffled under the lock: another thread would need the same order.
  if (!holds(cache_[0])) cache_[0] = {epoch, Shuffle(epoch)};
  return cache_[0].order;
}

EpochOrder::Permutation EpochOrder::Shuffle(uint32_t epoch) const {
  auto order = std::make_shared<std::vector<uint32_t>>(samples_);
  std::iota(order->begin(), order->end(), 0u);
  RandomStream random(MakeKey(seed_, RandomPurpose::kShuffle), epoch);
  for (uint32_t left = samples_; left > 1; --left) {  // Fisher-Yates
    std::swap((*order)[left - 1], (*order)[random.NextBelow(left)]);
  }
  return order;
}

}  // namespace psgd
