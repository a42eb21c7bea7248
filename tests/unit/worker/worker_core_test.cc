// The order of a worker's tasks, against a coordinator and a shard that answer by hand.
#include "worker/worker_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

template <typename Task>
const Task& Expect(const WorkerCore& core) {
  static const Task none{};
  const Task* const task = std::get_if<Task>(&core.task());
  EXPECT_NE(task, nullptr) << "the task is number " << core.task().index();
  return task == nullptr ? none : *task;
}

class WorkerCoreTest : public testing::Test {
 protected:
  WorkerCoreTest() { Make(false); }

  void Make(bool pull_ahead, WorkerCore::AtEnd at_end = WorkerCore::AtEnd::kAsk,
            bool evaluates_aside = false,
            WorkerCore::OnDrain on_drain = WorkerCore::OnDrain::kEndSegment) {
    Placement placement;
    placement.add_slices()->set_count(4);
    placement.add_endpoints("tcp://alpha:1");
    SessionOptions options;
    options.key.set_worker(3);
    options.key.set_incarnation(2);
    options.evaluates_aside = evaluates_aside;
    core_ = std::make_unique<WorkerCore>(options, pull_ahead, placement, now_, at_end, on_drain);
  }

  NextSegmentReply Run(uint64_t id, uint64_t first_clock, uint32_t clocks, int batches) {
    NextSegmentReply reply;
    reply.set_kind(NextSegmentReply::RUN);
    reply.mutable_segment()->set_id(id);
    reply.mutable_segment()->set_first_clock(first_clock);
    reply.mutable_segment()->set_clocks(clocks);
    for (int i = 0; i < batches; ++i) reply.mutable_segment()->add_batches(i);
    return reply;
  }
  void Answer(const NextSegmentReply& reply) {
    Expect<task::AskSegment>(*core_);
    core_->OnSegment(reply, now_);
  }
  template <typename Task>
  void Do() {
    Expect<Task>(*core_);
    core_->Done(now_);
  }

  // The messages that leave now. The shard acknowledges pushes and answers pulls and loads.
  std::vector<Message> Exchange() {
    std::vector<Message> sent;
    while (auto next = core_->session().Next()) {
      sent.push_back(*next->message);
      core_->session().Sent(now_);
    }
    for (const Message& message : sent) Reply(message.header);
    return sent;
  }
  void Reply(const DataHeader& asked) {
    Message reply;
    reply.header.set_worker(3);
    reply.header.set_incarnation(2);
    if (asked.has_pull()) {
      pulls_.push_back(asked.pull().clock());
      aside_.push_back(asked.pull().aside());
      PullReply* const weights = reply.header.mutable_pull_reply();
      weights->set_request(asked.pull().request());
      weights->add_parts()->set_version(1);
      reply.payloads.push_back(Bytes::Adopt(std::vector<std::byte>(16)));
    } else if (asked.has_push()) {
      pushes_.push_back(asked.push().clock());
      reply.header.mutable_push_ack()->set_next_seq(asked.push().seq() + 1);
    } else if (asked.has_save_state()) {
      reply.header.mutable_push_ack()->set_next_seq(asked.save_state().seq() + 1);
    } else if (asked.has_load_state()) {
      StateReply* const state = reply.header.mutable_state_reply();
      state->set_request(asked.load_state().request());
      state->set_last(true);
    }
    core_->session().OnMessage(0, reply, now_);
  }
  void Await(task::Await::What what) {
    EXPECT_EQ(Expect<task::Await>(*core_).what, what);
    Exchange();
    EXPECT_TRUE(core_->Advance(now_));
  }
  void Step(uint64_t clock) {
    Await(task::Await::kWeights);
    EXPECT_EQ(Expect<task::Install>(*core_).clock, clock - 1);
    core_->session().TakePulled();
    Do<task::Install>();
    EXPECT_EQ(Expect<task::Train>(*core_).clock, clock);
    Do<task::Train>();
  }
  void FinishSegment(uint64_t clock) {
    Await(task::Await::kAcknowledgements);
    EXPECT_EQ(Expect<task::Report>(*core_).clock, clock);
    Do<task::Report>();
  }

  Time now_ = std::chrono::hours(1);
  std::unique_ptr<WorkerCore> core_;
  std::vector<uint64_t> pulls_, pushes_;  // their clocks
  std::vector<bool> aside_;               // by pull
};

TEST_F(WorkerCoreTest, ASegmentIsTrainedReportedAndFinished) {
  EXPECT_TRUE(Expect<task::AskSegment>(*core_).request.first());
  Answer(Run(7, 10, 3, 2));
  EXPECT_EQ(Expect<task::BeginSegment>(*core_).segment.batches_size(), 2);
  Do<task::BeginSegment>();
  Step(11);
  Step(12);
  FinishSegment(13);
  // The third clock has no batch: its push is empty, and it is pushed all the same.
  EXPECT_THAT(pushes_, testing::ElementsAre(11, 12, 13));
  EXPECT_THAT(pulls_, testing::ElementsAre(10, 11));
  const NextSegmentRequest& next = Expect<task::AskSegment>(*core_).request;
  EXPECT_FALSE(next.first());
  EXPECT_EQ(next.finished_segment(), 7u);
}

TEST_F(WorkerCoreTest, AWaitForAShardLastsUntilItsAnswer) {
  Answer(Run(1, 0, 1, 1));
  Do<task::BeginSegment>();
  EXPECT_FALSE(core_->Advance(now_));
  Exchange();
  EXPECT_TRUE(core_->Advance(now_));
  Expect<task::Install>(*core_);
}

TEST_F(WorkerCoreTest, WeightsAreAskedForAheadWithinASegmentOnly) {
  Make(true);
  Answer(Run(1, 0, 2, 2));
  Do<task::BeginSegment>();
  Await(task::Await::kWeights);
  core_->session().TakePulled();
  Do<task::Install>();
  Expect<task::Train>(*core_);
  EXPECT_TRUE(core_->pulled_ahead());
  EXPECT_TRUE(core_->batch_follows());
  Exchange();
  EXPECT_THAT(pulls_, testing::ElementsAre(0, 1)) << "asked while the first step computes";
  Do<task::Train>();
  Await(task::Await::kWeights);
  core_->session().TakePulled();
  Do<task::Install>();
  EXPECT_FALSE(core_->pulled_ahead());
  EXPECT_FALSE(core_->batch_follows());
  Do<task::Train>();
  FinishSegment(2);
  EXPECT_EQ(pulls_.size(), 2u);
}

TEST_F(WorkerCoreTest, AProgramHasTheWeightsOfASegmentsEndBeforeItAsks) {
  for (const bool pull_ahead : {false, true}) {
    pulls_.clear();
    Make(pull_ahead, WorkerCore::AtEnd::kPull);
    Answer(Run(1, 0, 3, 2));
    Do<task::BeginSegment>();
    Step(1);
    Step(2);
    Await(task::Await::kWeights);
    EXPECT_EQ(Expect<task::Install>(*core_).clock, 3u);  // the third clock has no batch
    EXPECT_FALSE(Expect<task::Install>(*core_).for_step);
    core_->session().TakePulled();
    Do<task::Install>();
    FinishSegment(3);
    EXPECT_THAT(pulls_, testing::ElementsAre(0, 1, 3));
    Expect<task::AskSegment>(*core_);
  }
}

TEST_F(WorkerCoreTest, AProgramThatGivesUpAStepPushesItsResidualInPlace) {
  Make(true, WorkerCore::AtEnd::kPull);
  Answer(Run(1, 0, 3, 3));
  Do<task::BeginSegment>();
  Step(1);
  Await(task::Await::kWeights);
  core_->session().TakePulled();
  Do<task::Install>();
  EXPECT_EQ(Expect<task::Train>(*core_).clock, 2u);
  core_->SetAsked(true, false);
  core_->GiveUpStep(now_);
  Do<task::Report>();
  EXPECT_EQ(Expect<task::GiveResidual>(*core_).clock, 2u);
}

TEST_F(WorkerCoreTest, StateIsSavedAndWeightsAreEvaluatedBeforeTheNextSegment) {
  Answer(Run(1, 0, 1, 1));
  Do<task::BeginSegment>();
  Step(1);
  FinishSegment(1);
  NextSegmentReply wait;
  wait.set_wait_ms(100);
  wait.set_save_state_for(4);
  wait.set_evaluate(true);
  wait.set_evaluate_epoch(2);
  Answer(wait);
  EXPECT_EQ(Expect<task::SaveState>(*core_).checkpoint, 4u);
  core_->session().SaveState(4, {}, now_);
  Do<task::SaveState>();
  Await(task::Await::kAcknowledgements);
  Await(task::Await::kWeights);
  EXPECT_FALSE(Expect<task::Install>(*core_).for_step);
  Do<task::Install>();
  EXPECT_EQ(Expect<task::Evaluate>(*core_).epoch, 2);
  EXPECT_EQ(Expect<task::Evaluate>(*core_).clock, 1u);
  Do<task::Evaluate>();
  // What it did took time: it asks again at once.
  wait.set_evaluate(false);
  Answer(wait);
  EXPECT_EQ(Expect<task::Pause>(*core_).duration, Milliseconds(100))
      << "the state is saved once for a checkpoint";
  Do<task::Pause>();
  NextSegmentReply done;
  done.set_kind(NextSegmentReply::DONE);
  done.set_reason("every epoch is done");
  Answer(done);
  EXPECT_EQ(Expect<task::Leave>(*core_).reason, "every epoch is done");
}

TEST_F(WorkerCoreTest, AWorkerThatWaitsLongAsksLessOften) {
  NextSegmentReply wait;
  wait.set_wait_ms(100);
  const auto pause = [&] {
    Answer(wait);
    const Duration duration = Expect<task::Pause>(*core_).duration;
    now_ += duration;
    Do<task::Pause>();
    return duration;
  };
  EXPECT_EQ(pause(), Milliseconds(100));
  EXPECT_EQ(pause(), Milliseconds(100));
  now_ += std::chrono::seconds(5);
  EXPECT_EQ(pause(), Milliseconds(5200) / 20);
  now_ += std::chrono::minutes(1);
  EXPECT_EQ(pause(), Milliseconds(500));
  wait.set_wait_ms(1000);  // the coordinator wants a longer one
  EXPECT_EQ(pause(), Milliseconds(1000));
  Answer(Run(1, 0, 1, 1));
  Do<task::BeginSegment>();
  Step(1);
  FinishSegment(1);
  wait.set_wait_ms(100);
  EXPECT_EQ(pause(), Milliseconds(100));
}

TEST_F(WorkerCoreTest, SavedStateIsLoadedOnceBeforeTheFirstStep) {
  NextSegmentReply run = Run(1, 0, 1, 1);
  run.set_load_state(true);
  Answer(run);
  Await(task::Await::kState);
  Do<task::RestoreState>();
  Do<task::BeginSegment>();
  Step(1);
  FinishSegment(1);
  run = Run(2, 1, 1, 1);
  run.set_load_state(true);
  Answer(run);
  Expect<task::BeginSegment>(*core_);
}

TEST_F(WorkerCoreTest, AWorkerThatIsAskedToLeaveGivesItsResidual) {
  Answer(Run(1, 0, 3, 3));
  Do<task::BeginSegment>();
  Step(1);
  // It had begun to pull for the next step, so it takes that step.
  core_->SetAsked(true, false);
  Step(2);
  // First it asks whether the whole run was asked to end.
  Do<task::Report>();
  EXPECT_EQ(Expect<task::GiveResidual>(*core_).clock, 3u);
  core_->session().Push(3, {0, CODEC_NONE, Bytes::Adopt(std::vector<std::byte>(16))}, now_);
  core_->GaveResidual(true, now_);
  Await(task::Await::kAcknowledgements);
  EXPECT_EQ(pushes_.back(), 3u);
  // The batch of that clock was not trained on.
  EXPECT_EQ(Expect<task::Report>(*core_).clock, 2u);
  Do<task::Report>();
  EXPECT_EQ(Expect<task::Leave>(*core_).why, task::Leave::kGaveResidual);
}

TEST_F(WorkerCoreTest, AWorkerStaysToTheEndOfItsSegmentIfTheRunEnds) {
  Answer(Run(1, 0, 2, 2));
  Do<task::BeginSegment>();
  core_->SetAsked(true, false);
  Step(1);
  Expect<task::Report>(*core_);
  core_->SetAsked(true, true);  // says the answer to the report
  Do<task::Report>();
  Step(2);
  FinishSegment(2);
  Expect<task::AskSegment>(*core_);
}

// Of local steps, for example.
TEST_F(WorkerCoreTest, AWorkerWithLongSegmentsLeavesAtOnceIfTheRunEnds) {
  for (const bool asked : {false, true}) {
    Make(false, WorkerCore::AtEnd::kAsk, false, WorkerCore::OnDrain::kLeave);
    Answer(Run(1, 0, 3, 3));
    Do<task::BeginSegment>();
    EXPECT_FALSE(core_->leaves());
    core_->SetAsked(asked, /*drain=*/true);
    EXPECT_TRUE(core_->leaves());
    Step(1);
    Do<task::Report>();
    EXPECT_EQ(Expect<task::GiveResidual>(*core_).clock, 2u);
  }
}

TEST(OnDrain, SegmentsOfProgramsAndOfLocalStepsAreLong) {
  Config config;
  config.mutable_local()->set_steps(1);
  EXPECT_EQ(OnDrainOf(config), WorkerCore::OnDrain::kEndSegment);
  config.mutable_local()->set_steps(30);
  EXPECT_EQ(OnDrainOf(config), WorkerCore::OnDrain::kLeave);
  config.mutable_local()->set_steps(1);
  config.mutable_model()->mutable_client();
  EXPECT_EQ(OnDrainOf(config), WorkerCore::OnDrain::kLeave);
}

TEST_F(WorkerCoreTest, AWorkerThatDidNothingLeavesWithoutAResidual) {
  Answer(Run(1, 0, 2, 2));
  core_->SetAsked(true, false);
  Do<task::BeginSegment>();
  Do<task::Report>();
  EXPECT_EQ(Expect<task::Leave>(*core_).why, task::Leave::kAskedBeforeFirstStep);
}

TEST_F(WorkerCoreTest, AWorkerThatOnlyWaitsLeavesAtOnce) {
  core_->SetAsked(true, false);
  Answer(NextSegmentReply());
  Do<task::Report>();
  EXPECT_EQ(Expect<task::Leave>(*core_).why, task::Leave::kAskedWhileWaiting);
}

TEST_F(WorkerCoreTest, AWorkerThatTrainedMayWaitForTheNextSegmentToTakeItsResidual) {
  Answer(Run(1, 0, 1, 1));
  Do<task::BeginSegment>();
  Step(1);
  FinishSegment(1);
  core_->SetAsked(true, false);
  NextSegmentReply wait;
  wait.set_evaluate(true);
  Answer(wait);
  Do<task::Report>();
  // Nothing forbids an evaluation while it waits.
  Await(task::Await::kWeights);
  Do<task::Install>();
  Do<task::Evaluate>();
  Answer(NextSegmentReply());
  Do<task::Report>();
  EXPECT_TRUE(Expect<task::Pause>(*core_).leaves);
  core_->LeaveNow();
  EXPECT_EQ(Expect<task::Leave>(*core_).why, task::Leave::kAskedWhileWaiting);
}

TEST_F(WorkerCoreTest, AnEvaluationAsideLeavesTheWeightsOfTraining) {
  Make(false, WorkerCore::AtEnd::kAsk, /*evaluates_aside=*/true);
  Answer(Run(1, 0, 1, 1));
  Do<task::BeginSegment>();
  Step(1);
  FinishSegment(1);
  NextSegmentReply next = Run(2, 1, 1, 1);
  next.set_evaluate(true);
  Answer(next);
  EXPECT_TRUE(core_->session().pulls_aside());
  Await(task::Await::kWeights);
  core_->session().TakePulled();
  Do<task::Install>();
  Do<task::Evaluate>();
  Do<task::BeginSegment>();
  Step(2);
  EXPECT_FALSE(core_->session().pulls_aside());
  EXPECT_THAT(aside_, testing::ElementsAre(false, true, false));
}

}  // namespace
}  // namespace psgd
