// When people hear that the run waits.
#include "server/cluster/wait_news.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class WaitNewsTest : public testing::Test {
 protected:
  // Looks, and returns what people are told.
  std::vector<std::string> See(const std::string& waits, std::optional<Time> since = std::nullopt) {
    ServerEffects effects;
    news_.See(waits, since, now_, &effects);
    std::vector<std::string> texts;
    for (const ServerEffect& effect : effects) texts.push_back(std::get<effect::News>(effect).text);
    return texts;
  }

  Time now_ = std::chrono::hours(1);
  WaitNews news_;
};

TEST_F(WaitNewsTest, AWaitOfAMomentIsNotTold) {
  EXPECT_THAT(See("for etcd"), IsEmpty());
  EXPECT_EQ(news_.waits(), "for etcd");
  now_ += WaitNews::kMoment / 2;
  EXPECT_THAT(See("for etcd"), IsEmpty());
  EXPECT_THAT(See(""), IsEmpty());
  now_ += WaitNews::kMoment;
  EXPECT_THAT(See("for etcd"), IsEmpty()) << "this wait is a new one";
  EXPECT_FALSE(news_.told());
}

TEST_F(WaitNewsTest, ALongerWaitIsToldOnceAndSoIsItsEnd) {
  See("for etcd");
  now_ += WaitNews::kMoment;
  EXPECT_THAT(See("for etcd"), ElementsAre("for etcd"));
  EXPECT_TRUE(news_.told());
  now_ += std::chrono::seconds(3);
  EXPECT_THAT(See("for shard 1"), IsEmpty()) << "the run waited all the time";
  EXPECT_EQ(news_.waits(), "for shard 1");
  EXPECT_THAT(See(""), ElementsAre("goes on after 5 s"));
  EXPECT_THAT(See(""), IsEmpty());
  EXPECT_FALSE(news_.told());
}

TEST_F(WaitNewsTest, AWaitMayHaveBegunBeforeItIsSeen) {
  EXPECT_THAT(See("for worker 3", now_ - std::chrono::seconds(10)), ElementsAre("for worker 3"));
  now_ += std::chrono::seconds(1);
  EXPECT_THAT(See(""), ElementsAre("goes on after 11 s"));
}

}  // namespace
}  // namespace psgd
