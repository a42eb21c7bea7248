// Threads that do the same work together, again and again.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace psgd {

// The caller's thread is the first member, so a crew of one starts no thread. Not thread-safe.
class Crew {
 public:
  explicit Crew(size_t members);
  ~Crew();

  // Calls work(member) on each member's own thread and waits for all.
  void Run(const std::function<void(size_t)>& work);

 private:
  void Serve(size_t member);

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const std::function<void(size_t)>* work_ = nullptr;  // null: end
  uint64_t round_ = 0;
  size_t working_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace psgd
