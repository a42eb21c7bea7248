#include "engine/runtime/crew.h"

namespace psgd {

Crew::Crew(size_t members) {
  for (size_t member = 1; member < members; ++member) {
    threads_.emplace_back([this, member] { Serve(member); });
  }
}

Crew::~Crew() {
  {
    std::lock_guard lock(mutex_);
    work_ = nullptr;
    ++round_;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::Run(const std::function<void(size_t)>& work) {
  {
    std::lock_guard lock(mutex_);
    work_ = &work;
    working_ = threads_.size();
    ++round_;
  }
  begun_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return working_ == 0; });
}

void Crew::Serve(size_t member) {
  for (uint64_t seen = 0;;) {
    const std::function<void(size_t)>* work;
    {
      std::unique_lock lock(mutex_);
      begun_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      work = work_;
    }
    if (work == nullptr) return;
    (*work)(member);
    std::lock_guard lock(mutex_);
    if (--working_ == 0) done_.notify_one();
  }
}

}  // namespace psgd
