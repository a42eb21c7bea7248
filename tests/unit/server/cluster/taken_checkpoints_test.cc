// What people hear of checkpoints that they asked for, and of those that there are.
#include "server/cluster/taken_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class TakenCheckpointsTest : public testing::Test {
 protected:
  void End(uint64_t checkpoint, std::vector<uint64_t> removed = {},
           std::optional<uint64_t> best = std::nullopt) {
    SealedCheckpoint sealed;
    sealed.info.set_id(checkpoint);
    sealed.info.set_clock(100 * checkpoint);
    sealed.info.set_name("name");
    sealed.removed = std::move(removed);
    sealed.best = best;
    taken_.Ended(checkpoint, sealed, now_, &effects_);
  }
  // By request: the checkpoint's clock, or 0 with the error in `last_error_`.
  std::map<uint64_t, uint64_t> Answers() {
    std::map<uint64_t, uint64_t> answers;
    for (const ServerEffect& effect : std::exchange(effects_, {})) {
      const auto& answer = std::get<effect::Answer>(effect);
      uint64_t& clock = answers[answer.request];
      if (answer.reply.ok()) {
        clock = std::get<CheckpointReply>(*answer.reply).clock();
      } else {
        last_error_ = std::string(answer.reply.status().message());
      }
    }
    return answers;
  }
  StatusReply Shown() const {
    StatusReply status;
    taken_.Show(now_, &status);
    return status;
  }
  // The ids that are shown; that of the best is negative.
  std::vector<int> Ids() const {
    std::vector<int> ids;
    const StatusReply shown = Shown();
    for (const CheckpointInfo& info : shown.checkpoints())
      ids.push_back(info.best() ? -static_cast<int>(info.id()) : static_cast<int>(info.id()));
    return ids;
  }

  Time now_ = std::chrono::hours(1);
  TakenCheckpoints taken_;
  ServerEffects effects_;
  std::string last_error_;
};

TEST_F(TakenCheckpointsTest, ARequestIsAnsweredOnceItsCheckpointEnds) {
  const Time later = now_ + std::chrono::hours(1);
  taken_.Await(1, 10, later);
  taken_.Await(2, 20, later);
  taken_.Await(1, 11, later);
  End(1);
  EXPECT_THAT(Answers(), ElementsAre(Pair(10, 100), Pair(11, 100)));
  taken_.Ended(2, absl::ResourceExhaustedError("the disk is full"), now_, &effects_);
  EXPECT_THAT(Answers(), ElementsAre(Pair(20, 0)));
  EXPECT_EQ(last_error_, "the disk is full");
  End(3);
  EXPECT_THAT(Answers(), IsEmpty());
}

TEST_F(TakenCheckpointsTest, ARequestDoesNotWaitForEver) {
  taken_.Await(1, 10, now_ + std::chrono::seconds(5));
  taken_.Await(1, 11, now_ + std::chrono::seconds(9));
  taken_.Tick(now_, &effects_);
  EXPECT_THAT(Answers(), IsEmpty());
  now_ += std::chrono::seconds(5);
  taken_.Tick(now_, &effects_);
  EXPECT_THAT(Answers(), ElementsAre(Pair(10, 0)));
  EXPECT_THAT(last_error_, HasSubstr("checkpoint 1 was asked for but no worker"));
  End(1);
  EXPECT_THAT(Answers(), ElementsAre(Pair(11, 100)));
}

TEST_F(TakenCheckpointsTest, TheStatusShowsThoseThatThereAre) {
  End(1);
  now_ += std::chrono::seconds(3);
  End(2, {}, 1);
  EXPECT_THAT(Ids(), ElementsAre(-1, 2));
  EXPECT_EQ(Shown().checkpoints(0).age_seconds(), 3);
  EXPECT_EQ(Shown().checkpoints(1).age_seconds(), 0);
  End(3, {1}, 3);
  EXPECT_THAT(Ids(), ElementsAre(2, -3));
}

TEST_F(TakenCheckpointsTest, AFailureIsShownUntilTheNextIsTaken) {
  End(1);
  taken_.Ended(2, absl::ResourceExhaustedError("the disk is full"), now_, &effects_);
  EXPECT_EQ(Shown().failed_checkpoint(), "checkpoint 2: the disk is full");
  EXPECT_THAT(Ids(), ElementsAre(1));
  End(3);
  EXPECT_EQ(Shown().failed_checkpoint(), "");
}

}  // namespace
}  // namespace psgd
