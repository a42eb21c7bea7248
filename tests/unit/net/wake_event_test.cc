#include "net/wake_event.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

namespace psgd {
namespace {

bool IsReadable(const WakeEvent& event) {
  pollfd file{.fd = event.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&file, 1, 0) == 1;
}

TEST(WakeEvent, IsReadableUntilItIsTaken) {
  WakeEvent event;
  EXPECT_FALSE(event.Take());
  event.Set();
  event.Set();
  EXPECT_TRUE(IsReadable(event));
  EXPECT_TRUE(event.Take());
  EXPECT_FALSE(event.Take());
  EXPECT_FALSE(IsReadable(event));
}

// A Take between the flag and the write of a Set.
TEST(WakeEvent, IsNotReadableWhenNothingIsToBeTaken) {
  WakeEvent event;
  constexpr int kRounds = 20'000;
  std::atomic<int> sets{0}, takes{0};
  std::thread setter([&] {
    for (int round = 1; round <= kRounds; ++round) {
      event.Set();
      sets = round;
      while (takes < round) std::this_thread::yield();
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    while (!event.Take()) std::this_thread::yield();
    while (sets < round) std::this_thread::yield();
    while (event.Take()) continue;
    EXPECT_FALSE(IsReadable(event)) << round;
    takes = round;
  }
  setter.join();
}

}  // namespace
}  // namespace psgd
