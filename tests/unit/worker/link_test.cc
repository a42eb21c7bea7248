// Tests measuring a link and noticing its change, on a fake link.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/worker/fake_link.h"
#include "worker/link_speed.h"
#include "worker/link_watch.h"

namespace psgd {
namespace {

absl::StatusOr<LinkSpeed> Measure(FakeLink* link, size_t* sent) {
  return MeasureLink([&](const Bytes& probe) -> absl::StatusOr<double> {
    const double start = link->now();
    *sent += probe.size();
    link->Send(probe.size());
    link->WaitAnswered();
    return link->now() - start;
  });
}

TEST(LinkSpeed, IsMeasuredFromModemsToMemory) {
  for (double rate : {7e3, 125e3, 2.5e6, 125e6, 1.25e9, 1e10}) {
    for (double round_trip : {1e-5, 1e-2, 0.3}) {
      FakeLink link(rate, round_trip);
      size_t sent = 0;
      const LinkSpeed speed = Measure(&link, &sent).value();
      EXPECT_NEAR(speed.round_trip_seconds, round_trip, 1e-9);
      EXPECT_NEAR(speed.bytes_per_second, rate, 0.01 * rate) << round_trip;
      EXPECT_LT(sent, 40u << 20);
      EXPECT_LT(sent, std::max(1e6, rate)) << "a second's worth, or little";
    }
  }
}

TEST(LinkSpeed, IsWhatItCarriesOnAndOn) {
  FakeLink link(2.5e6, 1e-3, /*bucket=*/256 << 10);
  size_t sent = 0;
  EXPECT_NEAR(Measure(&link, &sent).value().bytes_per_second, 2.5e6, 0.05 * 2.5e6);
}

// A process that waits for its processor does not mean a slow link.
TEST(LinkSpeed, AStallNowAndThenIsNotTheLink) {
  for (int phase = 0; phase < 3; ++phase) {
    FakeLink link(1e8, 1e-4);
    int probes = phase;
    const auto speed = MeasureLink([&](const Bytes& probe) -> absl::StatusOr<double> {
      const double start = link.now();
      link.Send(probe.size());
      link.WaitAnswered();
      if (probes++ % 3 != 0) link.Wait(0.08);
      return link.now() - start;
    });
    EXPECT_NEAR(speed->bytes_per_second, 1e8, 1e6) << phase;
    EXPECT_NEAR(speed->round_trip_seconds, 1e-4, 1e-6) << phase;
  }
}

TEST(LinkSpeed, AFailureEndsIt) {
  const auto speed = MeasureLink(
      [](const Bytes&) -> absl::StatusOr<double> { return absl::CancelledError("stopped"); });
  EXPECT_TRUE(absl::IsCancelled(speed.status()));
}

// A worker's steps over a link. Backward takes 20 ms and pushes four times.
class LinkWatchTest : public testing::Test {
 protected:
  LinkWatchTest() { watch_.Measured({.bytes_per_second = 1e6, .round_trip_seconds = 1e-3}); }

  void Step(size_t bytes, double more_seconds = 0) {
    for (int i = 0; i < 4; ++i) {
      link_.Wait(0.005);
      watch_.Pushed(bytes / 4, link_.Now());
      link_.Send(bytes / 4);
    }
    link_.WaitAnswered();
    link_.Wait(more_seconds);
    watch_.Acknowledged(link_.Now());
    link_.Wait(0.03);  // forward
  }
  void Steps(int count, size_t bytes) {
    for (int i = 0; i < count; ++i) Step(bytes);
  }
  // Returns after how many steps the change is noticed. 100: it is not noticed.
  int Noticed(size_t bytes) {
    for (int i = 0; i < 100; ++i) {
      if (watch_.changed()) return i;
      Step(bytes);
    }
    return 100;
  }

  FakeLink link_{1e6, 1e-3};
  LinkWatch watch_;
};

TEST_F(LinkWatchTest, ALinkThatStaysIsLeftAlone) {
  EXPECT_EQ(Noticed(400000), 100);
  // The amount of pushed bytes does not matter: the time grows in proportion.
  EXPECT_EQ(Noticed(4000000), 100);
  EXPECT_EQ(Noticed(4000), 100);
}

TEST_F(LinkWatchTest, ASlowerLinkIsNoticed) {
  Steps(20, 400000);
  link_.SetRate(4e5);
  EXPECT_EQ(Noticed(400000), LinkWatch::kSteps);
  watch_.Measured({.bytes_per_second = 4e5, .round_trip_seconds = 1e-3});
  EXPECT_EQ(Noticed(400000), 100);
}

TEST_F(LinkWatchTest, AFasterLinkIsNoticed) {
  Steps(20, 400000);
  link_.SetRate(1e7);
  EXPECT_EQ(Noticed(400000), LinkWatch::kSteps);
}

TEST_F(LinkWatchTest, ALinkThatDoesNotCountMayChange) {
  Steps(20, 400);
  link_.SetRate(2e6);
  EXPECT_EQ(Noticed(400), 100);
}

TEST_F(LinkWatchTest, SomewhatOtherIsTheSame) {
  Steps(20, 400000);
  link_.SetRate(0.6e6);
  EXPECT_EQ(Noticed(400000), 100);
  link_.SetRate(1.7e6);
  EXPECT_EQ(Noticed(400000), 100);
}

TEST_F(LinkWatchTest, ASlowStepNowAndThenIsNoChange) {
  Steps(20, 400000);
  for (int i = 0; i < 100; ++i) {
    Step(400000, i % LinkWatch::kSteps == 0 ? 0.0 : 2.0);
    ASSERT_FALSE(watch_.changed()) << i;
  }
  Steps(1, 400000);
  for (int i = 0; i < LinkWatch::kSteps; ++i) Step(400000, 2.0);
  EXPECT_TRUE(watch_.changed());
}

// Other traffic on the link, or a busy shard, makes every push slower than the measurement.
TEST_F(LinkWatchTest, WhatIsUsualIsLearned) {
  link_.SetRate(0.25e6);
  EXPECT_EQ(Noticed(400000), 100);
  link_.SetRate(0.1e6);
  EXPECT_EQ(Noticed(400000), LinkWatch::kSteps);
}

TEST_F(LinkWatchTest, WhatWasNotSeenSaysNothing) {
  Steps(20, 400000);
  for (int i = 0; i < 100; ++i) {
    watch_.Pushed(400000, link_.Now());
    watch_.Missed();
    link_.Wait(10);
    watch_.Acknowledged(link_.Now());
  }
  EXPECT_FALSE(watch_.changed());
}

TEST(LinkWatch, SaysNothingBeforeAMeasurement) {
  LinkWatch watch;
  for (int i = 0; i < 100; ++i) {
    watch.Pushed(1000, std::chrono::seconds(i));
    watch.Acknowledged(std::chrono::seconds(i) + std::chrono::milliseconds(i));
  }
  EXPECT_FALSE(watch.changed());
}

}  // namespace
}  // namespace psgd
