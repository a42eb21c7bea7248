// Tasks that a separate thread carries out, one after the other. Posting a task never waits.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace psgd {

// Thread-safe.
class TaskQueue {
 public:
  // A task returns false to end the queue, for example when its stream has ended.
  using Task = std::function<bool()>;

  TaskQueue() : thread_([this] { Run(); }) {}
  // Carries out the tasks posted before. REQUIRES: no task waits for ever.
  ~TaskQueue() {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_one();
    }
    thread_.join();
  }

  void Post(Task task) {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    queue_.push_back(std::move(task));
    changed_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ended_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const Task task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      const bool goes_on = task();
      lock.lock();
      if (goes_on) continue;
      ended_ = true;
      queue_.clear();
    }
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Task> queue_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace psgd
