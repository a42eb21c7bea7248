#include "server/cluster/late_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace psgd {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

ShardStatus At(uint64_t clock, std::initializer_list<uint32_t> late) {
  ShardStatus status;
  status.set_slowest_clock(clock);
  for (const uint32_t worker : late) status.add_late_workers(worker);
  return status;
}

class LateWatchTest : public testing::Test {
 protected:
  // The shard says the same for so long.
  void Says(const ShardStatus& status, seconds time) {
    for (seconds passed(0); passed < time; passed += seconds(1)) {
      now_ += seconds(1);
      watch_.See(0, status, now_);
    }
  }

  std::optional<LateWorkers> Late() const {
    return watch_.Late(now_, [this](uint32_t worker) { return silent_.contains(worker); });
  }

  LateWatch watch_;
  std::set<uint32_t> silent_;
  Time now_{};
};

TEST_F(LateWatchTest, AWorkerIsLateWhenItsClockStandsAndOthersWaitForIt) {
  Says(At(0, {1}), seconds(1));
  const Time begin = now_;
  Says(At(0, {1}), seconds(10));
  EXPECT_FALSE(Late());
  Says(At(0, {1}), seconds(1));
  const auto late = Late();
  ASSERT_TRUE(late);
  EXPECT_THAT(late->workers, ElementsAre(1));
  EXPECT_EQ(late->clock, 1);
  EXPECT_EQ(late->since, begin);
  EXPECT_EQ(late->patience, LateWatch::kPatience);
  Says(At(1, {0}), seconds(1));
  EXPECT_FALSE(Late());
}

TEST_F(LateWatchTest, ThereIsLittlePatienceWithASilentWorker) {
  Says(At(5, {1, 2}), seconds(4));
  EXPECT_FALSE(Late());
  silent_ = {0, 2};
  ASSERT_TRUE(Late());
  EXPECT_THAT(Late()->workers, ElementsAre(2));
  EXPECT_TRUE(Late()->silent);
  Says(At(6, {1, 2}), seconds(2));
  EXPECT_FALSE(Late()) << "nobody has waited for long";
}

TEST_F(LateWatchTest, TimeInWhichNobodyWaitsDoesNotCount) {
  Says(At(5, {}), seconds(3));
  EXPECT_FALSE(Late());
  Says(At(5, {1}), seconds(10));
  EXPECT_FALSE(Late());
  Says(At(5, {1}), seconds(2));
  EXPECT_TRUE(Late());
  watch_.Forget();
  Says(At(5, {1}), seconds(10));
  EXPECT_FALSE(Late());
}

TEST_F(LateWatchTest, TimeInWhichTheServerStoodStillDoesNotCount) {
  Says(At(5, {1}), seconds(5));
  now_ += seconds(60);
  Says(At(5, {1}), seconds(5));
  EXPECT_FALSE(Late());
  Says(At(5, {1}), seconds(3));
  EXPECT_TRUE(Late());
}

TEST_F(LateWatchTest, TheFirstClockThatIsSeenMayBeLong) {
  Says(At(0, {}), seconds(40));
  Says(At(0, {1}), seconds(110));
  EXPECT_FALSE(Late());
  Says(At(0, {1}), seconds(12));
  EXPECT_TRUE(Late());
}

TEST_F(LateWatchTest, AnExcusedWaitBeginsAnew) {
  Says(At(5, {1}), seconds(12));
  ASSERT_TRUE(Late());
  watch_.Excuse(now_);
  Says(At(5, {1}), seconds(9));
  EXPECT_FALSE(Late());
}

TEST_F(LateWatchTest, LongClocksNeedMorePatience) {
  for (uint64_t clock = 0; clock < 10; ++clock) Says(At(clock, {1}), seconds(20));
  Says(At(10, {1}), seconds(60));
  EXPECT_FALSE(Late());
  Says(At(10, {1}), seconds(2));
  ASSERT_TRUE(Late());
  EXPECT_EQ(Late()->patience, seconds(60));
}

}  // namespace
}  // namespace psgd
