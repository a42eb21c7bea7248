// Residuals of workers that leave: pushed, or counted as lost.
#include <limits>

#include "server/control/metrics_page.h"
#include "tests/unit/server/coordinator/coordinator_fixture.h"
#include "tests/unit/server/shard/shard_fixture.h"
#include "worker/session_core.h"
#include "worker/update_encoder.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;

void Report(CoordinatorFixture& run, const WorkerKey& key, double norm) {
  HeartbeatRequest beat;
  *beat.mutable_key() = key;
  beat.mutable_report()->set_residual_norm(norm);
  ASSERT_TRUE(run.core().Heartbeat(beat, run.now()).ok());
}

void Leave(CoordinatorFixture& run, const WorkerKey& key, double norm) {
  LeaveRequest leave;
  *leave.mutable_key() = key;
  leave.set_residual_norm(norm);
  Effects effects;
  ASSERT_TRUE(run.core().Leave(leave, run.now(), &effects).ok());
}

TEST(Residual, TheNormIsThatOfAllWorkersTogether) {
  CoordinatorFixture run(CoordinatorConfig(2, 4, 4));
  const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister();
  Report(run, a, 3);
  Report(run, b, 4);
  StatusReply status = run.core().Status(run.now());
  EXPECT_DOUBLE_EQ(status.total().residual_norm(), 5);
  EXPECT_DOUBLE_EQ(status.workers(0).residual_norm(), 3);
  EXPECT_DOUBLE_EQ(status.workers(1).residual_norm(), 4);
  const std::string page = RenderPrometheus(status);
  EXPECT_THAT(page, HasSubstr("\npsgd_residual_norm 5\n"));
  EXPECT_THAT(page, HasSubstr("\npsgd_worker_residual_norm{worker=\"1\",name=\"host\"} 4\n"));
  EXPECT_THAT(page, HasSubstr("\npsgd_residual_norm_lost 0\n"));
  // The norm is a level, not a count, and never NaN.
  Report(run, a, 1);
  Report(run, b, std::numeric_limits<double>::quiet_NaN());
  status = run.core().Status(run.now());
  EXPECT_DOUBLE_EQ(status.total().residual_norm(), 1);
  EXPECT_DOUBLE_EQ(status.workers(1).residual_norm(), 0);
}

TEST(Residual, OfAKilledWorkerItIsLostAsItLastReported) {
  CoordinatorFixture run(CoordinatorConfig(2, 4, 4));
  const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister();
  run.Next(a);
  Report(run, a, 3);
  Report(run, b, 4);
  run.Pass(std::chrono::seconds(6));
  Report(run, a, 3);
  run.Pass(std::chrono::seconds(6));
  run.Tick();
  EXPECT_THAT(run.News(), HasSubstr("a residual of norm 4 is lost with worker 1"));
  const StatusReply status = run.core().Status(run.now());
  EXPECT_DOUBLE_EQ(status.total().residual_norm(), 3);
  EXPECT_DOUBLE_EQ(status.total().residual_norm_lost(), 4);
  EXPECT_DOUBLE_EQ(status.workers(1).residual_norm(), 0);
}

TEST(Residual, OfAWorkerThatLeavesOnlyWhatItDidNotPushIsLost) {
  CoordinatorFixture run(CoordinatorConfig(3, 4, 4));
  const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister(), c = run.JoinAndRegister();
  run.Next(a);
  for (const WorkerKey& key : {a, b, c}) Report(run, key, 4);
  Leave(run, b, 0);
  StatusReply status = run.core().Status(run.now());
  EXPECT_DOUBLE_EQ(status.total().residual_norm_lost(), 0);
  Leave(run, c, 2);
  status = run.core().Status(run.now());
  EXPECT_DOUBLE_EQ(status.total().residual_norm_lost(), 2);
  EXPECT_DOUBLE_EQ(status.total().residual_norm(), 4);
}

TEST(Residual, OfARunThatIsOverItIsInTheCheckpoint) {
  CoordinatorFixture run(CoordinatorConfig(1, 4, 4));
  const WorkerKey a = run.JoinAndRegister();
  run.Next(a);
  Report(run, a, 4);
  run.Drain("asked to");
  run.Next(a, 1);
  run.Evaluate(a, 0.5);
  run.Next(a, 1);
  run.CheckpointDone(1);
  EXPECT_EQ(run.Next(a, 1).kind(), NextSegmentReply::DONE);
  Leave(run, a, 4);
  EXPECT_THAT(run.News(), Not(HasSubstr("is lost")));
  EXPECT_DOUBLE_EQ(run.core().Status(run.now()).total().residual_norm_lost(), 0);
}

// A worker's encoder and session against a shard that answers at once.
class Pusher {
 public:
  static CodecConfig Topk() {
    CodecConfig topk;
    topk.mutable_topk()->set_density(0.05);
    return topk;
  }

  Pusher(ShardFixture* shard, uint32_t worker, const CodecConfig& codec = Topk())
      : shard_(shard), worker_(worker) {
    Config config;
    config.mutable_compression()->set_dense_below(0);
    *config.mutable_compression()->mutable_push() = codec;
    encoder_ =
        UpdateEncoder::Create(config, *shard->install().model, *shard->install().placement, worker)
            .value();
    Placement placement = *shard->install().placement;
    placement.add_endpoints("here");
    SessionOptions options;
    options.key = ShardFixture::Key(worker);
    session_ = std::make_unique<SessionCore>(options, placement, now_);
  }

  // Pushes whole numbers, so that sums are exact, and adds them to `sum`.
  void Step(std::vector<std::vector<float>>& sum) {
    ++clock_;
    for (size_t p = 0; p < sum.size(); ++p) {
      std::vector<float> gradient(sum[p].size());
      for (size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = static_cast<float>((i * 7 + clock_ * 13 + worker_ * 5) % 41) - 20;
        sum[p][i] += gradient[i];
      }
      std::vector<EncodedSlice> slices;
      encoder_->Encode(static_cast<int>(p), gradient, gradient, 0, clock_, &slices);
      for (EncodedSlice& slice : slices) Push(slice);
    }
    End();
  }

  void Flush() {
    ++clock_;
    std::vector<FlushedSlice> flushed = encoder_->Flush().value();
    EXPECT_EQ(flushed.size(), 2u);
    for (FlushedSlice& slice : flushed) Push(slice.encoded);
    End();
    EXPECT_TRUE(session_->AllAcknowledged());
    EXPECT_EQ(*encoder_->ResidualNorm(), 0);
  }

  // The state for a checkpoint, and the state from a checkpoint.
  std::vector<std::pair<uint32_t, Bytes>> State() const {
    return encoder_->CopyResiduals().value();
  }
  double Load() {
    session_->LoadState(now_);
    Exchange();
    EXPECT_FALSE(session_->loading());
    return encoder_->RestoreResiduals(session_->TakeLoadedState()).value();
  }
  double ResidualNorm() const { return encoder_->ResidualNorm().value(); }

 private:
  void Push(EncodedSlice& slice) { session_->Push(clock_, slice, now_); }
  void End() {
    session_->EndClock(clock_, now_);
    Exchange();
  }
  void Exchange() {
    while (auto next = session_->Next()) {
      const Message message = *next->message;
      session_->Sent(now_);
      for (const Outgoing& out : shard_->Send(message)) {
        if (out.to == worker_) session_->OnMessage(0, out.message, now_);
      }
    }
  }

  ShardFixture* const shard_;
  const uint32_t worker_;
  const Time now_ = std::chrono::hours(1);
  std::unique_ptr<UpdateEncoder> encoder_;
  std::unique_ptr<SessionCore> session_;
  uint64_t clock_ = 0;
};

class LastPush : public testing::TestWithParam<int64_t> {};

// Once the residual is pushed, the applied updates are the sum of all gradients, to the bit. The
// other worker goes on as before, even if clocks wait for each other.
TEST_P(LastPush, MakesWhatIsAppliedTheSumOfAllGradients) {
  ShardFixture shard({.staleness = GetParam(), .elements = {200, 40}});
  shard.Start(2);
  Pusher stays(&shard, 0), leaves(&shard, 1);
  std::vector<std::vector<float>> sum = {Values(200), Values(40)};
  for (int step = 0; step < 3; ++step) {
    leaves.Step(sum);
    stays.Step(sum);
  }
  leaves.Flush();
  shard.Remove(1);
  for (int step = 0; step < 3; ++step) stays.Step(sum);
  stays.Flush();
  for (uint32_t p = 0; p < 2; ++p) {
    for (float& value : sum[p]) value = 0 - value;
    EXPECT_EQ(shard.Weights(p), sum[p]);
  }
  EXPECT_EQ(shard.core().FastestClock(), 7u);
}

INSTANTIATE_TEST_SUITE_P(AtEveryStaleness, LastPush, testing::Values(0, 2, -1));

// A run goes on with fewer workers and another codec: nothing of the three residuals is lost.
class ResumedRun : public testing::Test {
 protected:
  // Stops a run of three workers after some steps.
  ResumedRun() {
    ShardFixture before({.elements = {200, 40}});
    before.Start(3);
    std::vector<std::unique_ptr<Pusher>> pushers;
    for (uint32_t w = 0; w < 3; ++w) pushers.push_back(std::make_unique<Pusher>(&before, w));
    for (int step = 0; step < 3; ++step) {
      for (auto& pusher : pushers) pusher->Step(sum_);
    }
    for (uint32_t w = 0; w < 3; ++w) residuals_[w] = pushers[w]->State();
    for (uint32_t id = 0; id < 2; ++id) weights_.push_back(before.Weights(id));
  }

  std::unique_ptr<ShardFixture> Resumed(int workers) {
    Config config;
    config.mutable_cluster()->set_workers(workers);
    auto shard = std::make_unique<ShardFixture>(FixtureOptions{.elements = {200, 40}}, config);
    CheckpointManifest manifest;
    *manifest.mutable_model() = *shard->install().model;
    *manifest.mutable_placement() = *shard->install().placement;
    manifest.mutable_placement()->add_endpoints("tcp://x");
    manifest.add_shards();
    ShardSnapshot snapshot;
    snapshot.residuals = residuals_;
    for (uint32_t id = 0; id < 2; ++id) {
      SliceSnapshot& slice = snapshot.slices.emplace_back();
      slice.id = id;
      slice.spec = manifest.placement().slices(static_cast<int>(id));
      slice.parameter = manifest.model().parameters(static_cast<int>(id)).name();
      slice.weights = BytesOf(weights_[id]);
    }
    shard->install().checkpoint =
        std::make_shared<LoadedCheckpoint>(*LoadedCheckpoint::Assemble(manifest, {snapshot}));
    shard->Start(static_cast<uint32_t>(workers));
    return shard;
  }

  void ExpectNothingIsLost(const ShardFixture& shard) {
    for (uint32_t p = 0; p < 2; ++p) {
      for (float& value : sum_[p]) value = 0 - value;
      EXPECT_EQ(shard.Weights(p), sum_[p]);
    }
  }

  std::vector<std::vector<float>> sum_ = {Values(200), Values(40)};
  std::vector<std::vector<float>> weights_;
  std::map<uint32_t, std::vector<std::pair<uint32_t, Bytes>>> residuals_;
};

TEST_F(ResumedRun, OfOneWorkerPushesWhatAllLeftBehind) {
  const auto shard = Resumed(1);
  Pusher alone(shard.get(), 0);
  EXPECT_EQ(alone.Load(), 0);
  alone.Step(sum_);
  alone.Flush();
  ExpectNothingIsLost(*shard);
}

TEST_F(ResumedRun, WithACodecThatLosesNothingSendsItWithTheFirstPush) {
  CodecConfig none;
  none.mutable_none();
  const auto shard = Resumed(2);
  Pusher first(shard.get(), 0, none), second(shard.get(), 1, none);
  EXPECT_EQ(first.Load(), 0);
  EXPECT_EQ(second.Load(), 0);
  EXPECT_GT(first.ResidualNorm(), 0);
  for (int step = 0; step < 2; ++step) {
    first.Step(sum_);
    second.Step(sum_);
  }
  EXPECT_EQ(first.ResidualNorm(), 0);
  ExpectNothingIsLost(*shard);
}

TEST_F(ResumedRun, WithACodecThatKeepsNothingSaysWhatIsLost) {
  CodecConfig signum;
  signum.mutable_signum();
  const auto shard = Resumed(3);
  Pusher first(shard.get(), 0, signum), before(shard.get(), 1);
  EXPECT_EQ(before.Load(), 0);
  EXPECT_GT(first.Load(), 0.1 * before.ResidualNorm());
}

}  // namespace
}  // namespace psgd
