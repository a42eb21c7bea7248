// Pulls: the staleness gate, replies in pieces, copy-on-write.
#include "net/wire_format.h"
#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

TEST(ShardPull, WaitsWhileItsWorkerIsTooFarAhead) {
  ShardFixture shard({.staleness = 2});
  shard.Start(2);
  for (uint64_t clock = 1; clock <= 3; ++clock) {
    EXPECT_EQ(shard.Send(ShardFixture::PullOf(0, clock, clock - 1)).size(), 1u) << clock;
    shard.Acknowledged(ShardFixture::PushOf(0, clock, clock, {{0, {1, 1, 1, 1}}}));
  }
  EXPECT_TRUE(shard.Send(ShardFixture::PullOf(0, 4, 3)).empty());
  // Half of a clock moves nothing.
  EXPECT_EQ(shard.Send(ShardFixture::PushOf(1, 1, 1, {{0, {1, 1, 1, 1}}}, false)).size(), 1u);
  const auto out = shard.Send(ShardFixture::PushOf(1, 2, 1, {}));
  ASSERT_EQ(out.size(), 2u);
  const PullReply& reply = out[1].message.header.pull_reply();
  EXPECT_EQ(reply.request(), 4u);
  EXPECT_EQ(reply.slowest_clock(), 1u);
  EXPECT_EQ(shard.core().stats().pull_staleness.max(), 2u);
}

TEST(ShardPull, UnboundedNeverWaits) {
  ShardFixture shard({.staleness = -1});
  shard.Start(2);
  EXPECT_EQ(shard.Send(ShardFixture::PullOf(0, 1, 1000)).size(), 1u);
}

TEST(ShardPull, ARepeatedRequestIsAnsweredOnce) {
  ShardFixture shard({.staleness = 0});
  shard.Start(2);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {}));
  EXPECT_TRUE(shard.Send(ShardFixture::PullOf(0, 2, 1)).empty());
  EXPECT_TRUE(shard.Send(ShardFixture::PullOf(0, 2, 1)).empty());
  EXPECT_EQ(shard.core().waiting_pulls(), 1u);
  EXPECT_EQ(shard.Send(ShardFixture::PushOf(1, 1, 1, {})).size(), 2u);
}

TEST(ShardPull, AnOlderRequestThatComesLateDoesNotReplaceANewerOne) {
  ShardFixture shard({.staleness = 0});
  shard.Start(2);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {}));
  EXPECT_TRUE(shard.Send(ShardFixture::PullOf(0, 2, 1)).empty());
  EXPECT_TRUE(shard.Send(ShardFixture::PullOf(0, 1, 0)).empty());
  const auto out = shard.Send(ShardFixture::PushOf(1, 1, 1, {}));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].message.header.pull_reply().request(), 2u);
}

TEST(ShardPull, OfAWorkerThatLeavesIsForgotten) {
  ShardFixture shard({.staleness = 0});
  shard.Start(2);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {}));
  EXPECT_TRUE(shard.Send(ShardFixture::PullOf(0, 1, 1)).empty());
  shard.Remove(0);
  EXPECT_EQ(shard.core().waiting_pulls(), 0u);
  EXPECT_EQ(shard.Send(ShardFixture::PushOf(1, 1, 1, {})).size(), 1u);
}

TEST(ShardPull, ALargeReplyComesInPiecesThatAddUp) {
  for (const size_t reply_bytes : {size_t{1}, size_t{40}, size_t{1} << 20}) {
    ShardFixture shard({.staleness = 4, .elements = {4, 8, 2, 6, 1}, .reply_bytes = reply_bytes});
    shard.Start(1);
    const auto out = shard.Send(ShardFixture::PullOf(0, 9, 0));
    std::vector<uint32_t> slices;
    for (size_t i = 0; i < out.size(); ++i) {
      const PullReply& reply = out[i].message.header.pull_reply();
      EXPECT_EQ(reply.request(), 9u);
      ASSERT_EQ(static_cast<size_t>(reply.parts_size()), out[i].message.payloads.size());
      ASSERT_GT(reply.parts_size(), 0);
      for (const PullPart& part : reply.parts()) slices.push_back(part.slice());
      EXPECT_EQ(reply.last(), i + 1 == out.size());
      EXPECT_EQ(reply.remaining(), 5 - slices.size());
      if (reply.parts_size() > 1) {
        EXPECT_LE(out[i].message.PayloadBytes(), reply_bytes);
      }
    }
    EXPECT_EQ(slices, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(out.size(), reply_bytes == 1 ? 5u : reply_bytes == 40 ? 3u : 1u);
  }
}

// A step begins with the front layers while the others still travel.
TEST(ShardPull, ASmallNetworkComesInSeveralMessages) {
  ShardFixture shard({.staleness = 4, .elements = std::vector<uint32_t>(8, 32u << 10)});
  shard.Start(1);
  EXPECT_EQ(shard.Send(ShardFixture::PullOf(0, 9, 0)).size(), 4u);
}

TEST(ShardPull, ManySmallSlicesComeInMessagesThatTheFormatAllows) {
  constexpr size_t kSlices = 70000;
  static_assert(kSlices > kMaxPayloads);
  ShardFixture shard({.staleness = 4, .elements = std::vector<uint32_t>(kSlices, 1)});
  shard.Start(1);
  size_t slices = 0;
  for (const auto& [to, message] : shard.Send(ShardFixture::PullOf(0, 9, 0))) {
    EXPECT_TRUE(EncodedSize(message, SIZE_MAX).ok());
    slices += message.payloads.size();
    EXPECT_EQ(message.header.pull_reply().remaining(), kSlices - slices);
  }
  EXPECT_EQ(slices, kSlices);
}

TEST(ShardPull, SomeSlicesOnly) {
  ShardFixture shard({.staleness = 4, .elements = {4, 8, 2}});
  shard.Start(1);
  Message pull = ShardFixture::PullOf(0, 1, 0);
  pull.header.mutable_pull()->add_slices(2);
  pull.header.mutable_pull()->add_slices(0);
  const auto out = shard.Send(pull);
  ASSERT_EQ(out.size(), 1u);
  ASSERT_EQ(out[0].message.header.pull_reply().parts_size(), 2);
  EXPECT_EQ(out[0].message.header.pull_reply().parts(0).slice(), 0u);  // front layers first
  EXPECT_EQ(out[0].message.payloads[1].size(), 8u);

  pull.header.mutable_pull()->set_slices(0, 77);
  const Refusal unknown = shard.Refused(pull);
  EXPECT_EQ(unknown.reason(), Refusal::MALFORMED);
  EXPECT_EQ(unknown.request(), 1u);
  for (int i = 0; i < 5; ++i) pull.header.mutable_pull()->add_slices(0);
  EXPECT_EQ(shard.Refused(pull).reason(), Refusal::MALFORMED);
}

TEST(ShardPull, WhatWasSentOutNeverChanges) {
  ShardFixture shard({.staleness = 4});
  shard.Start(1);
  const auto before = shard.Send(ShardFixture::PullOf(0, 1, 0));
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 2, 3, 4}}}));
  EXPECT_EQ(Floats(before[0].message.payloads[0])[3], 0);
  EXPECT_EQ(shard.Weights(0)[3], -4);
  const auto after = shard.Send(ShardFixture::PullOf(0, 2, 1));
  EXPECT_EQ(after[0].message.header.pull_reply().parts(0).version(), 1u);
  EXPECT_EQ(after[0].message.header.pull_reply().parts(1).version(), 0u);
}

TEST(ShardPull, WeightsTravelInThePullCodec) {
  Config config;
  config.mutable_compression()->mutable_pull()->mutable_fp16();
  ShardFixture shard({.staleness = 4}, config);
  shard.Start(1);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, -0.5f, 1024, 3}}}));
  const auto out = shard.Send(ShardFixture::PullOf(0, 1, 1));
  const PullPart& part = out[0].message.header.pull_reply().parts(0);
  ASSERT_EQ(part.codec(), CODEC_FP16);
  EXPECT_EQ(out[0].message.payloads[0].size(), 8u);
  const CodecTable codecs;
  SliceShape shape;
  shape.elements = 4;
  auto reader = codecs.Find(CODEC_FP16)->Open(out[0].message.payloads[0].span(), shape);
  ASSERT_TRUE(reader.ok());
  Values decoded(4);
  (*reader)->AddBlock(1, decoded);
  EXPECT_EQ(decoded, (Values{-1, 0.5f, -1024, -3}));
  // Weights are encoded once for each version.
  EXPECT_EQ(shard.Send(ShardFixture::PullOf(0, 2, 1))[0].message.payloads[0].data(),
            out[0].message.payloads[0].data());
  shard.Acknowledged(ShardFixture::PushOf(0, 2, 2, {{0, {1, 1, 1, 1}}}));
  EXPECT_NE(shard.Send(ShardFixture::PullOf(0, 3, 2))[0].message.payloads[0].data(),
            out[0].message.payloads[0].data());
}

std::vector<uint32_t> SlicesOf(const Message& message) {
  std::vector<uint32_t> slices;
  for (const PullPart& part : message.header.pull_reply().parts()) slices.push_back(part.slice());
  return slices;
}

TEST(ShardPull, AtStaleness0ASliceLeavesOnceEveryWorkerHasPushedIt) {
  ShardFixture shard({.staleness = 0, .elements = {1, 1, 1}});
  shard.Start(2);
  EXPECT_TRUE(shard.Send(ShardFixture::PullOf(0, 1, 1)).empty());
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{2, {1}}, {1, {1}}}, false));
  EXPECT_EQ(shard.Weights(2), Values{0});
  auto out = shard.Send(ShardFixture::PushOf(1, 1, 1, {{2, {2}}}, false));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(SlicesOf(out[1].message), std::vector<uint32_t>{2});
  EXPECT_EQ(Floats(out[1].message.payloads[0])[0], -3);
  EXPECT_FALSE(out[1].message.header.pull_reply().last());
  EXPECT_EQ(out[1].message.header.pull_reply().remaining(), 2u);
  EXPECT_EQ(out[1].message.header.pull_reply().slowest_clock(), 1u);  // as the slice's weights
  EXPECT_EQ(shard.core().SlowestClock(), 0u);

  // A pull that comes now gets it at once. A repeated pull names what did not come.
  out = shard.Send(ShardFixture::PullOf(1, 1, 1));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(SlicesOf(out[0].message), std::vector<uint32_t>{2});
  Message again = ShardFixture::PullOf(0, 1, 1);
  again.header.mutable_pull()->add_slices(0);
  again.header.mutable_pull()->add_slices(1);
  EXPECT_TRUE(shard.Send(again).empty());

  shard.Acknowledged(ShardFixture::PushOf(0, 2, 1, {{0, {1}}}));
  EXPECT_EQ(shard.Weights(0), Values{0});
  out = shard.Send(ShardFixture::PushOf(1, 2, 1, {{1, {2}}, {0, {2}}}));
  ASSERT_EQ(out.size(), 3u);
  for (const Outgoing& reply : {out[1], out[2]}) {
    EXPECT_EQ(SlicesOf(reply.message), (std::vector<uint32_t>{0, 1}));
    EXPECT_TRUE(reply.message.header.pull_reply().last());
  }
  EXPECT_EQ(shard.core().held_bytes(), 0u);
}

TEST(ShardPull, ASliceThatAWorkerDoesNotPushWaitsForTheClock) {
  ShardFixture shard({.staleness = 0, .elements = {1, 1}});
  shard.Start(2);
  EXPECT_TRUE(shard.Send(ShardFixture::PullOf(0, 1, 1)).empty());
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1}}, {1, {1}}}));
  const auto out = shard.Send(ShardFixture::PushOf(1, 1, 1, {{1, {2}}}));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(SlicesOf(out[1].message), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(shard.Weights(0), Values{-1});
}

TEST(ShardPull, ADeadWorkersPushDoesNotStandInForALivingWorkers) {
  ShardFixture shard({.staleness = 0, .elements = {1, 1}});
  shard.Start(3);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1}}}, false));
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {2}}}, false));
  shard.Remove(1);
  EXPECT_EQ(shard.Weights(0), Values{0});
  shard.Acknowledged(ShardFixture::PushOf(2, 1, 1, {{0, {4}}}, false));
  EXPECT_EQ(shard.Weights(0), Values{-7});  // what was acknowledged counts
}

TEST(ShardPull, AnImageHasWhatWaitsBesideSlicesThatAreAhead) {
  const FixtureOptions options = {.staleness = 0, .elements = {1, 1, 1}};
  ShardFixture shard(options);
  shard.Start(2);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1}}, {1, {1}}, {2, {1}}}));
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{1, {2}}}, false));
  ASSERT_EQ(shard.Weights(1), Values{-3});

  ShardFixture again(options);
  ASSERT_TRUE(again.core().Restore(shard.core().MakeImage()).ok());
  EXPECT_EQ(again.core().held_bytes(), shard.core().held_bytes());
  // This life does not know what is ahead, so it sends nothing before the clock is whole.
  EXPECT_TRUE(again.Send(ShardFixture::PullOf(0, 1, 1)).empty());
  for (ShardFixture* one : {&shard, &again}) {
    one->Send(ShardFixture::PushOf(1, 2, 1, {{0, {2}}, {2, {2}}}));
    EXPECT_EQ(one->core().SlowestClock(), 1u);
    for (uint32_t slice = 0; slice < 3; ++slice) EXPECT_EQ(one->Weights(slice), Values{-3});
  }
}

}  // namespace
}  // namespace psgd
