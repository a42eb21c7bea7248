#include "net/wake_event.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "common/clock.h"

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

// A Take between the flag and the write of a Set. On cores that others use, a round takes a
// thousand times as long.
TEST(WakeEvent, IsNotReadableWhenNothingIsToBeTaken) {
  WakeEvent event;
  const Time end = SteadyNow() + std::chrono::seconds(1);
  std::atomic<int> rounds{20'000}, sets{0}, takes{0};
  std::thread setter([&] {
    for (int round = 1; round <= rounds; ++round) {
      event.Set();
      sets = round;
      while (takes < round) std::this_thread::yield();
    }
  });
  for (int round = 1; round <= rounds; ++round) {
    while (!event.Take()) std::this_thread::yield();
    while (sets < round) std::this_thread::yield();
    while (event.Take()) continue;
    EXPECT_FALSE(IsReadable(event)) << round;
    if (SteadyNow() > end) rounds = round;
    takes = round;
  }
  setter.join();
}

}  // namespace
}  // namespace psgd
