// A blocking queue bounded by a caller-defined weight (bytes, items).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

#include "common/clock.h"

namespace psgd {

// Thread-safe: any number of producers and consumers.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Waits for room. An item heavier than the capacity enters an empty queue. False when closed.
  bool Push(T item, size_t weight = 1) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return closed_ || Fits(weight); });
    if (closed_) return false;
    Append(std::move(item), weight);
    return true;
  }

  // Never waits. False when there is no room or the queue is closed.
  bool TryPush(T item, size_t weight = 1) {
    std::lock_guard lock(mutex_);
    if (closed_ || !Fits(weight)) return false;
    Append(std::move(item), weight);
    return true;
  }

  // Waits for an item. Returns nothing once the queue is closed and empty.
  std::optional<T> Pop() {
    std::unique_lock lock(mutex_);
    items_ready_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return Take();
  }

  // Like Pop, but waits at most `timeout`.
  std::optional<T> PopFor(Duration timeout) {
    std::unique_lock lock(mutex_);
    items_ready_.wait_for(lock, timeout, [&] { return closed_ || !items_.empty(); });
    return Take();
  }

  // Wakes all waiting threads. Queued items can still be popped.
  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    room_.notify_all();
    items_ready_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

  size_t weight() const {
    std::lock_guard lock(mutex_);
    return weight_;
  }

 private:
  struct Entry {
    T item;
    size_t weight;
  };

  bool Fits(size_t weight) const { return items_.empty() || weight_ + weight <= capacity_; }

  void Append(T item, size_t weight) {
    items_.push_back({std::move(item), weight});
    weight_ += weight;
    items_ready_.notify_one();
  }

  std::optional<T> Take() {
    if (items_.empty()) return std::nullopt;
    Entry entry = std::move(items_.front());
    items_.pop_front();
    weight_ -= entry.weight;
    room_.notify_all();
    return std::move(entry.item);
  }

  const size_t capacity_;
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable room_;
  std::condition_variable items_ready_;
  std::deque<Entry> items_;
  size_t weight_ = 0;
  bool closed_ = false;
};

}  // namespace psgd
