// Which samples form which batch: a new random order in each epoch, the same for every worker.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace psgd {

// The order of an epoch is a pure function of (samples, seed, epoch). So workers agree on it
// without communication, and a restarted worker finds it again. Thread-safe.
class EpochOrder {
 public:
  // REQUIRES: samples < 2^32; batch > 0.
  EpochOrder(uint64_t samples, int batch, uint64_t seed);

  // Counts whole batches only. In each epoch different samples are left over.
  uint32_t batches_per_epoch() const { return batches_; }

  // Returns the samples of one batch. REQUIRES: batch_index < batches_per_epoch().
  std::vector<uint32_t> Batch(uint32_t epoch, uint32_t batch_index);

 private:
  using Permutation = std::shared_ptr<const std::vector<uint32_t>>;
  struct Cached {
    uint32_t epoch = 0;
    Permutation order;
  };

  Permutation Find(uint32_t epoch);
  Permutation Shuffle(uint32_t epoch) const;

  const uint32_t samples_;
  const uint32_t batch_;
  const uint64_t seed_;
  const uint32_t batches_;
  std::mutex mutex_;
  // The current epoch, and the next one (prefetching runs ahead) or the previous one. The most
  // recently used comes first. Guarded by mutex_.
  std::array<Cached, 2> cache_;
};

}  // namespace psgd
