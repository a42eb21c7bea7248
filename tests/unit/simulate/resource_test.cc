#include <gtest/gtest.h>

#include <string>

#include "simulate/connection.h"

namespace psgd::sim {
namespace {

class ResourceTest : public testing::Test {
 protected:
  // Returns an action that notes when a job is done, in milliseconds since the start.
  EventQueue::Action Note(std::string name) {
    return [this, name] { order_ += name + "@" + std::to_string(Now()) + " "; };
  }
  int64_t Now() const { return (queue_.now() - start_).count() / 1'000'000; }  // milliseconds
  void RunAll() {
    while (queue_.RunOne()) {
    }
  }

  EventQueue queue_;
  const Time start_ = queue_.now();
  std::string order_;
};

TEST_F(ResourceTest, OneJobHasItAll) {
  SharedResource link(&queue_, 100, 100);
  link.Run(50, 1, Note("a"));
  RunAll();
  EXPECT_EQ(order_, "a@500 ");
  EXPECT_NEAR(link.Utilisation(), 1, 1e-6);
}

TEST_F(ResourceTest, JobsShareAndTheRestGoesFaster) {
  SharedResource link(&queue_, 100, 100);
  link.Run(50, 1, Note("a"));
  link.Run(100, 1, Note("b"));
  RunAll();
  // Both get half until a has its 50. Then b alone runs its last 50.
  EXPECT_EQ(order_, "a@1000 b@1500 ");
}

TEST_F(ResourceTest, ALaterJobSlowsThoseThatAreThere) {
  SharedResource link(&queue_, 100, 100);
  link.Run(100, 1, Note("a"));
  queue_.After(std::chrono::milliseconds(500), [&] { link.Run(100, 1, Note("b")); });
  RunAll();
  EXPECT_EQ(order_, "a@1500 b@2000 ");
}

TEST_F(ResourceTest, AThreadKeepsNoMoreThanOneProcessorBusy) {
  SharedResource cores(&queue_, 2, 1);
  cores.Run(1, 1, Note("a"));
  RunAll();
  EXPECT_EQ(order_, "a@1000 ");
  EXPECT_NEAR(cores.Utilisation(), 0.5, 1e-6);
}

TEST_F(ResourceTest, ThreeThreadsShareTwoProcessors) {
  SharedResource cores(&queue_, 2, 1);
  for (const char* name : {"a", "b", "c"}) cores.Run(1, 1, Note(name));
  RunAll();
  EXPECT_EQ(order_, "a@1500 b@1500 c@1500 ");
}

TEST_F(ResourceTest, OneMayStandForMany) {
  SharedResource cores(&queue_, 2, 1);
  cores.Run(1, 4, Note("a"));
  RunAll();
  EXPECT_EQ(order_, "a@2000 ");
}

TEST_F(ResourceTest, AMessageTakesTheSlowerOfItsLinks) {
  SharedResource fast(&queue_, 1000, 1000), slow(&queue_, 100, 100);
  Connection way(&queue_, {&fast, 1, &slow, 1, std::chrono::milliseconds(7)});
  way.Send(100, Note("a"));
  RunAll();
  EXPECT_EQ(order_, "a@1007 ");
}

TEST_F(ResourceTest, MessagesOfAConnectionStayInOrder) {
  SharedResource link(&queue_, 100, 100);
  Connection way(&queue_, {&link, 1, nullptr, 1, {}});
  way.Send(100, Note("large"));
  way.Send(1, Note("small"));
  RunAll();
  EXPECT_EQ(order_, "large@1000 small@1010 ");
}

TEST_F(ResourceTest, ConnectionsShareALink) {
  SharedResource link(&queue_, 100, 100);
  Connection one(&queue_, {&link, 1, nullptr, 1, {}}), other(&queue_, {&link, 1, nullptr, 1, {}});
  one.Send(100, Note("a"));
  other.Send(1, Note("b"));
  RunAll();
  EXPECT_EQ(order_, "b@20 a@1010 ");
}

}  // namespace
}  // namespace psgd::sim
