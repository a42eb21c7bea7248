// A recording's rules, which CUDA has, too.
#include "tests/fakes/queued_device/queues.h"

#include <gtest/gtest.h>

namespace psgd::queued {
namespace {

class QueuesTest : public ::testing::Test {
 protected:
  void Put(int stream) {
    queues_.Put(stream, Asked::kLaunch, [] {});
  }
  std::shared_ptr<Event> Set(int stream) {
    const auto event = std::make_shared<Event>();
    queues_.Set(stream, event);
    return event;
  }

  std::vector<Asked> asked_;
  Queues queues_{3, /*seed=*/1, &asked_};
};

TEST_F(QueuesTest, ARecordingIsJoinedWhenItsFirstStreamComesLast) {
  queues_.BeginRecording(0);
  EXPECT_TRUE(queues_.Joined(0));
  queues_.Await(1, Set(0));
  EXPECT_FALSE(queues_.Joined(0)) << "the second stream never came back";
  Put(1);
  const auto early = Set(1);
  Put(1);
  queues_.Await(0, early);
  EXPECT_FALSE(queues_.Joined(0)) << "its last work is not waited for";
  queues_.Await(2, Set(1));
  Put(2);
  queues_.Await(0, Set(2));
  EXPECT_TRUE(queues_.Joined(0)) << "the third stream waits for the second";
  queues_.EndRecording(0);
}

TEST_F(QueuesTest, ARecordingWaitsOnlyForItsOwnEvents) {
  const auto outside = Set(1);
  EXPECT_FALSE(queues_.LeavesRecording(0, *outside));
  queues_.BeginRecording(0);
  EXPECT_TRUE(queues_.LeavesRecording(0, *outside));
  EXPECT_FALSE(queues_.LeavesRecording(0, *Set(0)));
  EXPECT_FALSE(queues_.LeavesRecording(1, *Set(0))) << "the stream joins";
  queues_.EndRecording(0);
}

TEST_F(QueuesTest, StreamsMeetWhenTheLastIsThere) {
  const auto meeting = std::make_shared<Meeting>(3);
  bool before = false, after = false;
  int met = 0;
  meeting->work = [&] { met += before && !after; };
  queues_.Meet(0, meeting, 0);
  queues_.Put(0, Asked::kLaunch, [&] { after = true; });
  queues_.Meet(2, meeting, 2);
  for (int stream = 0; stream < 3; ++stream) EXPECT_EQ(queues_.Wait(stream), stream == 1);
  queues_.Put(1, Asked::kLaunch, [&] { before = true; });
  EXPECT_FALSE(queues_.WaitForAll());
  EXPECT_FALSE(after);
  queues_.Meet(1, meeting, 1);
  EXPECT_TRUE(queues_.Wait(0));
  EXPECT_TRUE(after);
  EXPECT_TRUE(queues_.WaitForAll());
  EXPECT_EQ(met, 1);
}

TEST_F(QueuesTest, AMemberThatLeavesWaitsNoLonger) {
  const auto meeting = std::make_shared<Meeting>(2);
  meeting->work = [] { FAIL() << "a member has left"; };
  queues_.Meet(0, meeting, 0);
  EXPECT_FALSE(queues_.Wait(0));
  meeting->members[0].leaves = true;
  EXPECT_TRUE(queues_.Wait(0));
  queues_.Meet(1, meeting, 1);
  EXPECT_FALSE(queues_.Wait(1));
  meeting->members[1].leaves = true;
  EXPECT_TRUE(queues_.Wait(1));
}

}  // namespace
}  // namespace psgd::queued
