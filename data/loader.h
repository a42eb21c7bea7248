// Batches prepared ahead of the trainer, by threads of their own.
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

// The counts are those of DataConfig, which OpenData has checked.
struct BatchLoaderOptions {
  int batch = 64;     // samples
  int prefetch = 4;   // batches ready or being made before they are asked for
  int threads = 1;    // that make them
  uint64_t seed = 1;  // of the order of samples
};

// Hands out batches in the order in which they were requested, whatever the number of threads.
// Thread-safe, except that only one thread at a time may wait in Next.
class BatchLoader {
 public:
  // REQUIRES: the counts are at least 1.
  BatchLoader(std::shared_ptr<const SampleSource> source, const BatchLoaderOptions& options);
  // Never waits for a batch that nobody took.
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  uint32_t batches_per_epoch() const { return order_.batches_per_epoch(); }

  // Asks for a batch of the order of that epoch. Never waits: requests cost a few bytes, and only
  // `prefetch` of them at a time become batches.
  void Enqueue(uint32_t epoch, uint32_t batch_index);

  // The batch of the oldest request not yet answered; waits until it is ready. An error when there
  // is no request to wait for, when the request cannot be met, or after Cancel.
  absl::StatusOr<Batch> Next();

  // As Next, where that would not wait; else nothing.
  std::optional<absl::StatusOr<Batch>> NextIfReady();

  // Makes every present and later Next return an error at once.
  void Cancel();

 private:
  struct Request {
    uint32_t epoch;
    uint32_t batch_index;
  };

  // The next batch, which is ready.
  absl::StatusOr<Batch> TakeMade();
  void Work();
  absl::StatusOr<Batch> Make(const Request& request);

  const BatchLoaderOptions options_;
  EpochOrder order_;
  BatchMaker maker_;

  std::mutex mutex_;  // guards everything below but threads_
  std::condition_variable work_;
  std::condition_variable ready_;
  std::deque<Request> requests_;  // not yet begun
  // Requests are numbered as they come. Numbers below next_ have been handed out, those below
  // begun_ are made or being made, and number n waits in made_[n % prefetch].
  uint64_t next_ = 0;
  uint64_t begun_ = 0;
  std::vector<std::optional<absl::StatusOr<Batch>>> made_;
  bool cancelled_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace psgd
