#include "net/zmq/send_budget.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

std::vector<Bytes> Frames(size_t a, size_t b) {
  return {Bytes::Adopt(std::vector<std::byte>(a)), Bytes::Adopt(std::vector<std::byte>(b))};
}

TEST(SendBudget, CountsWhatIsHeldOfEachPeer) {
  SendBudget budget(100);
  EXPECT_TRUE(budget.Fits(1, 1000)) << "a message larger than the budget goes alone";
  std::vector<Bytes> first = budget.Take(1, Frames(30, 40));
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[1].size(), 40u);
  EXPECT_TRUE(budget.Fits(1, 30));
  EXPECT_FALSE(budget.Fits(1, 31));
  EXPECT_TRUE(budget.Fits(2, 100)) << "another peer's queue is its own";
  const Bytes still_read = first[1];
  first.clear();
  EXPECT_TRUE(budget.Fits(1, 60));
  EXPECT_FALSE(budget.Fits(1, 61)) << "somebody still holds the second frame";
}

TEST(SendBudget, FramesOutliveThePeer) {
  std::vector<Bytes> frames;
  {
    SendBudget budget(10);
    frames = budget.Take(7, Frames(5, 5));
    EXPECT_FALSE(budget.Fits(7, 1));
    budget.Forget(7);
    EXPECT_TRUE(budget.Fits(7, 10));
  }
  frames.clear();
}

}  // namespace
}  // namespace psgd
