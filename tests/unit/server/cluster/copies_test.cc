// Journals of one run are compared: one that lost its end is found.
#include "server/cluster/copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace psgd {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMostAhead = 3;

class LostEndTest : public testing::Test {
 protected:
  MemberClocks& Shard() {
    clocks_.emplace_back();
    journals_.push_back({static_cast<uint32_t>(journals_.size()), &clocks_.back()});
    return clocks_.back();
  }
  static void Add(uint32_t worker, uint32_t incarnation, uint64_t clock, bool pushed,
                  MemberClocks* clocks) {
    MemberClock* const member = clocks->Add();
    member->mutable_key()->set_worker(worker);
    member->mutable_key()->set_incarnation(incarnation);
    member->set_clock(clock);
    member->set_pushed(pushed);
  }
  absl::Status Compare(uint32_t shard) const {
    return CompareJournal(journals_, shard, kMostAhead);
  }

 private:
  std::deque<MemberClocks> clocks_;
  std::vector<ReadJournal> journals_;
};

TEST_F(LostEndTest, AShardMayLackWhatWasOnItsWay) {
  Add(0, 1, 103, true, &Shard());
  Add(0, 1, 100, true, &Shard());
  EXPECT_TRUE(Compare(1).ok());
}

TEST_F(LostEndTest, AShardThatLacksMoreIsNamed) {
  MemberClocks& first = Shard();
  Add(0, 1, 50, true, &first);
  Add(1, 1, 104, true, &first);
  MemberClocks& second = Shard();
  Add(0, 1, 50, true, &second);
  Add(1, 1, 100, true, &second);
  EXPECT_TRUE(Compare(0).ok());
  const absl::Status lost = Compare(1);
  EXPECT_TRUE(absl::IsDataLoss(lost));
  EXPECT_THAT(lost.message(),
              HasSubstr("the journal of shard 1 has the pushes of worker 1 up to clock 100, and "
                        "that of shard 0 up to clock 104: its end is gone"));
  EXPECT_THAT(lost.message(), HasSubstr("ps-run --resume"));
}

TEST_F(LostEndTest, AnEarlierIncarnationIsAnotherWorker) {
  Add(0, 1, 900, true, &Shard());
  Add(0, 2, 10, true, &Shard());  // it came while shard 0 could not be written
  EXPECT_FALSE(Compare(0).ok()) << "every shard knows a worker before it pushes";
  EXPECT_TRUE(Compare(1).ok());
}

TEST_F(LostEndTest, AnIncarnationThatDidNotPushYetMayBeUnknown) {
  Add(0, 1, 900, true, &Shard());
  Add(0, 2, 0, false, &Shard());
  EXPECT_TRUE(Compare(0).ok());
  EXPECT_TRUE(Compare(1).ok());
}

TEST_F(LostEndTest, AWorkerThatPushedIsKnownToEveryShard) {
  MemberClocks& first = Shard();
  Add(0, 1, 5, true, &first);
  Add(1, 1, 1, true, &first);
  Add(0, 1, 5, true, &Shard());
  EXPECT_FALSE(Compare(1).ok());
}

TEST_F(LostEndTest, NobodyWaitsForAShardWithoutSlices) {
  Add(0, 1, 900, true, &Shard());
  Shard();
  EXPECT_TRUE(Compare(1).ok());
}

TEST_F(LostEndTest, FragmentsLetAWorkerGoFurther) {
  Config config;
  config.mutable_local()->set_fragments(1);
  const uint64_t most = MostClocksAhead(config);
  EXPECT_EQ(most, kMostAhead);
  config.mutable_local()->set_fragments(4);
  EXPECT_EQ(MostClocksAhead(config), most + 3);
}

}  // namespace
}  // namespace psgd
