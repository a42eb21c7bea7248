#include "apps/wait_note.h"

#include <chrono>
#include <iostream>
#include <utility>

namespace psgd {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);  // how long people accept a silent terminal

}  // namespace

WaitNote::WaitNote(std::string program, std::string text)
    : thread_([this, line = std::move(program) + ": " + std::move(text) + "\n"] {
        std::unique_lock lock(mutex_);
        if (!over_.wait_for(lock, kPatience, [&] { return is_over_; }))
          std::cerr << line << std::flush;
      }) {}

WaitNote::~WaitNote() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  thread_.join();
}

}  // namespace psgd
