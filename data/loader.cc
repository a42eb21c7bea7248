#include "data/loader.h"

#include <new>
#include <utility>

namespace psgd {

BatchLoader::BatchLoader(std::shared_ptr<const SampleSource> source,
                         const BatchLoaderOptions& options)
    : options_(options),
      order_(source->size(), options.batch, options.seed),
      // Two buffers more than the batches made ahead: for the batch in use, and one just released.
      maker_(std::move(source), options.batch, options.prefetch + 2),
      made_(static_cast<size_t>(options.prefetch)) {
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Work(); });
}

BatchLoader::~BatchLoader() {
  Cancel();
  for (std::thread& thread : threads_) thread.join();
}

void BatchLoader::Enqueue(uint32_t epoch, uint32_t batch_index) {
  std::lock_guard lock(mutex_);
  if (cancelled_) return;
  requests_.push_back({epoch, batch_index});
  work_.notify_one();
}

absl::StatusOr<Batch> BatchLoader::Next() {
  std::unique_lock lock(mutex_);
  if (!cancelled_ && next_ == begun_ && requests_.empty()) {
    return absl::FailedPreconditionError("no batch was requested from the loader");
  }
  ready_.wait(lock, [&] { return cancelled_ || made_[next_ % made_.size()].has_value(); });
  if (cancelled_) return absl::CancelledError("loading of batches was cancelled");
  return TakeMade();
}

std::optional<absl::StatusOr<Batch>> BatchLoader::NextIfReady() {
  std::lock_guard lock(mutex_);
  if (cancelled_ || !made_[next_ % made_.size()].has_value()) return std::nullopt;
  return TakeMade();
}

absl::StatusOr<Batch> BatchLoader::TakeMade() {
  std::optional<absl::StatusOr<Batch>>& slot = made_[next_++ % made_.size()];
  absl::StatusOr<Batch> batch = std::move(*slot);
  slot.reset();
  work_.notify_one();
  return batch;
}

void BatchLoader::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  requests_.clear();
  work_.notify_all();
  ready_.notify_all();
}

void BatchLoader::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock,
               [&] { return cancelled_ || (!requests_.empty() && begun_ - next_ < made_.size()); });
    if (cancelled_) return;
    const Request request = requests_.front();
    requests_.pop_front();
    const uint64_t number = begun_++;
    lock.unlock();
    absl::StatusOr<Batch> batch = Make(request);
    lock.lock();
    made_[number % made_.size()] = std::move(batch);
    if (number == next_) ready_.notify_one();
  }
}

absl::StatusOr<Batch> BatchLoader::Make(const Request& request) {
  if (request.batch_index >= order_.batches_per_epoch()) {
    return InvalidArgumentError("batch ", request.batch_index, " was requested, but an epoch has ",
                                order_.batches_per_epoch(), " batches of ", options_.batch,
                                " samples; do all processes use the same dataset and data.batch?");
  }
  try {
    return maker_.Make(request.epoch, order_.Batch(request.epoch, request.batch_index));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "no memory for the order of an epoch's samples; lower data.train_samples");
  }
}

}  // namespace psgd
