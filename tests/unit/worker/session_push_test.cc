// Tests order, window, acknowledgement and refusals.
#include "net/wire_format.h"
#include "tests/unit/worker/session_fixture.h"

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(SessionTest, SmallPartsShareAMessageFrontLayersFirst) {
  PushAll(1);
  const auto sent = Drain();
  ASSERT_EQ(sent.size(), 2u);
  for (const auto& [shard, message] : sent) {
    EXPECT_EQ(Slices(message),
              shard == 0 ? (std::vector<uint32_t>{0, 2, 4}) : (std::vector<uint32_t>{1, 3}));
    EXPECT_EQ(message.header.worker(), 3u);
    EXPECT_EQ(message.header.incarnation(), 2u);
    EXPECT_EQ(message.header.shard(), shard);
    EXPECT_EQ(message.header.push().seq(), 1u);
    EXPECT_EQ(message.header.push().clock(), 1u);
    EXPECT_TRUE(message.header.push().end_of_clock());
    EXPECT_EQ(message.payloads.size(), Slices(message).size());
  }
}

TEST_F(SessionTest, LargePartsTravelAlone) {
  Make(1 << 20, 100);
  PushAll(1, 80);
  const auto sent = DrainTo(0);
  // Two slices of 80 bytes reach the fuse, so each gets its own message. The third ends the clock.
  ASSERT_EQ(sent.size(), 3u);
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].header.push().seq(), i + 1);
    EXPECT_EQ(sent[i].payloads.size(), 1u);
    EXPECT_EQ(sent[i].header.push().end_of_clock(), i == 2);
  }
}

TEST_F(SessionTest, MorePartsThanAMessageMayHaveAreCut) {
  Make(1 << 20, 1 << 20, 2 * kMostParts + 2);
  for (uint32_t id = 0; id <= 2u * kMostParts; id += 2) {
    core_->Push(1, {id, CODEC_NONE, Bytes()}, now_);
  }
  core_->EndClock(1, now_);
  const auto sent = DrainTo(0);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].header.push().parts_size(), kMostParts);
  EXPECT_FALSE(sent[0].header.push().end_of_clock());
  EXPECT_EQ(sent[1].header.push().parts_size(), 1);
  EXPECT_TRUE(sent[1].header.push().end_of_clock());
}

TEST_F(SessionTest, MarksThatNoMessageHoldsStayAway) {
  for (const int slices : {1000, 500'000}) {
    Make(1 << 20, 1 << 20, slices);
    core_->Pull(0, now_);
    Drain();
    for (const uint32_t shard : {0, 1}) {
      Message message = From(shard);
      message.header.mutable_pull_reply()->set_request(1);
      for (uint32_t id = shard; id < static_cast<uint32_t>(slices); id += 2) {
        PullPart* const part = message.header.mutable_pull_reply()->add_parts();
        part->set_slice(id);
        part->set_mark(UINT64_MAX);
        message.payloads.push_back(Payload(4));
      }
      core_->OnMessage(shard, message, now_);
    }
    ASSERT_FALSE(core_->pulling());
    core_->TakePulled();
    core_->Pull(1, now_);
    for (const auto& [to, message] : Drain()) {
      EXPECT_TRUE(EncodedSize(message, SIZE_MAX).ok());
      EXPECT_EQ(message.header.pull().marks_size(), slices == 1000 ? 500 : 0);
    }
  }
}

TEST_F(SessionTest, NamesTheSlicesOfAStepThatMayNotHaveComeIn) {
  PushAll(1);
  PushAll(2);
  Drain();
  Ack(0, 2);
  EXPECT_THAT(core_->SlicesInDoubt(1), ElementsAre(1, 3));
  EXPECT_THAT(core_->SlicesInDoubt(2), ElementsAre(0, 2, 4, 1, 3));
  Ack(0, 3);
  Ack(1, 3);
  EXPECT_TRUE(core_->SlicesInDoubt(2).empty());
}

TEST_F(SessionTest, SlicesMayShareAPayload) {
  core_->Pull(0, now_);
  Drain();
  Weights(0, 1, {0, 2, 4}, 0, 7);
  Weights(1, 1, {1, 3}, 0, 8);
  ASSERT_FALSE(core_->pulling());
  core_->TakePulled();
  core_->Push(1, {2, CODEC_FACTORS, Payload(100), {4}}, now_);
  core_->Push(1, {0, CODEC_NONE, Payload(16)}, now_);
  core_->EndClock(1, now_);
  const auto sent = DrainTo(0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].payloads.size(), 2u);
  EXPECT_THAT(Slices(sent[0]), ElementsAre(0, 2, 4));
  const auto& parts = sent[0].header.push().parts();
  EXPECT_FALSE(parts[0].with_previous());
  EXPECT_FALSE(parts[1].with_previous());
  EXPECT_TRUE(parts[2].with_previous());
  EXPECT_EQ(parts[2].codec(), CODEC_FACTORS);
  EXPECT_EQ(parts[2].base_version(), 7u);
}

// A front layer's gradient is made last, and its weights are needed first.
TEST_F(SessionTest, FrontLayersOvertakeWhatWaitsForRoom) {
  Make(100, 10);
  std::vector<uint32_t> order;
  for (const uint32_t slice : {4, 2, 0}) {
    core_->Push(1, {slice, CODEC_NONE, Payload(60)}, now_);
    for (const Message& message : DrainTo(0)) order.push_back(Slices(message)[0]);
  }
  EXPECT_TRUE(core_->WaitsForRoom());
  for (uint64_t seq = 2; seq <= 3; ++seq) {
    Ack(0, seq);
    for (const Message& message : DrainTo(0)) order.push_back(Slices(message)[0]);
  }
  EXPECT_THAT(order, ElementsAre(4, 0, 2));
  EXPECT_FALSE(core_->WaitsForRoom());
}

// Small payloads share a message by their unpacked sizes, since a shard holds them unpacked.
TEST_F(SessionTest, WhatIsPackedTravelsAndIsCountedAsItIs) {
  Make(1u << 20, 100);
  core_->Push(1, {0, CODEC_NONE, Payload(80), {}, {4, Payload(10)}}, now_);
  core_->Push(1, {2, CODEC_FACTORS, Payload(60), {4}, {1, Payload(20)}}, now_);
  core_->EndClock(1, now_);
  const auto sent = DrainTo(0);
  ASSERT_EQ(sent.size(), 2u) << "80 and 60 bytes are more than 100";
  EXPECT_EQ(sent[0].PayloadBytes(), 10u);
  EXPECT_EQ(sent[0].header.push().parts(0).zstd(), 4u);
  EXPECT_FALSE(sent[0].header.push().end_of_clock());
  EXPECT_EQ(sent[1].PayloadBytes(), 20u);
  EXPECT_TRUE(sent[1].header.push().end_of_clock());
  ASSERT_THAT(Slices(sent[1]), ElementsAre(2, 4));
  EXPECT_EQ(sent[1].header.push().parts(0).zstd(), 1u);
  EXPECT_EQ(sent[1].header.push().parts(1).zstd(), 1u);
}

TEST_F(SessionTest, PulledSlicesMayShareAPayload) {
  core_->Pull(0, now_);
  Drain();
  Message message = From(0);
  PullReply* reply = message.header.mutable_pull_reply();
  reply->set_request(1);
  for (uint32_t slice : {0, 2, 4}) {
    PullPart* part = reply->add_parts();
    part->set_slice(slice);
    part->set_with_previous(slice == 4);
  }
  message.payloads = {Payload(16), Payload(32)};
  core_->OnMessage(0, message, now_);
  Weights(1, 1, {1, 3});
  ASSERT_FALSE(core_->pulling());
  const std::vector<PulledSlice> pulled = core_->TakePulled();
  EXPECT_EQ(pulled[0].payload.size(), 16u);
  EXPECT_EQ(pulled[2].payload.size(), 32u);
  EXPECT_EQ(pulled[4].payload.data(), pulled[2].payload.data());
}

// A reply with a part without a payload does not count; the worker asks again.
TEST_F(SessionTest, PartsWithoutAPayloadDoNotCount) {
  core_->Pull(0, now_);
  Drain();
  Message message = From(0);
  message.header.mutable_pull_reply()->set_request(1);
  PullPart* part = message.header.mutable_pull_reply()->add_parts();
  part->set_with_previous(true);
  message.payloads = {Payload(16)};
  core_->OnMessage(0, message, now_);
  Weights(1, 1, {1, 3});
  EXPECT_TRUE(core_->pulling());
  Weights(0, 1, {0, 2, 4});
  EXPECT_FALSE(core_->pulling());
}

TEST_F(SessionTest, TheWindowHoldsBackAndWhatWaitsIsSorted) {
  Make(150, 1);
  core_->Push(1, {4, CODEC_NONE, Payload(100)}, now_);
  EXPECT_EQ(DrainTo(0).size(), 1u);
  // One message may always be on its way. The next does not fit until the first is acknowledged.
  core_->Push(1, {2, CODEC_NONE, Payload(100)}, now_);
  EXPECT_EQ(DrainTo(0).size(), 0u);
  core_->Push(1, {0, CODEC_NONE, Payload(100)}, now_);
  core_->EndClock(1, now_);
  EXPECT_EQ(DrainTo(0).size(), 0u);
  EXPECT_FALSE(core_->AllAcknowledged());
  std::vector<uint32_t> order;
  for (uint64_t next = 2; !core_->AllAcknowledged() && next < 9; ++next) {
    Ack(0, next);
    Ack(1, next);
    for (const Message& message : DrainTo(0)) {
      for (uint32_t slice : Slices(message)) order.push_back(slice);
    }
  }
  EXPECT_TRUE(core_->AllAcknowledged());
  EXPECT_THAT(order, testing::UnorderedElementsAre(0, 2));
}

TEST_F(SessionTest, PartsThatGatherBehindAFullWindowLeaveFrontLayersFirst) {
  Make(64, 1);
  core_->Push(1, {4, CODEC_NONE, Payload(100)}, now_);
  EXPECT_EQ(DrainTo(0).size(), 1u);
  core_->Push(1, {2, CODEC_NONE, Payload(16)}, now_);
  core_->Push(1, {0, CODEC_NONE, Payload(16)}, now_);
  core_->EndClock(1, now_);
  Ack(0, 2);
  std::vector<uint32_t> order;
  for (uint64_t next = 3; next < 6; ++next) {
    for (const Message& message : DrainTo(0)) {
      for (uint32_t slice : Slices(message)) order.push_back(slice);
    }
    Ack(0, next);
  }
  EXPECT_THAT(order, ElementsAre(0, 2));
}

TEST_F(SessionTest, PushesGoBeforeThePullThatFollowsThem) {
  PushAll(1);
  core_->Pull(1, now_);
  const auto sent = DrainTo(0);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_TRUE(sent[0].header.has_push());
  ASSERT_TRUE(sent[1].header.has_pull());
  EXPECT_EQ(sent[1].header.pull().clock(), 1u);
  EXPECT_EQ(sent[1].header.pull().own_clock(), 1u);
  EXPECT_EQ(sent[1].header.pull().slices_size(), 0);
}

TEST_F(SessionTest, APullIsCompleteWhenEverySliceHasCome) {
  core_->Pull(4, now_);  // no step has ended yet
  const auto asked = DrainTo(0);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].header.pull().own_clock(), 0u);
  EXPECT_TRUE(core_->pulling());
  Weights(0, 1, {0, 2}, 3, 7);
  Weights(0, 1, {0, 2}, 3, 8);  // repeated: the first reply counts
  Weights(1, 1, {3}, 3);
  Weights(1, 1, {1, 0, 99}, 3);  // 0: not on shard 1; 99: no such slice
  EXPECT_TRUE(core_->pulling());
  Weights(0, 99, {4}, 3);  // of another request
  Message stranger = From(0);
  stranger.header.set_incarnation(1);
  stranger.header.mutable_pull_reply()->set_request(1);
  stranger.header.mutable_pull_reply()->add_parts()->set_slice(4);
  stranger.payloads.push_back(Payload(16));
  core_->OnMessage(0, stranger, now_);
  core_->OnMessage(17, stranger, now_);
  EXPECT_TRUE(core_->pulling());
  Weights(0, 1, {4}, 3);
  EXPECT_FALSE(core_->pulling());
  const std::vector<PulledSlice> pulled = core_->TakePulled();
  EXPECT_EQ(pulled[0].version, 7u);
  EXPECT_EQ(pulled[3].payload.size(), 16u);
  EXPECT_EQ(core_->stats().pull_staleness.max(), 1u);
  EXPECT_EQ(core_->stats().reordered_replies, 1u);
  // Pushes name the weights they were computed from, although newer weights have come.
  core_->Pull(5, now_);
  Weights(0, 2, {0, 2, 4}, 3, 8);
  Weights(1, 2, {1, 3}, 3, 8);
  EXPECT_FALSE(core_->pulling());
  Drain();
  PushAll(5);
  EXPECT_EQ(DrainTo(0)[0].header.push().parts(0).base_version(), 7u);
}

TEST_F(SessionTest, SlicesMayBeTakenAsTheyCome) {
  core_->Pull(0, now_);
  EXPECT_FALSE(core_->TakeSlice());
  Weights(0, 1, {2, 0}, 0, 7);
  Weights(0, 1, {2}, 0, 8);  // repeated: it is taken once
  const auto first = core_->TakeSlice(), second = core_->TakeSlice();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->first, 2u);
  EXPECT_EQ(second->first, 0u);
  EXPECT_EQ(first->second.payload.size(), 16u);
  EXPECT_FALSE(core_->TakeSlice());
  // What was taken is not asked for again, and pushes are not computed from it before all is here.
  Drain();
  core_->ShardsMoved({"a", "b"}, now_);
  EXPECT_THAT(DrainTo(0)[0].header.pull().slices(), ElementsAre(4));
  PushAll(1);
  EXPECT_EQ(DrainTo(0)[0].header.push().parts(0).base_version(), 0u);
  Weights(0, 1, {4}, 0, 7);
  Weights(1, 1, {1, 3}, 0, 7);
  EXPECT_FALSE(core_->pulling());
  EXPECT_EQ(core_->TakeSlice()->first, 4u);
  const std::vector<PulledSlice> pulled = core_->TakePulled();
  EXPECT_EQ(pulled[0].version, 7u);
  EXPECT_TRUE(pulled[0].payload.empty()) << "it was taken";
  EXPECT_EQ(pulled[3].payload.size(), 16u);
  EXPECT_FALSE(core_->TakeSlice());
}

TEST_F(SessionTest, KeepsTheVeryBytesUntilTheyAreAcknowledged) {
  PushAll(1);
  const auto first = DrainTo(0);
  EXPECT_TRUE(core_->Tick(now_ + kResend).ok());
  EXPECT_TRUE(Drain().empty());
  now_ += kResend + Milliseconds(1);
  EXPECT_TRUE(core_->Tick(now_).ok());
  const auto again = DrainTo(0);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].header.SerializeAsString(), first[0].header.SerializeAsString());
  EXPECT_EQ(again[0].payloads[0].data(), first[0].payloads[0].data());
  EXPECT_GT(core_->stats().resent, 0u);
  Ack(0, 2);
  Ack(1, 2);
  EXPECT_TRUE(core_->AllAcknowledged());
  EXPECT_EQ(core_->AcknowledgedClock(), 1u);
  now_ += 10 * kResend;
  EXPECT_TRUE(core_->Tick(now_).ok());
  EXPECT_TRUE(Drain().empty());
}

TEST_F(SessionTest, AGapIsFilledAtOnceAndOnlyOnce) {
  for (uint64_t clock = 1; clock <= 5; ++clock) PushAll(clock);
  EXPECT_THAT(SentSeqs(0), ElementsAre(1, 2, 3, 4, 5));
  // Push 2 was lost: pushes 3, 4 and 5 are refused at once, one after the other.
  Refuse(0, Refusal::OUT_OF_ORDER, 2);
  EXPECT_THAT(SentSeqs(0), ElementsAre(2, 3, 4, 5));
  Refuse(0, Refusal::OUT_OF_ORDER, 2);
  Refuse(0, Refusal::OUT_OF_ORDER, 2);
  EXPECT_THAT(SentSeqs(0), ElementsAre());
  // Another loss is another gap.
  Refuse(0, Refusal::OUT_OF_ORDER, 4);
  EXPECT_THAT(SentSeqs(0), ElementsAre(4, 5));
  // A refusal for a gap filled long ago resends nothing. The worker asks whether the refusal is
  // old.
  Refuse(0, Refusal::OUT_OF_ORDER, 3);
  const std::vector<Message> asked = DrainTo(0);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_TRUE(asked[0].header.has_hello());
  // The same gap again after a while: the resend was lost too.
  now_ += kResend / 4;
  Refuse(0, Refusal::OUT_OF_ORDER, 4);
  EXPECT_THAT(SentSeqs(0), ElementsAre(4, 5));
}

// A worker that waits for weights pushes nothing, and the shard may wait for this worker. Greetings
// reveal the loss.
TEST_F(SessionTest, AShardThatLostPushesIsFoundOutByWhoOnlyWaits) {
  PushAll(1);
  Drain();
  Ack(0, 2);
  const auto welcome = [&](uint64_t probe) {
    Message message = From(0);
    message.header.mutable_welcome()->set_probe(probe);
    message.header.mutable_welcome()->set_next_seq(1);
    core_->OnMessage(0, message, now_);
  };
  welcome(0);
  const std::vector<Message> asked = DrainTo(0);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_TRUE(core_->Tick(now_).ok()) << "it may have been an old one";
  welcome(asked[0].header.hello().probe());
  EXPECT_TRUE(absl::IsDataLoss(core_->Tick(now_)));
}

// A server that stood still while another one took its place does not know what that one has.
TEST_F(SessionTest, AReplacedLeaderHasLostNothing) {
  PushAll(1);
  Drain();
  Message ack = From(0);
  ack.header.mutable_push_ack()->set_next_seq(2);
  ack.header.mutable_push_ack()->set_life(3);
  core_->OnMessage(0, ack, now_);
  const auto welcome = [&](uint32_t life, uint64_t probe) {
    Message message = From(0);
    message.header.mutable_welcome()->set_probe(probe);
    message.header.mutable_welcome()->set_next_seq(1);
    message.header.mutable_welcome()->set_life(life);
    core_->OnMessage(0, message, now_);
  };
  Refuse(0, Refusal::OUT_OF_ORDER, 1);
  std::vector<Message> asked = DrainTo(0);
  ASSERT_EQ(asked.size(), 1u);
  welcome(2, asked[0].header.hello().probe());
  EXPECT_TRUE(core_->Tick(now_).ok());
  welcome(3, asked[0].header.hello().probe());
  EXPECT_TRUE(absl::IsDataLoss(core_->Tick(now_))) << "the leader itself lacks it";
}

// The shard has this worker's pushes, but lost pushes of others whose weights the worker has seen.
// It would refuse updates computed from these weights.
TEST_F(SessionTest, AShardWhoseWeightsWentBackIsFoundOut) {
  core_->Pull(0, now_);
  Drain();
  Weights(0, 1, {0, 2, 4}, 0, 7);
  Weights(1, 1, {1, 3}, 0, 7);
  core_->TakePulled();
  core_->Pull(1, now_);
  Drain();
  Weights(0, 2, {0, 2, 4}, 0, 7);
  EXPECT_TRUE(core_->Tick(now_).ok());
  Weights(1, 2, {1, 3}, 0, 6);
  const absl::Status status = core_->Tick(now_);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("slice 3 is at version 6, and was at 7"));
}

TEST_F(SessionTest, AShardThatRefusesUpdatesOfLostWeightsEndsTheWorker) {
  PushAll(1);
  Drain();
  Refuse(0, Refusal::LOST, 1);
  EXPECT_TRUE(absl::IsDataLoss(core_->Tick(now_)));
}

// A shard restarted from a journal that had lost its end.
TEST_F(SessionTest, AShardThatLostWhatItAcknowledgedIsFoundOut) {
  for (uint64_t clock = 1; clock <= 5; ++clock) PushAll(clock);
  Drain();
  Ack(0, 5);
  const auto welcome = [&](uint64_t probe, uint64_t next_seq) {
    Message message = From(0);
    message.header.mutable_welcome()->set_probe(probe);
    message.header.mutable_welcome()->set_next_seq(next_seq);
    core_->OnMessage(0, message, now_);
  };
  // A refusal may be old. The answer to a question asked now is not.
  Refuse(0, Refusal::OUT_OF_ORDER, 3);
  std::vector<Message> asked = DrainTo(0);
  ASSERT_EQ(asked.size(), 1u);
  welcome(asked[0].header.hello().probe() + 1, 3);
  EXPECT_TRUE(core_->Tick(now_).ok()) << "that was no answer to it";
  welcome(asked[0].header.hello().probe(), 5);
  EXPECT_TRUE(core_->Tick(now_).ok()) << "it had not lost anything";
  Refuse(0, Refusal::OUT_OF_ORDER, 3);
  asked = DrainTo(0);
  ASSERT_EQ(asked.size(), 1u);
  welcome(asked[0].header.hello().probe(), 3);
  const absl::Status status = core_->Tick(now_);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("has lost pushes that it acknowledged"));
}

TEST_F(SessionTest, AWorkerThatKeepsSendingStillFillsAGap) {
  PushAll(1);
  Drain();
  for (uint64_t clock = 2; clock <= 4; ++clock) {
    now_ += kResend / 50;  // much less than a resend timer
    PushAll(clock);
    Drain();
  }
  Refuse(0, Refusal::OUT_OF_ORDER, 1);
  EXPECT_THAT(SentSeqs(0), ElementsAre(1, 2, 3, 4));
}

TEST_F(SessionTest, AnOverloadedShardIsLeftAloneForAWhile) {
  PushAll(1);
  Drain();
  Refuse(0, Refusal::OVERLOADED, 1);
  EXPECT_TRUE(DrainTo(0).empty());
  EXPECT_LT(core_->NextTick(), now_ + kResend);
  now_ = core_->NextTick();
  EXPECT_TRUE(core_->Tick(now_).ok());
  EXPECT_THAT(SentSeqs(0), ElementsAre(1));
}

TEST_F(SessionTest, ATransportThatIsFullIsTriedAgain) {
  PushAll(1);
  auto next = core_->Next();
  ASSERT_TRUE(next.has_value());
  const PeerId full = next->to;
  core_->Retry(now_, Milliseconds(2));
  for (const auto& [to, message] : Drain()) EXPECT_NE(to, full);
  now_ = core_->NextTick();
  EXPECT_EQ(core_->Tick(now_).code(), absl::StatusCode::kOk);
  EXPECT_EQ(DrainTo(full).size(), 1u);
}

TEST_F(SessionTest, ARefusedPushIsCountedAndDone) {
  PushAll(1);
  Drain();
  Refuse(0, Refusal::NON_FINITE, 2);
  Ack(1, 2);
  EXPECT_TRUE(core_->AllAcknowledged());
  EXPECT_EQ(core_->stats().refused.at("non_finite"), 1u);
  EXPECT_THAT(core_->stats().last_refusal, HasSubstr("shard 0: why"));
  EXPECT_TRUE(core_->Tick(now_).ok());
}

TEST_F(SessionTest, BeingOutIsFinal) {
  for (const auto reason : {Refusal::FENCED, Refusal::UNKNOWN_WORKER}) {
    Make();
    PushAll(1);
    Drain();
    Refuse(1, reason, 0);
    const absl::Status status = core_->Tick(now_);
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("shard 1 refuses this worker: why"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("start the worker again"));
  }
}

TEST_F(SessionTest, ARefusedPullIsAnError) {
  core_->Pull(0, now_);
  Drain();
  Refuse(1, Refusal::MALFORMED, 0, 1);
  EXPECT_THAT(std::string(core_->Tick(now_).message()),
              HasSubstr("shard 1 refused a request: why"));
}

}  // namespace
}  // namespace psgd
