#include "server/shard/pull_times.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

using std::chrono::microseconds;

class PullTimesTest : public testing::Test {
 protected:
  // A worker's message that takes `took` microseconds.
  void Push(uint32_t worker, int took) {
    DataHeader header;
    header.set_worker(worker);
    header.mutable_push();
    Take(header, took);
  }
  void Pull(uint32_t worker, int took) {
    DataHeader header;
    header.set_worker(worker);
    header.mutable_pull();
    Take(header, took);
  }
  void Pause(int time) { now_ += microseconds(time); }
  PullReply Answer(uint32_t worker, bool last = true) {
    DataHeader header;
    header.set_worker(worker);
    header.mutable_pull_reply()->set_last(last);
    times_.Stamp(&header, now_);
    return header.pull_reply();
  }

  PullTimes times_;
  Time now_{microseconds(1'000'000)};

 private:
  void Take(const DataHeader& header, int took) {
    times_.Begin(header, now_);
    Pause(took);
    times_.End(now_);
  }
};

TEST_F(PullTimesTest, TellsWorkFromHoldingBack) {
  Push(1, 300);
  Push(2, 70);  // another worker's push before the pull: not counted for worker 1
  Push(1, 200);
  Pause(5000);
  Pull(1, 10);
  Pause(1000);
  Push(2, 40);  // the push that it waited for
  Pause(60);    // time to write that push
  const PullReply answer = Answer(1);
  EXPECT_EQ(answer.apply_us(), 300u + 200 + 10 + 40);
  EXPECT_EQ(answer.wait_us(), 1000u + 60);
}

TEST_F(PullTimesTest, EachAnswerTellsOfWhatCameSinceTheOneBefore) {
  Push(1, 300);
  Pull(1, 10);
  EXPECT_EQ(Answer(1, /*last=*/false).apply_us(), 0u);  // more answers follow
  EXPECT_EQ(Answer(1).apply_us(), 310u);
  Pull(1, 20);
  EXPECT_EQ(Answer(1).apply_us(), 20u);
  EXPECT_EQ(Answer(1).apply_us(), 0u);  // no pull waits
}

TEST_F(PullTimesTest, ARepeatedPullWaitsSinceTheFirst) {
  Pull(1, 10);
  Pause(500);
  Pull(1, 10);
  Push(1, 30);  // a push of the next step, while the pull waits
  Pause(500);
  const PullReply answer = Answer(1);
  EXPECT_EQ(answer.apply_us(), 50u);
  EXPECT_EQ(answer.wait_us(), 1000u);
}

TEST_F(PullTimesTest, AnybodysNumbersDoNotFillTheMemory) {
  for (uint32_t worker = 0; worker < 100'000; ++worker) Push(worker, 1);
  EXPECT_LE(times_.workers(), 8192u);
}

}  // namespace
}  // namespace psgd
