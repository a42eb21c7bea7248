// A dataset whose samples identify themselves.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "data/transforms.h"

namespace psgd {

// Every pixel of sample i is i + 1, and its label is i. Thread-safe.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(size_t size, std::chrono::microseconds delay = {})
      : size_(size), delay_(delay) {}
  size_t size() const override { return size_; }
  SampleShape shape() const override { return {1, 2, 3, static_cast<int>(size_)}; }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    // Uneven, so that threads overtake each other.
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_ * (key.index % 5));
    std::ranges::fill(sample.values, static_cast<float>(key.index + 1));
    sample.labels[0] = static_cast<int32_t>(key.index);
    reads_.fetch_add(1, std::memory_order_relaxed);
    return absl::OkStatus();
  }
  size_t reads() const { return reads_; }

 private:
  const size_t size_;
  const std::chrono::microseconds delay_;
  mutable std::atomic<size_t> reads_{0};
};

inline std::shared_ptr<const SampleSource> Source(std::shared_ptr<const Dataset> dataset) {
  return std::make_shared<SampleSource>(std::move(dataset));
}

}  // namespace psgd
