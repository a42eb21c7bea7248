// A shard absorbs sound pushes, refuses others, and counts each acknowledged push once.
#include <cmath>
#include <limits>

#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ShardPush, IsAppliedOnceHoweverOftenItComes) {
  ShardFixture shard({.staleness = 4});
  shard.Start(1);
  const Message push = ShardFixture::PushOf(0, 1, 1, {{0, {1, 2, 3, 4}}, {1, {5, 6, 7, 8}}});
  EXPECT_EQ(shard.Acknowledged(push), 2u);
  EXPECT_EQ(shard.Acknowledged(push), 2u);
  EXPECT_EQ(shard.Acknowledged(push), 2u);
  EXPECT_EQ(shard.Weights(0), (Values{-1, -2, -3, -4}));
  EXPECT_EQ(shard.Weights(1), (Values{-5, -6, -7, -8}));
  EXPECT_EQ(shard.core().stats().pushes, 1u);
  EXPECT_EQ(shard.core().stats().duplicates, 2u);
}

// Checking a payload reads all of it, so at staleness 0 a second check, when the clock is complete,
// would cost as much as the first.
TEST(ShardPush, IsCheckedOnce) {
  ShardFixture shard({.staleness = 0});
  shard.Start(2);
  std::vector<float> values = {1, 2, 3, 4};
  Message first = ShardFixture::PushOf(0, 1, 1, {{0, {0, 0, 0, 0}}});
  first.payloads[0] = Bytes::Unowned(AsBytes(values));
  shard.Acknowledged(std::move(first));
  values[3] = 2 * kLargestUpdate;  // a check would refuse this
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {1, 1, 1, 0}}}));
  EXPECT_EQ(shard.Weights(0), (Values{-2, -3, -4, -2 * kLargestUpdate}));
}

TEST(ShardPush, AGapIsRefusedWithTheNumberExpected) {
  ShardFixture shard({.staleness = 4});
  shard.Start(1);
  const Refusal refusal = shard.Refused(ShardFixture::PushOf(0, 3, 1, {{0, {1, 1, 1, 1}}}));
  EXPECT_EQ(refusal.reason(), Refusal::OUT_OF_ORDER);
  EXPECT_EQ(refusal.next_seq(), 1u);
  EXPECT_EQ(shard.Weights(0), (Values{0, 0, 0, 0}));
  // The refusal used up no number.
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}})), 2u);
}

struct BadPush {
  const char* name;
  void (*spoil)(Message*);
  Refusal::Reason reason;
  const char* detail;
};

class BadPushes : public testing::TestWithParam<BadPush> {};

// Every damaged push is refused and counted. It uses up its number and clock but changes no weight,
// and the next push counts.
TEST_P(BadPushes, ChangeNothingAndStopNobody) {
  for (const int64_t staleness : {int64_t{0}, int64_t{4}}) {
    ShardFixture shard({.staleness = staleness});
    shard.Start(1);
    Message push = ShardFixture::PushOf(0, 1, 1, {{0, {1, 2, 3, 4}}, {1, {5, 6, 7, 8}}});
    GetParam().spoil(&push);
    const Refusal refusal = shard.Refused(push);
    EXPECT_EQ(refusal.reason(), GetParam().reason);
    EXPECT_EQ(refusal.next_seq(), 2u);
    EXPECT_THAT(refusal.detail(), HasSubstr(GetParam().detail));
    EXPECT_EQ(shard.Weights(0), (Values{0, 0, 0, 0}));
    EXPECT_EQ(shard.Weights(1), (Values{0, 0, 0, 0}));
    EXPECT_EQ(shard.core().stats().pushes, 0u);
    EXPECT_EQ(shard.core().SlowestClock(), 1u);
    EXPECT_EQ(shard.core().stats().refused.size(), 1u);
    EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(0, 2, 2, {{0, {1, 1, 1, 1}}})), 3u);
    EXPECT_EQ(shard.Weights(0), (Values{-1, -1, -1, -1}));
    // The same push again is a repetition.
    EXPECT_EQ(shard.Acknowledged(push), 3u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    ShardPush, BadPushes,
    testing::Values(
        BadPush{"Short",
                [](Message* m) {
                  m->payloads[0] = BytesOf({1, 2, 3});
                },
                Refusal::MALFORMED, "slice 0"},
        BadPush{"Long",
                [](Message* m) {
                  m->payloads[1] = BytesOf({1, 2, 3, 4, 5});
                },
                Refusal::MALFORMED, "slice 1"},
        BadPush{"Empty", [](Message* m) { m->payloads[1] = Bytes(); }, Refusal::MALFORMED,
                "slice 1"},
        BadPush{"MissingPayload", [](Message* m) { m->payloads.pop_back(); }, Refusal::MALFORMED,
                "parts of 2 payloads, but 1 came"},
        BadPush{"MissingPart",
                [](Message* m) { m->header.mutable_push()->mutable_parts()->RemoveLast(); },
                Refusal::MALFORMED, "parts of 1 payloads, but 2 came"},
        BadPush{"UnknownSlice",
                [](Message* m) { m->header.mutable_push()->mutable_parts(1)->set_slice(9); },
                Refusal::MALFORMED, "slice 9 is not on shard 0"},
        BadPush{
            "HugeSlice",
            [](Message* m) { m->header.mutable_push()->mutable_parts(1)->set_slice(UINT32_MAX); },
            Refusal::MALFORMED, "is not on shard"},
        BadPush{"SliceTwice",
                [](Message* m) { m->header.mutable_push()->mutable_parts(1)->set_slice(0); },
                Refusal::MALFORMED, "slice 0 twice in clock 1"},
        BadPush{"UnknownCodec",
                [](Message* m) {
                  m->header.mutable_push()->mutable_parts(0)->set_codec(static_cast<CodecId>(99));
                },
                Refusal::MALFORMED, "unknown codec 99"},
        BadPush{"NegativeCodec",
                [](Message* m) {
                  m->header.mutable_push()->mutable_parts(0)->set_codec(static_cast<CodecId>(-1));
                },
                Refusal::MALFORMED, "unknown codec"},
        BadPush{"FutureVersion",
                [](Message* m) { m->header.mutable_push()->mutable_parts(0)->set_base_version(7); },
                Refusal::MALFORMED, "has no version 7"},
        BadPush{"NaN",
                [](Message* m) {
                  m->payloads[1] = BytesOf({1, 2, kNaN, 4});
                },
                Refusal::NON_FINITE, "slice 1"},
        BadPush{"Infinity",
                [](Message* m) {
                  m->payloads[0] = BytesOf({1, -kInfinity, 3, 4});
                },
                Refusal::NON_FINITE, "slice 0"},
        BadPush{"Huge",
                [](Message* m) {
                  m->payloads[1] = BytesOf({1, 2, -2e15f, 4});
                },
                Refusal::NON_FINITE, "values up to 2e+15, beyond 1e+15"}),
    [](const auto& info) { return info.param.name; });

// A worker has seen version 1 of a slice, and the shard came back with version 0. Another worker's
// push makes a version 1 again.
TEST(ShardPush, AnUpdateFromWeightsThatACrashTookBackIsRefused) {
  ShardFixture shard({.staleness = -1, .journal = true});
  shard.Start(2);
  shard.core().BeginLife(2);
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {1, 1, 1, 1}}}));
  shard.core().TakeJournal();
  Message push = ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}});
  PushPart* part = push.header.mutable_push()->mutable_parts(0);
  part->set_base_version(1);
  part->set_base_life(1);
  const Refusal refusal = shard.Refused(push);
  EXPECT_EQ(refusal.reason(), Refusal::LOST);
  EXPECT_EQ(refusal.next_seq(), 1u) << "it did not count";
  EXPECT_EQ(refusal.detail(),
            "slice 0 came back with version 0, and the update is computed from version 1 before "
            "that");
  EXPECT_TRUE(shard.core().TakeJournal().empty());
  part->set_base_life(2);
  shard.Acknowledged(push);
}

// A copy that led, and does not know yet that another one does, must not say that pushes are lost.
TEST(ShardPush, AnUpdateFromWeightsOfALaterLifeIsNotAnswered) {
  ShardFixture shard({.staleness = -1, .journal = true});
  shard.Start(2);
  shard.core().BeginLife(2);
  shard.core().TakeJournal();
  Message push = ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}});
  PushPart* part = push.header.mutable_push()->mutable_parts(0);
  part->set_base_version(1);
  part->set_base_life(3);
  EXPECT_TRUE(shard.Send(push).empty());
  EXPECT_TRUE(shard.core().TakeJournal().empty());
}

// Such a worker would send a refused push again for ever.
TEST(ShardPush, AnUpdateOfAWorkerThatNamesNoLifeIsTaken) {
  ShardFixture shard({.staleness = -1});
  shard.Start(2);
  shard.core().BeginLife(2);
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {1, 1, 1, 1}}}));
  Message push = ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}});
  push.header.mutable_push()->mutable_parts(0)->set_base_version(1);
  shard.Acknowledged(push);
}

// Also one that led before.
TEST(ShardPush, ACopyThatFollowsTakesUpdatesFromWeightsOfEveryLife) {
  ShardFixture leads({.staleness = -1, .journal = true});
  leads.Start(2);
  leads.core().BeginLife(3);
  leads.core().TakeJournal();
  leads.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {1, 1, 1, 1}}}));
  Message push = ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}});
  PushPart* part = push.header.mutable_push()->mutable_parts(0);
  part->set_base_version(1);
  part->set_base_life(3);
  leads.Acknowledged(push);
  ShardFixture follows({.staleness = -1, .journal = true});
  follows.Start(2);
  follows.core().BeginLife(2);
  for (const JournalEntry& entry : leads.core().TakeJournal()) {
    const absl::Status replayed = follows.core().Replay(entry);
    EXPECT_TRUE(replayed.ok()) << replayed;
  }
}

// A bad push. Its clock is also its number.
Message Poison(uint64_t clock) {
  return ShardFixture::PushOf(0, clock, clock, {{0, {kNaN, 1, 1, 1}}});
}
Message Sound(uint64_t clock) { return ShardFixture::PushOf(0, clock, clock, {{0, {1, 1, 1, 1}}}); }

TEST(ShardPush, AWorkerThatSendsOnlyPoisonIsHeardNoMore) {
  Config config;
  config.mutable_cluster()->set_quarantine(3);
  ShardFixture shard({.staleness = -1}, config);
  shard.Start(2);
  for (uint64_t clock : {1, 2}) shard.Refused(Poison(clock));
  shard.Acknowledged(Sound(3));  // a sound push restarts the count
  for (uint64_t clock : {4, 5}) shard.Refused(Poison(clock));
  EXPECT_TRUE(shard.core().TakeQuarantined().empty());
  EXPECT_EQ(shard.Refused(Poison(6)).reason(), Refusal::NON_FINITE);
  const auto out = shard.core().TakeQuarantined();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].key.worker(), 0u);
  EXPECT_EQ(out[0].key.incarnation(), 1u);
  EXPECT_THAT(out[0].why, testing::HasSubstr("3 of its pushes to shard 0 were refused"));
  EXPECT_TRUE(shard.core().TakeQuarantined().empty());

  const Refusal fenced = shard.Refused(Sound(7));
  EXPECT_EQ(fenced.reason(), Refusal::FENCED);
  EXPECT_THAT(fenced.detail(), testing::HasSubstr("worker 0 is in quarantine: 3 of its pushes"));
  EXPECT_EQ(shard.Weights(0), (Values{-1, -1, -1, -1}));
  // The others are heard, and so is a worker that joins anew in its place.
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {1, 1, 1, 1}}}));
  shard.Admit(0, 2);
  shard.Begin(10, 10, {0, 1});
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 11, {{0, {1, 1, 1, 1}}}, true, 2));
}

// For example, a machine spoils one tensor of several, or a worker pushes nothing in between.
TEST(ShardPush, OneSoundMessageOfAClockDoesNotMakeUpForABadOne) {
  Config config;
  config.mutable_cluster()->set_quarantine(3);
  ShardFixture shard({.staleness = -1}, config);
  shard.Start(2);
  uint64_t seq = 0;
  const auto clock_with_one_bad = [&](uint64_t clock) {
    shard.Refused(ShardFixture::PushOf(0, ++seq, clock, {{0, {NAN, 0, 0, 0}}}, false));
    shard.Acknowledged(ShardFixture::PushOf(0, ++seq, clock, {{1, {1, 1, 1, 1}}}, true));
  };
  clock_with_one_bad(1);
  shard.Acknowledged(
      ShardFixture::PushOf(0, ++seq, 2, {{0, {1, 1, 1, 1}}}, true));  // restarts the count
  clock_with_one_bad(3);
  shard.Acknowledged(ShardFixture::PushOf(0, ++seq, 4, {}, true));
  clock_with_one_bad(5);
  EXPECT_TRUE(shard.core().TakeQuarantined().empty());
  shard.Refused(ShardFixture::PushOf(0, ++seq, 6, {{0, {NAN, 0, 0, 0}}}, true));
  EXPECT_EQ(shard.core().TakeQuarantined().size(), 1u);
}

TEST(ShardPush, NoQuarantineWhereItIsOff) {
  Config config;
  config.mutable_cluster()->set_quarantine(0);
  ShardFixture shard({.staleness = -1}, config);
  shard.Start(1);
  for (uint64_t clock = 1; clock <= 500; ++clock) shard.Refused(Poison(clock));
  EXPECT_TRUE(shard.core().TakeQuarantined().empty());
  shard.Acknowledged(Sound(501));
}

TEST(ShardPush, AWrongClockIsRefusedAndMovesNoClock) {
  ShardFixture shard({.staleness = 4});
  shard.Start(1);
  const Refusal early = shard.Refused(ShardFixture::PushOf(0, 1, 2, {{0, {1, 1, 1, 1}}}));
  EXPECT_EQ(early.reason(), Refusal::MALFORMED);
  EXPECT_THAT(early.detail(), HasSubstr("a push for clock 2 where 1 is due"));
  EXPECT_EQ(shard.core().SlowestClock(), 0u);
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(0, 2, 1, {{0, {1, 1, 1, 1}}})), 3u);
  EXPECT_EQ(shard.Refused(ShardFixture::PushOf(0, 3, 1, {})).reason(), Refusal::MALFORMED);
  EXPECT_EQ(shard.core().SlowestClock(), 1u);
  EXPECT_EQ(shard.Weights(0), (Values{-1, -1, -1, -1}));
}

TEST(ShardPush, ASliceTwiceInOneClockIsRefusedAcrossMessages) {
  ShardFixture shard({.staleness = 4});
  shard.Start(1);
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}, false)), 2u);
  EXPECT_EQ(shard.Refused(ShardFixture::PushOf(0, 2, 1, {{0, {1, 1, 1, 1}}}, false)).reason(),
            Refusal::MALFORMED);
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(0, 3, 1, {{1, {1, 1, 1, 1}}}, true)), 4u);
  EXPECT_EQ(shard.Weights(0), (Values{-1, -1, -1, -1}));
  EXPECT_EQ(shard.Weights(1), (Values{-1, -1, -1, -1}));
  EXPECT_EQ(shard.core().SlowestClock(), 1u);
}

TEST(ShardPush, BeforeASegmentIsRefused) {
  ShardFixture shard({.staleness = 4});
  shard.Install();
  shard.Admit(0);
  EXPECT_THAT(shard.Refused(ShardFixture::PushOf(0, 1, 1, {})).detail(), HasSubstr("no segment"));
}

TEST(ShardPush, OnlyTheIncarnationThatIsInMaySpeak) {
  ShardFixture shard({.staleness = 4});
  shard.Start(2);
  const Message push = ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}});
  // An unknown worker, and an unknown incarnation.
  EXPECT_EQ(shard.Refused(ShardFixture::PushOf(7, 1, 1, {})).reason(), Refusal::UNKNOWN_WORKER);
  EXPECT_EQ(shard.Refused(ShardFixture::PushOf(0, 1, 1, {}, true, 2)).reason(),
            Refusal::UNKNOWN_WORKER);
  // The worker is out.
  shard.Remove(0);
  EXPECT_EQ(shard.Refused(push).reason(), Refusal::FENCED);
  // The worker is replaced: the old incarnation stays out, the new incarnation starts its own
  // numbers.
  shard.Admit(0, 2);
  shard.Begin(1000, 1000, {0, 1});
  EXPECT_EQ(shard.Refused(push).reason(), Refusal::FENCED);
  EXPECT_EQ(shard.Refused(ShardFixture::PullOf(0, 1, 0)).reason(), Refusal::FENCED);
  EXPECT_EQ(shard.Weights(0), (Values{0, 0, 0, 0}));
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(0, 1, 1001, {{0, {2, 2, 2, 2}}}, true, 2)), 2u);
  EXPECT_EQ(shard.Weights(0), (Values{-2, -2, -2, -2}));
  // Late news of the old incarnation's death does not hurt the new incarnation.
  shard.Remove(0, 1);
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(0, 2, 1002, {}, true, 2)), 3u);
}

TEST(ShardPush, AnotherShardsMessagesAndNoModelAreRefused) {
  ShardFixture shard({.staleness = 4});
  shard.Admit(0);
  EXPECT_EQ(shard.Refused(ShardFixture::PullOf(0, 1, 0)).reason(), Refusal::NOT_READY);
  shard.Start(1);
  Message other = ShardFixture::PullOf(0, 1, 0);
  other.header.set_shard(3);
  EXPECT_THAT(shard.Refused(other).detail(), HasSubstr("this is shard 0, not 3"));
  Message answer = ShardFixture::Header(0);
  answer.header.mutable_push_ack()->set_next_seq(5);
  EXPECT_EQ(shard.Refused(answer).reason(), Refusal::MALFORMED);
  EXPECT_EQ(shard.Refused(ShardFixture::Header(0)).reason(), Refusal::MALFORMED);
}

TEST(ShardPush, AGreetingTellsWhatIsAbsorbed) {
  ShardFixture shard({.staleness = 4});
  shard.Start(1);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {}));
  Message hello = ShardFixture::Header(0);
  hello.header.mutable_hello()->set_probe(7);
  hello.payloads.push_back(BytesOf({1, 2, 3}));
  const auto out = shard.Send(hello);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message.header.welcome().next_seq(), 2u);
  EXPECT_EQ(out[0].message.header.welcome().clock(), 1u);
  EXPECT_EQ(out[0].message.header.welcome().probe(), 7u);
}

TEST(ShardPush, AFailedInstallLeavesNoModel) {
  ShardFixture shard({.staleness = 4});
  shard.Admit(0);
  InstallModel wrong = shard.install();
  auto checkpoint = std::make_shared<LoadedCheckpoint>();  // has no parameters
  wrong.checkpoint = checkpoint;
  EXPECT_FALSE(shard.Execute(wrong).ok());
  EXPECT_EQ(shard.Refused(ShardFixture::PullOf(0, 1, 0)).reason(), Refusal::NOT_READY);
  EXPECT_EQ(shard.core().slices(), 0u);
}

TEST(ShardPush, StalenessOfAPushIsCountedInVersions) {
  ShardFixture shard({.staleness = -1});
  shard.Start(2);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
  shard.Acknowledged(ShardFixture::PushOf(0, 2, 2, {{0, {1, 1, 1, 1}}}));
  Message late = ShardFixture::PushOf(1, 1, 1, {{0, {1, 1, 1, 1}}});
  shard.Acknowledged(late);
  EXPECT_EQ(shard.core().stats().push_staleness.max(), 2u);
  EXPECT_EQ(shard.core().FastestClock(), 2u);
  EXPECT_EQ(shard.core().SlowestClock(), 1u);
}

}  // namespace
}  // namespace psgd
