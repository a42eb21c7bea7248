// Says on stderr what a program waits for, if the wait is long.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace psgd {

// The wait lasts as long as this object.
class WaitNote {
 public:
  WaitNote(std::string program, std::string text);
  ~WaitNote();

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace psgd
