// Tests deadlines, repeats, and the worker's saved state.
#include "common/program_state.h"
#include "tests/unit/worker/session_fixture.h"

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(SessionTest, TheDeadlineNamesTheShardAndWhatToDo) {
  PushAll(1);
  Drain();
  for (int i = 0; i < 60; ++i) {
    now_ += kResend;
    Ack(0, 2);
    const absl::Status status = core_->Tick(now_);
    Drain();
    if (status.ok()) continue;
    EXPECT_TRUE(absl::IsDeadlineExceeded(status));
    EXPECT_GE(i, 49);
    const std::string text(status.message());
    EXPECT_THAT(text, HasSubstr("shard 1 at tcp://beta:2"));
    EXPECT_THAT(text, HasSubstr("5 s"));
    EXPECT_THAT(text, HasSubstr("cluster.deadline"));
    EXPECT_THAT(text, HasSubstr("--resume"));
    return;
  }
  FAIL() << "a dead shard was waited for";
}

TEST_F(SessionTest, AShardThatOwesNothingMayBeSilent) {
  PushAll(1);
  Drain();
  Ack(0, 2);
  Ack(1, 2);
  now_ += 10 * kDeadline;
  EXPECT_TRUE(core_->Tick(now_).ok());
  // The deadline starts with the next request, not with the last answer.
  core_->Pull(1, now_);
  Drain();
  EXPECT_TRUE(core_->Tick(now_).ok());
}

TEST_F(SessionTest, APullMayWaitForLongAsLongAsTheShardLives) {
  core_->Pull(0, now_);
  Drain();
  // Shard 0 silently holds the pull back for a slow worker, but answers greetings.
  Weights(1, 1, {1, 3});
  int greetings = 0;
  const Time end = now_ + 4 * kDeadline;
  while (now_ < end) {
    now_ += kResend / 2;
    ASSERT_TRUE(core_->Tick(now_).ok());
    for (const auto& [to, message] : Drain()) {
      EXPECT_EQ(to, 0u);
      if (!message.header.has_hello()) continue;
      ++greetings;
      Message welcome = From(0);
      welcome.header.mutable_welcome()->set_next_seq(1);
      core_->OnMessage(0, welcome, now_);
    }
  }
  EXPECT_GT(greetings, 10);
  EXPECT_LT(greetings, 300);
  Weights(0, 1, {0, 2, 4});
  EXPECT_FALSE(core_->pulling());
}

TEST_F(SessionTest, ALostReplyIsAskedForAgain) {
  core_->Pull(0, now_);
  Drain();
  Weights(1, 1, {1, 3});
  Weights(0, 1, {0});  // the rest was lost
  now_ += 2 * kResend;
  ASSERT_TRUE(core_->Tick(now_).ok());
  const auto again = DrainTo(0);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_TRUE(again[0].header.has_hello());
  EXPECT_EQ(again[1].header.pull().request(), 1u);
  EXPECT_THAT(again[1].header.pull().slices(), ElementsAre(2, 4)) << "what came is not asked for";
  Weights(0, 1, {2, 4});
  EXPECT_FALSE(core_->pulling());
}

TEST_F(SessionTest, AProbeIsAnsweredByTheWelcomeOfEveryShard) {
  PushAll(1);
  Drain();
  const auto welcome = [&](uint32_t shard, uint64_t probe, uint64_t next_seq = 1) {
    Message message = From(shard);
    message.header.mutable_welcome()->set_next_seq(next_seq);
    message.header.mutable_welcome()->set_probe(probe);
    core_->OnMessage(shard, message, now_);
  };
  core_->Probe(Payload(1001), now_);
  const auto sent = Drain();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].second.PayloadBytes() + sent[1].second.PayloadBytes(), 1001u);
  const uint64_t probe = sent[0].second.header.hello().probe();
  EXPECT_NE(probe, 0u);
  welcome(0, 0);  // the answer to another greeting
  welcome(0, probe + 1);
  welcome(1, probe);
  welcome(1, probe);  // a repeat
  EXPECT_TRUE(core_->probing());
  // The shard is asked again, but without the payload.
  now_ += 2 * kResend;
  ASSERT_TRUE(core_->Tick(now_).ok());
  const auto again = DrainTo(0);
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(again.back().header.hello().probe(), probe);
  EXPECT_EQ(again.back().PayloadBytes(), 0u);
  welcome(0, probe);
  EXPECT_FALSE(core_->probing());
  EXPECT_FALSE(core_->AllAcknowledged()) << "a probe acknowledges no push";
  Ack(0, 2);
  Ack(1, 2);
  core_->Probe(Bytes(), now_);
  EXPECT_TRUE(core_->probing());
  for (const auto& [to, message] : Drain()) welcome(to, message.header.hello().probe(), 2);
  EXPECT_FALSE(core_->probing());
  // Push numbers continue after the probe.
  PushAll(2);
  EXPECT_THAT(SentSeqs(0), ElementsAre(2u));
}

TEST_F(SessionTest, AShardThatIsSilentToAProbeIsGivenUp) {
  core_->Probe(Payload(10), now_);
  Drain();
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {
    now_ += kResend;
    status = core_->Tick(now_);
    Drain();
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST_F(SessionTest, KnowsWhenTheLastPushWasAcknowledged) {
  PushAll(1);
  Drain();
  now_ += kResend / 4;
  Ack(0, 2);
  EXPECT_FALSE(core_->AllAcknowledged());
  now_ += kResend / 4;
  Ack(1, 2);
  const Time then = now_;
  EXPECT_EQ(core_->acknowledged_at(), then);
  now_ += kResend / 4;
  Ack(1, 2);  // an acknowledgement without news
  EXPECT_EQ(core_->acknowledged_at(), then);
}

TEST_F(SessionTest, SavesStateToEveryShardInOrderWithPushes) {
  PushAll(1);
  core_->SaveState(9, {{0, Payload(3u << 20)}, {2, Payload(3u << 20)}, {3, Payload(8)}}, now_);
  auto sent = Drain();
  for (uint64_t next : {2, 3}) {  // the window holds one large message
    Ack(0, next);
    for (auto& more : Drain()) sent.push_back(std::move(more));
  }
  std::vector<uint64_t> seqs[2];
  int last[2] = {0, 0};
  std::vector<uint32_t> slices;
  for (const auto& [to, message] : sent) {
    if (message.header.has_push()) {
      seqs[to].push_back(message.header.push().seq());
      continue;
    }
    const SaveState& save = message.header.save_state();
    EXPECT_EQ(save.checkpoint(), 9u);
    EXPECT_EQ(static_cast<size_t>(save.slices_size()), message.payloads.size());
    seqs[to].push_back(save.seq());
    last[to] += save.last();
    for (uint32_t slice : save.slices()) slices.push_back(slice);
  }
  EXPECT_THAT(seqs[0], ElementsAre(1, 2, 3));  // two messages: one would be too large
  EXPECT_THAT(seqs[1], ElementsAre(1, 2));
  EXPECT_EQ(last[0], 1);
  EXPECT_EQ(last[1], 1);
  EXPECT_THAT(slices, testing::UnorderedElementsAre(0, 2, 3));
  EXPECT_FALSE(core_->AllAcknowledged());
  Ack(0, 4);
  Ack(1, 3);
  EXPECT_TRUE(core_->AllAcknowledged());
}

TEST_F(SessionTest, SpreadsAProgramsStateOverTheShards) {
  core_->SaveState(9, {{kProgramState, Payload(8)}, {kProgramState + 3, Payload(8)}}, now_);
  std::map<PeerId, std::vector<uint32_t>> parts;
  for (const auto& [to, message] : Drain()) {
    for (const uint32_t id : message.header.save_state().slices()) parts[to].push_back(id);
  }
  EXPECT_THAT(parts[0], ElementsAre(kProgramState));
  EXPECT_THAT(parts[1], ElementsAre(kProgramState + 3));
}

TEST_F(SessionTest, MoreStatesThanAMessageMayHaveAreCut) {
  std::vector<std::pair<uint32_t, Bytes>> states;
  for (uint32_t i = 0; i <= 2 * kMostParts; i += 2) states.emplace_back(kProgramState + i, Bytes());
  core_->SaveState(9, states, now_);
  std::vector<int> sizes;
  for (const Message& message : DrainTo(0)) {
    sizes.push_back(message.header.save_state().slices_size());
  }
  EXPECT_THAT(sizes, ElementsAre(kMostParts, 1));
}

class SessionLoadTest : public SessionTest {
 protected:
  void State(uint32_t shard, const std::vector<uint32_t>& slices, uint32_t total, bool last,
             uint64_t request = 1) {
    Message message = From(shard);
    StateReply* reply = message.header.mutable_state_reply();
    reply->set_request(request);
    reply->set_total(total);
    reply->set_last(last);
    for (uint32_t slice : slices) {
      reply->add_slices(slice);
      message.payloads.push_back(Payload(16));
    }
    core_->OnMessage(shard, message, now_);
  }
};

TEST_F(SessionLoadTest, GathersTheStateOfAllShards) {
  core_->LoadState(now_);
  EXPECT_EQ(Drain().size(), 2u);
  State(1, {}, 0, true);
  EXPECT_TRUE(core_->loading());
  State(0, {0}, 2, false);
  State(0, {4}, 2, true);
  EXPECT_FALSE(core_->loading());
  const auto loaded = core_->TakeLoadedState();
  EXPECT_EQ(loaded.size(), 2u);
  EXPECT_TRUE(loaded.count(4));
}

TEST_F(SessionLoadTest, AReplyThatWasLostIsNotTakenForNothing) {
  core_->LoadState(now_);
  Drain();
  State(1, {}, 0, true);
  State(0, {4}, 2, true);  // the message before it was lost
  EXPECT_TRUE(core_->loading());
  now_ += 2 * kResend;
  ASSERT_TRUE(core_->Tick(now_).ok());
  const auto again = DrainTo(0);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_TRUE(again[1].header.has_load_state());
  State(0, {0}, 2, false);
  EXPECT_FALSE(core_->loading());
  State(0, {4}, 2, true);  // comes late, and is ignored
  EXPECT_EQ(core_->TakeLoadedState().size(), 2u);
}

}  // namespace
}  // namespace psgd
