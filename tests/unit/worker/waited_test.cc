#include "worker/waited.h"

#include "tests/unit/worker/session_fixture.h"

namespace psgd {
namespace {

using std::chrono::milliseconds;

TEST(PartsOfWait, AddUpToTheWait) {
  const PullAnswer answer{milliseconds(100), milliseconds(20), milliseconds(50)};
  const Waited whole = PartsOfWait(0.1, answer);
  EXPECT_DOUBLE_EQ(whole.apply, 0.02);
  EXPECT_DOUBLE_EQ(whole.wait, 0.05);
  EXPECT_NEAR(whole.wire, 0.03, 1e-12);
  // The pull was sent ahead, so the worker waited only at its end.
  const Waited part = PartsOfWait(0.01, answer);
  EXPECT_DOUBLE_EQ(part.apply, 0.002);
  EXPECT_DOUBLE_EQ(part.wait, 0.005);
  EXPECT_NEAR(part.wire, 0.003, 1e-12);
}

// Times of a shard beyond the round trip are cut to what is possible.
TEST(PartsOfWait, NothingIsNegative) {
  const Waited all = PartsOfWait(0.01, {milliseconds(10), milliseconds(900), milliseconds(4)});
  EXPECT_DOUBLE_EQ(all.wait, 0.004);
  EXPECT_DOUBLE_EQ(all.apply, 0.006);
  EXPECT_NEAR(all.wire, 0, 1e-12);
  EXPECT_DOUBLE_EQ(PartsOfWait(0.01, {milliseconds(5), {}, {}}).wire,
                   0.01);  // a shard that reports no times
  EXPECT_DOUBLE_EQ(PartsOfWait(0.01, {}).wire, 0.01);
}

TEST_F(SessionTest, AnswersOfTheLastShardArePartsOfItsRoundTrip) {
  const auto last = [this](uint32_t shard, int apply_us, int wait_us) {
    Message message = From(shard);
    PullReply* reply = message.header.mutable_pull_reply();
    reply->set_request(1);
    reply->set_last(true);
    reply->set_apply_us(apply_us);
    reply->set_wait_us(wait_us);
    core_->OnMessage(shard, message, now_);
  };
  core_->Pull(0, now_);
  Drain();
  now_ += milliseconds(5);
  last(0, 1000, 3000);
  Weights(0, 1, {0, 2, 4});
  now_ += milliseconds(15);
  last(1, 2000, 7000);
  Weights(1, 1, {1, 3});
  EXPECT_FALSE(core_->pulling());
  EXPECT_EQ(core_->last_answer().round_trip, milliseconds(20));
  EXPECT_EQ(core_->last_answer().apply, milliseconds(2));
  EXPECT_EQ(core_->last_answer().wait, milliseconds(7));
}

}  // namespace
}  // namespace psgd
