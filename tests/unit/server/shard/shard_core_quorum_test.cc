// consistency.quorum: clocks that go on without late workers.
#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

constexpr Time kGrace = std::chrono::milliseconds(100);

Config WithQuorum(int quorum) {
  Config config;
  config.mutable_consistency()->set_quorum(quorum);
  config.mutable_consistency()->set_grace(100);
  return config;
}

class ShardQuorum : public testing::Test {
 protected:
  explicit ShardQuorum(const Config& config = WithQuorum(2), bool journal = false)
      : shard_({.staleness = 0, .elements = {1}, .journal = journal}, config) {}

  // Workers 0 to 2 in a segment of three clocks.
  void Start() {
    shard_.Install();
    for (uint32_t worker = 0; worker < 3; ++worker) shard_.Admit(worker);
    shard_.Begin(0, 3, {0, 1, 2});
  }
  static Message PushOf(uint32_t worker, uint64_t clock, float value) {
    return ShardFixture::PushOf(worker, clock, clock, {{0, {value}}});
  }
  void Push(uint32_t worker, uint64_t clock, float value) {
    shard_.Acknowledged(PushOf(worker, clock, value));
  }
  Outbox Tick(Time now) {
    Outbox out;
    shard_.core().Tick(now, &out);
    return out;
  }
  // The quorum comes at `now`, and the grace ends.
  void GoOnWithoutOthers(Time now) {
    Tick(now);
    Tick(now + kGrace);
  }
  // Workers 0 and 1 push 1 and 10, and the first clock goes on without worker 2.
  void FirstClockIsClosed() {
    Push(0, 1, 1);
    Push(1, 1, 10);
    GoOnWithoutOthers(Time(0));
  }
  float weight() { return shard_.Weights(0)[0]; }

  ShardFixture shard_;
};

TEST_F(ShardQuorum, GoesOnOnceTheGraceIsOver) {
  Start();
  Push(0, 1, 1);
  GoOnWithoutOthers(Time(0));
  EXPECT_EQ(weight(), 0);  // one of two
  Push(1, 1, 10);
  EXPECT_TRUE(shard_.Send(ShardFixture::PullOf(0, 1, 1)).empty());
  Tick(kGrace * 3);
  EXPECT_EQ(shard_.core().grace().Ends(), kGrace * 4);
  EXPECT_TRUE(Tick(kGrace * 4 - Time(1)).empty());
  EXPECT_EQ(weight(), 0);
  const Outbox out = Tick(kGrace * 4);  // answers the pull that waits
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(weight(), -11);
  EXPECT_EQ(shard_.core().grace().Ends(), std::nullopt);
}

TEST_F(ShardQuorum, WhoIsInTimeIsWaitedForAsEver) {
  Start();
  Push(0, 1, 1);
  Push(1, 1, 10);
  Tick(Time(0));
  Push(2, 1, 100);
  EXPECT_EQ(weight(), -111);
  EXPECT_EQ(shard_.core().SlowestClock(), 1u);
}

TEST_F(ShardQuorum, ALatePushCountsInTheNextClock) {
  Start();
  FirstClockIsClosed();
  Push(2, 1, 100);
  EXPECT_EQ(weight(), -11);
  // Its worker goes on with weights that lack its own push.
  Message pull = ShardFixture::PullOf(2, 1, 1);
  pull.header.mutable_pull()->set_own_clock(1);
  EXPECT_EQ(shard_.Send(std::move(pull)).size(), 1u);
  Push(0, 2, 1000);
  Push(1, 2, 10000);
  EXPECT_EQ(weight(), -11);
  Push(2, 2, 100000);
  EXPECT_EQ(weight(), -111111);  // all of the clock at once, with the late push
}

TEST_F(ShardQuorum, ThePartsThatCameInTimeCountInTime) {
  ShardFixture shard({.staleness = 0, .elements = {1, 1}}, WithQuorum(1));
  shard.Start(2);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1}}, {1, {1}}}));
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {10}}}, false));
  EXPECT_EQ(shard.Weights(0), Values{-11});  // every worker has pushed this slice
  Outbox out;
  shard.core().Tick(Time(0), &out);
  shard.core().Tick(kGrace, &out);
  EXPECT_EQ(shard.Weights(1), Values{-1});
  shard.Acknowledged(ShardFixture::PushOf(1, 2, 1, {{1, {10}}}));
  shard.Acknowledged(ShardFixture::PushOf(0, 2, 2, {{0, {100}}, {1, {100}}}));
  shard.Acknowledged(ShardFixture::PushOf(1, 3, 2, {{0, {1000}}, {1, {1000}}}));
  EXPECT_EQ(shard.Weights(0), Values{-1111});
  EXPECT_EQ(shard.Weights(1), Values{-1111});
}

TEST_F(ShardQuorum, TheLastClockOfASegmentWaitsForAll) {
  Start();
  for (uint64_t clock = 1; clock <= 3; ++clock) {
    Push(0, clock, 1);
    Push(1, clock, 10);
    GoOnWithoutOthers(kGrace * clock * 2);
  }
  EXPECT_EQ(weight(), -22);
  EXPECT_EQ(shard_.core().SlowestClock(), 2u);
  for (uint64_t clock = 1; clock <= 3; ++clock) {
    EXPECT_EQ(weight(), -22);
    Push(2, clock, 100);
  }
  EXPECT_EQ(weight(), -333);
}

TEST_F(ShardQuorum, ADeadWorkersLatePushCounts) {
  Start();
  FirstClockIsClosed();
  Push(2, 1, 100);
  shard_.Remove(2);
  Push(0, 2, 1000);
  Push(1, 2, 10000);
  EXPECT_EQ(weight(), -11111);
}

TEST_F(ShardQuorum, TheMeanWeighsLatePushesAsOthers) {
  Config config = WithQuorum(2);
  config.mutable_consistency()->set_reduction(ConsistencyConfig::MEAN);
  for (const bool scaled : {false, true}) {
    if (scaled) config.mutable_consistency()->set_compensation(ConsistencyConfig::SCALE);
    ShardFixture shard({.staleness = 0, .elements = {1}}, config);
    shard.Start(3);
    shard.Acknowledged(PushOf(0, 1, 3));
    shard.Acknowledged(PushOf(1, 1, 3));
    Outbox out;
    shard.core().Tick(Time(0), &out);
    shard.core().Tick(kGrace, &out);
    // Two pushes of 3 count as a mean over three workers, because the late push is added later.
    EXPECT_EQ(shard.Weights(0), Values{-2});
    shard.Acknowledged(PushOf(2, 1, 6));
    for (uint32_t worker = 0; worker < 3; ++worker) shard.Acknowledged(PushOf(worker, 2, 3));
    EXPECT_EQ(shard.Weights(0), Values{-2 - (scaled ? 4.0f : 5.0f)});
  }
}

// Two slices, which clocks exchange in turn. Workers 0 to 2 push 3 in each clock, and the first
// clock goes on without worker 2.
class FragmentedQuorum : public testing::Test {
 protected:
  static Config WithFragments() {
    Config config = WithQuorum(2);
    config.mutable_consistency()->set_reduction(ConsistencyConfig::MEAN);
    config.mutable_local()->set_fragments(2);
    config.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
    config.mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
    return config;
  }
  void FirstClockIsClosed(uint32_t clocks) {
    shard_.Install();
    for (uint32_t worker = 0; worker < 3; ++worker) shard_.Admit(worker);
    shard_.Begin(0, clocks, {0, 1, 2});
    Push(0, 1);
    Push(1, 1);
    Outbox out;
    shard_.core().Tick(Time(0), &out);
    shard_.core().Tick(kGrace, &out);
    EXPECT_EQ(shard_.Weights(0), Values{-2});
  }
  void Push(uint32_t worker, uint64_t clock) {
    shard_.Acknowledged(ShardFixture::PushOf(worker, clock, clock,
                                             {{static_cast<uint32_t>((clock + 1) % 2), {3}}}));
  }
  uint64_t StepsOfTheFirstSlice() { return shard_.core().MakeImage().arrays.slices[0].steps; }

  ShardFixture shard_{{.staleness = 0, .elements = {1, 1}}, WithFragments()};
};

TEST_F(FragmentedQuorum, ALatePushIsNoStepOfItsOwn) {
  FirstClockIsClosed(4);
  Push(2, 1);
  for (uint32_t worker = 0; worker < 3; ++worker) Push(worker, 2);
  EXPECT_EQ(shard_.core().SlowestClock(), 2u);
  EXPECT_EQ(shard_.Weights(0), Values{-2});  // the late push waits
  EXPECT_EQ(shard_.Weights(1), Values{-3});
  // It waits in an image, too.
  ShardFixture again({.staleness = 0, .elements = {1, 1}}, WithFragments());
  ASSERT_TRUE(again.core().Restore(shard_.core().MakeImage()).ok());
  for (uint32_t worker = 0; worker < 3; ++worker) {
    Push(worker, 3);
    again.Acknowledged(ShardFixture::PushOf(worker, 3, 3, {{0, {3}}}));
  }
  // The momentum is 2 / 2 + (3 + 1), in one step.
  EXPECT_EQ(shard_.Weights(0), Values{-7});
  EXPECT_EQ(again.Weights(0), Values{-7});
  EXPECT_EQ(StepsOfTheFirstSlice(), 2u);
}

TEST_F(FragmentedQuorum, TheLastClockOfASegmentTakesWhatIsLate) {
  FirstClockIsClosed(2);
  Push(2, 1);
  for (uint32_t worker = 0; worker < 3; ++worker) Push(worker, 2);
  // A third of 3 with half of the momentum of 2, although the clock exchanges the other slice.
  EXPECT_EQ(shard_.Weights(0), Values{-4});
  EXPECT_EQ(shard_.Weights(1), Values{-3});
}

// As when a run drains.
TEST_F(FragmentedQuorum, ALatePushKeepsItsShareIfAllWorkersLeave) {
  FirstClockIsClosed(100);
  Push(2, 1);
  for (uint32_t worker = 0; worker < 3; ++worker) Push(worker, 2);
  EXPECT_EQ(shard_.Weights(0), Values{-2});
  for (uint32_t worker = 0; worker < 3; ++worker) shard_.Remove(worker);
  EXPECT_EQ(shard_.Weights(0), Values{-4});
}

class JournaledQuorum : public ShardQuorum {
 protected:
  JournaledQuorum() : ShardQuorum(WithQuorum(2), true) {}
};

TEST_F(JournaledQuorum, TheJournalKnowsWhichClocksWentOn) {
  Start();
  shard_.core().TakeJournal();
  const ShardImage image = shard_.core().MakeImage();
  FirstClockIsClosed();
  Push(2, 1, 100);
  Push(0, 2, 1000);
  const std::vector<JournalEntry> entries = shard_.core().TakeJournal();

  ShardFixture again({.staleness = 0, .elements = {1}, .journal = true}, WithQuorum(2));
  ASSERT_TRUE(again.core().Restore(image).ok());
  for (const JournalEntry& entry : entries) {
    const absl::Status replayed = again.core().Replay(entry);
    EXPECT_TRUE(replayed.ok()) << replayed;
  }
  EXPECT_EQ(again.Weights(0), Values{-11});
  // The late push waits in the next image, too.
  ShardFixture third({.staleness = 0, .elements = {1}}, WithQuorum(2));
  ASSERT_TRUE(third.core().Restore(again.core().MakeImage()).ok());
  third.Acknowledged(PushOf(1, 2, 10000));
  third.Acknowledged(PushOf(2, 2, 100000));
  EXPECT_EQ(third.Weights(0), Values{-111111});
}

TEST_F(JournaledQuorum, AnEntryThatDoesNotFitIsAnError) {
  Start();
  JournalEntry entry;
  entry.head.set_close(1);
  const absl::Status replayed = shard_.core().Replay(entry);
  EXPECT_EQ(replayed.code(), absl::StatusCode::kDataLoss) << replayed;
}

}  // namespace
}  // namespace psgd
