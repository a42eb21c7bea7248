// Pulls without a shard around them: who waits, and what a worker is known to have.
#include "server/shard/pull_answerer.h"

#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

class PullAnswererTest : public testing::Test {
 protected:
  // Two slices, workers 0 and 1, staleness 1, delay compensation.
  void SetUp() override {
    config_.mutable_consistency()->set_staleness(1);
    config_.mutable_consistency()->set_compensation(ConsistencyConfig::DELAY);
    config_.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
    ASSERT_TRUE(slices_.Install(ShardFixture().install()).ok());
    pulls_ = NewAnswerer();
    pulls_->Meet(0);
    pulls_->Meet(1);
  }
  std::unique_ptr<PullAnswerer> NewAnswerer() {
    return std::make_unique<PullAnswerer>(
        config_, PullOptions{}, &slices_,
        PullClocks{.slowest = [this] { return std::min(clocks_[0], clocks_[1]); },
                   .of = [this](uint32_t worker) { return clocks_.at(worker); },
                   .ahead = nullptr});
  }
  absl::StatusOr<std::optional<AnsweredPull>> Take(const Message& pull) {
    return pulls_->Take(pull.header.worker(), pull.header, &out_);
  }

  Config config_;
  SliceSet slices_{0, config_, kMostUnpacked};
  std::map<uint32_t, uint64_t> clocks_ = {{0, 0}, {1, 0}};
  std::unique_ptr<PullAnswerer> pulls_;
  Outbox out_;
};

TEST_F(PullAnswererTest, APullWaitsForTheSlowestWorker) {
  clocks_[0] = 2;
  auto pull = Take(ShardFixture::PullOf(0, 1, 2));
  ASSERT_TRUE(pull.ok());
  EXPECT_FALSE(pull->has_value());
  EXPECT_TRUE(pulls_->AnswerWaiting(&out_).empty());
  EXPECT_EQ(pulls_->waiting(), 1u);
  EXPECT_TRUE(out_.empty());

  clocks_[1] = 1;
  const auto answered = pulls_->AnswerWaiting(&out_);
  ASSERT_EQ(answered.size(), 1u);
  EXPECT_EQ(answered[0].staleness, 1u);
  EXPECT_EQ(pulls_->waiting(), 0u);
  ASSERT_EQ(out_.size(), 1u);
  EXPECT_EQ(out_[0].message.header.pull_reply().slowest_clock(), 1u);
  EXPECT_TRUE(pulls_->AnswerWaiting(&out_).empty());
}

TEST_F(PullAnswererTest, APullWaitsForItsOwnWorkersUpdates) {
  Message pull = ShardFixture::PullOf(0, 1, 1);
  pull.header.mutable_pull()->set_own_clock(1);
  ASSERT_TRUE(Take(pull).ok());
  EXPECT_EQ(pulls_->waiting(), 1u);
  clocks_[0] = 1;
  EXPECT_EQ(pulls_->AnswerWaiting(&out_).size(), 1u);
}

TEST_F(PullAnswererTest, OnlyTheNewestPullOfAWorkerWaits) {
  for (const uint64_t request : {2, 3, 1}) {
    ASSERT_TRUE(Take(ShardFixture::PullOf(0, request, 5)).ok());
    EXPECT_EQ(pulls_->waiting(), 1u) << request;
  }
  clocks_ = {{0, 5}, {1, 5}};
  pulls_->AnswerWaiting(&out_);
  ASSERT_EQ(out_.size(), 1u);
  EXPECT_EQ(out_[0].message.header.pull_reply().request(), 3u);
}

TEST_F(PullAnswererTest, AMalformedPullChangesNothing) {
  ASSERT_TRUE(Take(ShardFixture::PullOf(0, 1, 5)).ok());
  Message pull = ShardFixture::PullOf(0, 2, 5);
  pull.header.mutable_pull()->add_marks(1);
  EXPECT_TRUE(absl::IsInvalidArgument(Take(pull).status()));
  EXPECT_EQ(pulls_->waiting(), 1u);
  EXPECT_TRUE(out_.empty());
}

TEST_F(PullAnswererTest, RemembersWhatAWorkerWasSent) {
  Message pull = ShardFixture::PullOf(0, 1, 0);
  pull.header.mutable_pull()->add_slices(1);
  const auto answered = Take(pull);
  ASSERT_TRUE(answered.ok() && answered->has_value());
  ASSERT_TRUE((*answered)->shown.has_value());
  EXPECT_EQ((*answered)->shown->slices_size(), 1);
  ASSERT_EQ(pulls_->ShownTo(0).size(), 2u);
  EXPECT_TRUE(pulls_->ShownTo(0)[0].weights.empty());
  EXPECT_EQ(pulls_->ShownTo(0)[1].weights.data(), out_[0].message.payloads[0].data());

  MemberRecord record;
  ShardSnapshot arrays;
  pulls_->SaveShown(0, &record, &arrays);
  const auto restored = NewAnswerer();
  restored->Meet(0);
  restored->RestoreShown(record, arrays);
  EXPECT_EQ(restored->ShownTo(0)[1].weights.data(), out_[0].message.payloads[0].data());

  pulls_->Forget(0);
  EXPECT_TRUE(pulls_->ShownTo(0).empty());
}

TEST_F(PullAnswererTest, ShowsNothingToTheUnknown) {
  WeightsShown shown;
  shown.add_slices(1);
  EXPECT_TRUE(pulls_->Show(shown));
  shown.add_slices(2);
  EXPECT_FALSE(pulls_->Show(shown));
  shown.clear_slices();
  shown.set_worker(7);
  EXPECT_FALSE(pulls_->Show(shown));
}

// An evaluation gets it whole, and keeps the marks of the weights that the worker has.
TEST(PullOfAnAverage, IsWholeAndLeavesTheWorkersMarks) {
  Config config;
  config.mutable_train()->set_average(0.5);
  config.mutable_compression()->mutable_pull()->mutable_delta();
  ShardFixture shard({}, config);
  shard.Start(1);
  EXPECT_EQ(
      shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}, {1, {2, 2, 2, 2}}})),
      2u);
  Message pull = ShardFixture::PullOf(0, 1, 1);
  pull.header.mutable_pull()->set_aside(true);
  for (const uint64_t mark : {7, 8}) pull.header.mutable_pull()->add_marks(mark);
  const auto out = shard.Send(pull);
  ASSERT_EQ(out.size(), 1u);
  const PullReply& reply = out[0].message.header.pull_reply();
  ASSERT_EQ(reply.parts_size(), 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(reply.parts(i).form(), PullPart::WHOLE);
    EXPECT_EQ(reply.parts(i).mark(), 7u + static_cast<uint64_t>(i));
    EXPECT_EQ(reply.parts(i).version(), 1u);
    // The first update counts with 9/11.
    const auto average = Floats(out[0].message.payloads[i]);
    for (const float value : average) {
      EXPECT_FLOAT_EQ(value, 9.0f / 11 * shard.Weights(static_cast<uint32_t>(i))[0]);
    }
  }
}

TEST(PullAside, MovesNoMarkAndNoDifference) {
  Config config;
  config.mutable_compression()->mutable_pull()->mutable_delta()->mutable_codec()->mutable_qsgd();
  ShardFixture shard({}, config);
  shard.Start(1);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}, {1, {2, 2, 2, 2}}}));
  Message pull = ShardFixture::PullOf(0, 1, 1);
  pull.header.mutable_pull()->set_aside(true);
  for (const uint64_t mark : {7, 8}) pull.header.mutable_pull()->add_marks(mark);
  const auto out = shard.Send(pull);
  ASSERT_EQ(out.size(), 1u);
  for (int i = 0; i < 2; ++i) {
    const PullPart& part = out[0].message.header.pull_reply().parts(i);
    EXPECT_EQ(part.form(), PullPart::WHOLE);
    EXPECT_EQ(part.mark(), 7u + static_cast<uint64_t>(i));
    const auto sent = Floats(out[0].message.payloads[static_cast<size_t>(i)]);
    EXPECT_TRUE(std::ranges::equal(sent, shard.Weights(static_cast<uint32_t>(i))));
  }
}

// Images and replays have the average, whether updates are clocks or pushes.
TEST(ShardWithAnAverage, IsTheSameFromItsJournal) {
  for (const int64_t staleness : {0, 2}) {
    Config config;
    config.mutable_train()->set_average(0.9);
    ShardFixture shard({.staleness = staleness, .journal = true}, config);
    ShardFixture image({.staleness = staleness, .journal = true}, config),
        replayed({.staleness = staleness}, config);
    shard.Install();
    ASSERT_TRUE(image.core().Restore(shard.core().MakeImage()).ok());
    shard.core().TakeJournal();
    for (uint32_t worker : {0, 1}) shard.Admit(worker);
    shard.Begin(0, 100, {0, 1});
    for (uint64_t clock = 1; clock <= 3; ++clock) {
      for (uint32_t worker : {0, 1}) {
        const auto value = static_cast<float>(clock + worker);
        shard.Send(ShardFixture::PushOf(worker, clock, clock, {{0, Values(4, value)}}));
      }
    }
    for (const JournalEntry& entry : shard.core().TakeJournal()) {
      ASSERT_TRUE(image.core().Replay(entry).ok());
    }
    ASSERT_TRUE(replayed.core().Restore(shard.core().MakeImage()).ok());
    const auto average = [](ShardFixture& of) {
      const SliceSnapshot slice = of.core().MakeImage().arrays.slices[0];
      EXPECT_EQ(slice.states.back().first, kAverageState);
      return Values(Floats(slice.states.back().second).begin(),
                    Floats(slice.states.back().second).end());
    };
    EXPECT_LT(average(shard)[0], 0);
    EXPECT_EQ(average(image), average(shard));
    EXPECT_EQ(average(replayed), average(shard));
  }
}

}  // namespace
}  // namespace psgd
