// A link in simulated time: what it carries, and how long an answer takes.
#include "worker/send_window.h"

#include <gtest/gtest.h>

#include <deque>

namespace psgd {
namespace {

constexpr size_t kMost = 64u << 20;
constexpr size_t kMessage = 64u << 10;

// Keeps the window full for so long. Returns the bytes on their way in the end.
size_t Fill(SendWindow* window, double bytes_per_second, Duration round_trip, Duration length,
            size_t message = kMessage) {
  struct Flying {
    SendWindow::Mark mark;
    Time arrives{};
  };
  std::deque<Flying> flying;
  Time now = std::chrono::hours(1), free = now;
  const Time end = now + length;
  while (now < end) {
    while (flying.empty() || (flying.size() + 1) * message <= window->bytes(kMost)) {
      free = std::max(free, now) + std::chrono::nanoseconds(static_cast<int64_t>(
                                       1e9 * static_cast<double>(message) / bytes_per_second));
      const SendWindow::Mark mark = window->OnSent(flying.empty(), now);
      flying.push_back({mark, free + round_trip});
    }
    now = flying.front().arrives;
    window->OnArrived(flying.front().mark, message, now);
    flying.pop_front();
  }
  return flying.size() * message;
}

TEST(SendWindow, IsAllThatIsAllowedWhileNothingIsKnown) {
  EXPECT_EQ(SendWindow().bytes(kMost), kMost);
  EXPECT_EQ(SendWindow().bytes(1), 1u);
}

TEST(SendWindow, IsWhatTheLinkCarriesInARoundTripAndAMoment) {
  for (const double rate : {12.5e6, 125e6, 1.25e9}) {
    for (const Duration round_trip :
         {std::chrono::milliseconds(1), std::chrono::milliseconds(40)}) {
      SendWindow window;
      const auto flying =
          static_cast<double>(Fill(&window, rate, round_trip, std::chrono::seconds(20)));
      const double needed = rate * Seconds(round_trip);
      EXPECT_GT(flying, std::min(0.9 * needed, 0.9 * kMost)) << rate << " " << Seconds(round_trip);
      EXPECT_LT(flying, std::max(1.5 * needed + 0.05 * rate, 512e3)) << rate;
    }
  }
}

TEST(SendWindow, HoldsTwoOfTheLargestMessages) {
  SendWindow window;
  Fill(&window, 1e6, std::chrono::milliseconds(1), std::chrono::seconds(30), 4u << 20);
  EXPECT_GE(window.bytes(kMost), 8u << 20);
  EXPECT_LT(window.bytes(kMost), 9u << 20);
}

TEST(SendWindow, FollowsALinkThatChanges) {
  SendWindow window;
  Fill(&window, 1.25e9, std::chrono::milliseconds(1), std::chrono::seconds(10));
  const size_t before = window.bytes(kMost);
  Time now = std::chrono::hours(1) + std::chrono::seconds(11);
  for (int i = 0; i < 20; ++i, now += std::chrono::seconds(1)) {
    const SendWindow::Mark mark = window.OnSent(true, now);
    window.OnArrived(mark, kMessage, now + std::chrono::milliseconds(100));
  }
  EXPECT_LT(window.bytes(kMost), before / 10);
}

}  // namespace
}  // namespace psgd
