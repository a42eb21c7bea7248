#include "server/cluster/stored_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using namespace std::chrono_literals;

RunRecord WithEpoch(uint64_t epoch) {
  RunRecord record;
  record.set_epoch(epoch);
  return record;
}

const effect::WriteStore& OnlyWrite(const ServerEffects& effects) {
  EXPECT_EQ(effects.size(), 1u);
  return std::get<effect::WriteStore>(effects.back());
}

class StoredRunTest : public testing::Test {
 protected:
  void Write(uint64_t changes) {
    effects_.clear();
    ASSERT_TRUE(stored_.MayWrite(now_));
    ASSERT_FALSE(stored_.WriteAgain(&effects_));
    stored_.Write({.record = WithEpoch(changes), .changes = changes}, &effects_);
  }

  Time now_{};
  StoredRun stored_{7, {.record = WithEpoch(1)}};
  ServerEffects effects_;
};

TEST_F(StoredRunTest, HasWhatWasWrittenOnceTheStoreHasIt) {
  Write(5);
  EXPECT_EQ(OnlyWrite(effects_).revision, 7);
  EXPECT_EQ(OnlyWrite(effects_).record.epoch(), 5u);
  EXPECT_FALSE(stored_.MayWrite(now_));
  EXPECT_EQ(stored_.run().changes, 0u);
  EXPECT_TRUE(stored_.Written(8, now_));
  EXPECT_EQ(stored_.revision(), 8);
  EXPECT_EQ(stored_.run().changes, 5u);
  EXPECT_TRUE(stored_.MayWrite(now_));
}

// The store may have a write whose answer was lost. A different record under the same revision
// would look like another server's.
TEST_F(StoredRunTest, AWriteThatFailedIsRepeatedAsItWas) {
  const auto plan = std::make_shared<RunPlan>();
  stored_.SetPlan(plan);
  Write(5);
  EXPECT_FALSE(stored_.Written(absl::UnavailableError("no answer"), now_));
  EXPECT_EQ(stored_.trouble(), "no answer");
  EXPECT_EQ(stored_.run().changes, 0u);
  EXPECT_FALSE(stored_.MayWrite(now_));
  now_ += 1s;
  ASSERT_TRUE(stored_.MayWrite(now_));
  effects_.clear();
  EXPECT_TRUE(stored_.WriteAgain(&effects_));
  EXPECT_EQ(OnlyWrite(effects_).revision, 7);
  EXPECT_EQ(OnlyWrite(effects_).record.epoch(), 5u);
  EXPECT_EQ(OnlyWrite(effects_).plan, plan);
  EXPECT_FALSE(stored_.MayWrite(now_));
  EXPECT_TRUE(stored_.Written(8, now_));
  EXPECT_EQ(stored_.trouble(), "");
  EXPECT_EQ(stored_.run().changes, 5u);
  Write(6);
  EXPECT_EQ(OnlyWrite(effects_).revision, 8);
  EXPECT_EQ(OnlyWrite(effects_).plan, nullptr);
}

TEST_F(StoredRunTest, AnotherServersWriteIsNoTrouble) {
  Write(5);
  EXPECT_FALSE(stored_.Written(absl::AbortedError("another leads"), now_));
  EXPECT_EQ(stored_.trouble(), "");
  EXPECT_EQ(stored_.run().changes, 0u);
}

}  // namespace
}  // namespace psgd
