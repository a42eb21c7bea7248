// Which links a bell tells its owner to look at.
#include "net/ipc/bell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace psgd {
namespace {

using testing::ElementsAre;

// Empties the set.
std::vector<size_t> InTurn(LinkSet& links, size_t from) {
  std::vector<size_t> numbers;
  while (const auto next = links.NextFrom(from)) {
    numbers.push_back(*next);
    links.Remove(*next);
    from = *next + 1;
  }
  return numbers;
}

TEST(LinkSet, GoesRound) {
  LinkSet links;
  EXPECT_EQ(links.NextFrom(0), std::nullopt);
  EXPECT_EQ(links.NextFrom(64), std::nullopt);
  links.MakeRoom(200);
  EXPECT_FALSE(links.Any());
  for (const size_t link : {0, 5, 63, 64, 199}) links.Add(link);
  EXPECT_TRUE(links.Any());
  LinkSet again = links;
  EXPECT_THAT(InTurn(again, 0), ElementsAre(0, 5, 63, 64, 199));
  again = links;
  EXPECT_THAT(InTurn(again, 6), ElementsAre(63, 64, 199, 0, 5));
  again = links;
  EXPECT_THAT(InTurn(again, 64), ElementsAre(64, 199, 0, 5, 63));
  EXPECT_THAT(InTurn(links, 100'000), ElementsAre(0, 5, 63, 64, 199));
  EXPECT_FALSE(links.Any());
  links.AddAll();
  EXPECT_GE(InTurn(links, 0).size(), 200u);
}

class BellTest : public testing::Test {
 protected:
  std::vector<size_t> Taken() {
    bell_.TakeMarks(&links_);
    return InTurn(links_, 0);
  }
  bool IsRung() const {
    pollfd item{.fd = bell_.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&item, 1, 0) == 1;
  }

  Bell bell_ = *Bell::Create();
  Bell peers_ = *Bell::Map(FileDescriptor(::dup(bell_.memory_fd())),  // the same one
                           FileDescriptor(::dup(bell_.fd())));
  LinkSet links_;
};

// One active link among many costs a look at one.
TEST_F(BellTest, NamesTheLinksThatRang) {
  links_.MakeRoom(1000);
  EXPECT_FALSE(bell_.AnyMarked(links_));
  EXPECT_THAT(Taken(), ElementsAre());
  peers_.Ring(999);
  peers_.Ring(3);
  peers_.Ring(999);
  EXPECT_FALSE(IsRung());  // nobody sleeps
  EXPECT_TRUE(bell_.AnyMarked(links_));
  EXPECT_THAT(Taken(), ElementsAre(3, 999));
  EXPECT_FALSE(bell_.AnyMarked(links_));
  bell_.Arm();
  peers_.Ring(70);
  EXPECT_TRUE(IsRung());
  EXPECT_THAT(Taken(), ElementsAre(70));
}

// A peer may mark what is not there.
TEST_F(BellTest, KeepsMarksWithinItsPage) {
  links_.MakeRoom(64);
  peers_.Ring(Bell::kMostLinks - 1);
  EXPECT_FALSE(bell_.AnyMarked(links_));
  EXPECT_THAT(Taken(), ElementsAre());
  links_.MakeRoom(Bell::kMostLinks);
  EXPECT_THAT(Taken(), ElementsAre(Bell::kMostLinks - 1));
}

// What came before a mark is there for who takes it, and no mark is lost.
TEST_F(BellTest, LosesNothingOfPeersThatRingAtOnce) {
  constexpr size_t kPeers = 3;
  constexpr uint64_t kEach = 20'000;
  links_.MakeRoom(kPeers);
  std::vector<std::atomic<uint64_t>> published(kPeers);
  std::vector<std::jthread> peers;
  for (size_t i = 0; i < kPeers; ++i) {
    peers.emplace_back([&, i] {
      for (uint64_t n = 1; n <= kEach; ++n) {
        published[i].store(n, std::memory_order_relaxed);
        peers_.Ring(i);
      }
    });
  }
  std::vector<uint64_t> seen(kPeers);
  while (seen != std::vector<uint64_t>(kPeers, kEach)) {
    for (const size_t i : Taken()) seen[i] = published[i].load(std::memory_order_relaxed);
    std::this_thread::yield();
  }
  peers.clear();
  for (const size_t i : Taken()) EXPECT_EQ(published[i], seen[i]);
}

}  // namespace
}  // namespace psgd
