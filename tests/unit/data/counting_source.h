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
  void Read(size_t index, std::span<float> pixels, int32_t* label) const override {
    // Uneven, so that threads overtake each other.
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_ * (index % 5));
    std::fill(pixels.begin(), pixels.end(), static_cast<float>(index + 1));
    *label = static_cast<int32_t>(index);
    reads_.fetch_add(1, std::memory_order_relaxed);
  }
  size_t reads() const { return reads_; }

 private:
  const size_t size_;
  const std::chrono::microseconds delay_;
  mutable std::atomic<size_t> reads_{0};
};

inline std::shared_ptr<const SampleSource> Source(std::shared_ptr<const Dataset> dataset) {
  return std::make_shared<SampleSource>(std::move(dataset),
                                        std::vector<std::unique_ptr<const Transform>>{});
}

}  // namespace psgd
