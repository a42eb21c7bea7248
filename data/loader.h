// Batches that threads prepare ahead of the trainer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "common/status.h"
#include "data/batch.h"
#include "data/epoch_order.h"
#include "data/transforms.h"

namespace psgd {

// The counts come from DataConfig; OpenData has checked them.
struct BatchLoaderOptions {
  int batch = 64;     // samples
  int prefetch = 4;   // batches ready or being made before they are asked for
  int threads = 1;    // threads that make batches
  uint64_t seed = 1;  // for the order of samples
};

// Hands out batches in the order in which they were requested, whatever the number of threads.
// Thread-safe, except that only one thread at a time may wait in Next.
class BatchLoader {
 public:
  // REQUIRES: the counts are at least 1.
  BatchLoader(std::shared_ptr<const SampleSource> source, const BatchLoaderOptions& options);
  // Does not wait for batches that nobody took.
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  uint32_t batches_per_epoch() const { return order_.batches_per_epoch(); }

  // Asks for a batch of that epoch's order. Never waits: a request takes a few bytes, and at most
  // `prefetch` requests at a time become batches.
  void Enqueue(uint32_t epoch, uint32_t batch_index);

  // Waits for the batch of the oldest open request and returns it. An error if there is no request,
  // if the request cannot be met, or after Cancel.
  absl::StatusOr<Batch> Next();

  // As Next, but returns nothing instead of waiting.
  std::optional<absl::StatusOr<Batch>> NextIfReady();

  // Makes all current and later calls of Next return an error at once.
  void Cancel();

 private:
  struct Request {
    uint32_t epoch;
    uint32_t batch_index;
  };

  // Returns the next batch. REQUIRES: the batch is ready.
  absl::StatusOr<Batch> TakeMade();
  void Work();
  absl::StatusOr<Batch> Make(const Request& request);

  const BatchLoaderOptions options_;
  EpochOrder order_;
  BatchMaker maker_;

  std::mutex mutex_;  // guards everything below except threads_
  std::condition_variable work_;
  std::condition_variable ready_;
  std::deque<Request> requests_;  // not yet begun
  // Requests are numbered in order. Batches below next_ were handed out, batches below begun_ are
  // made or being made, and batch n waits in made_[n % prefetch].
  uint64_t next_ = 0;
  uint64_t begun_ = 0;
  std::vector<std::optional<absl::StatusOr<Batch>>> made_;
  bool cancelled_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace psgd
