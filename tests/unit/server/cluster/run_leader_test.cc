// The server that leads the run, against two servers and a run store that answer by hand.
#include "server/cluster/run_leader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/wire_format.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Duration kPatience = std::chrono::seconds(1);
constexpr Duration kTick = kPatience / 20;

RunServer ServerNumbered(uint32_t number) {
  RunServer server;
  server.set_server(number);
  server.set_name(absl::StrCat("m", number));
  server.set_address(absl::StrCat("host-", number, ":7070"));
  server.set_identity(100 + number);
  server.set_may_lead(true);
  return server;
}

// One shard on servers 1 and 2, both in sync; server 1 leads the run, `leader` the shard.
RunRecord TrainingRecord(uint32_t leader) {
  RunRecord record = FirstRecord("run-id", ServerNumbered(1), 1);
  *record.add_servers() = ServerNumbered(2);
  record.set_next_server(3);
  record.set_has_plan(true);
  ShardCopies* const shard = record.mutable_shards(0);
  shard->set_leader(leader);
  shard->set_endpoint("tcp://somewhere:1");
  shard->clear_in_sync();
  shard->clear_copies();
  for (const uint32_t server : {1, 2}) {
    shard->add_in_sync(server);
    shard->add_copies(server);
  }
  CoordinatorRecord* const coordinator = record.mutable_coordinator();
  coordinator->set_batches_per_epoch(10);
  coordinator->set_next_checkpoint(4);
  coordinator->set_state(StatusReply::TRAINING);
  coordinator->mutable_ledger()->set_next_id(1);
  return record;
}

RunPlan SmallPlan() {
  RunPlan plan;
  ParameterSpec* const parameter = plan.mutable_model()->add_parameters();
  parameter->set_name("w");
  parameter->add_shape(4);
  plan.mutable_placement()->add_slices()->set_count(4);
  return plan;
}

CopyState CopyUnder(uint64_t epoch, bool leads, uint64_t report = 0) {
  CopyState copy;
  copy.set_epoch(epoch);
  copy.set_leads(leads);
  copy.set_report(report);
  if (leads) copy.set_endpoint("tcp://somewhere:1");
  return copy;
}

// The last checkpoint, of number 3, is under way.
RunRecord EndingRecord() {
  RunRecord record = TrainingRecord(1);
  record.mutable_coordinator()->mutable_under_way()->set_id(3);
  record.mutable_coordinator()->set_final_checkpoint_taken(true);
  return record;
}

class RunLeaderTest : public testing::Test {
 protected:
  void Make(const RunRecord& record) {
    RunLeaderOptions options = options_;
    options.server = 1;
    options.copies = 2;
    options.servers = 2;
    options.patience = kPatience;
    Config& config = options.coordinator.config;
    config.mutable_cluster()->set_shards(1);
    config.mutable_cluster()->set_workers(1);
    config.mutable_cluster()->set_segment(4);
    config.mutable_cluster()->set_lease(20000);
    config.mutable_cluster()->set_deadline(60000);
    config.mutable_train()->set_epochs(2);
    config.mutable_durability()->set_acknowledge(acknowledge_);
    const RunPlan plan = SmallPlan();
    auto leader = RunLeader::Make(options, 1, record, record.has_plan() ? &plan : nullptr, now_);
    ASSERT_TRUE(leader.ok()) << leader.status();
    leader_ = *std::move(leader);
    leader_->OnConfirmed(now_);
  }

  // Server `number` says, on its link, that it has these copies, of shard 0 and on.
  void Hear(uint32_t number, const std::vector<CopyState>& copies) {
    ServerState state;
    state.set_run_id("run-id");
    *state.mutable_self() = ServerNumbered(number);
    for (const CopyState& copy : copies) {
      *state.add_copies() = copy;
      state.mutable_copies()->rbegin()->set_shard(static_cast<uint32_t>(state.copies_size() - 1));
    }
    leader_->OnState(LinkOf(number), state, now_, &effects_);
    Settle();
  }
  void Hear(uint32_t number, const std::optional<CopyState>& copy) {
    Hear(number, copy ? std::vector{*copy} : std::vector<CopyState>());
  }
  static uint64_t LinkOf(uint32_t server) { return server == 1 ? kOwnLink : server; }
  void Tick() {
    leader_->Tick(now_, &effects_);
    Settle();
  }
  // Both are heard, and time goes on.
  void Live(Duration time, std::optional<CopyState> first, std::optional<CopyState> second) {
    for (const Time end = now_ + time; now_ < end; now_ += kTick) {
      Hear(1, first);
      Hear(2, second);
      Tick();
    }
  }
  // The same, and the workers send heartbeats.
  void LiveWith(const std::vector<WorkerKey>& workers, int seconds, const CopyState& first) {
    for (int i = 0; i < seconds; ++i) {
      HeartbeatRequest beat;
      for (const WorkerKey& worker : workers) {
        *beat.mutable_key() = worker;
        beat.set_number(++beats_);
        Ask(beat);
      }
      Live(std::chrono::seconds(1), first, CopyUnder(1, false));
    }
  }
  // The store takes what is written, and shards carry out their orders.
  void Settle() {
    for (size_t i = 0; i < effects_.size(); ++i) {
      const ServerEffect effect = effects_[i];
      if (const auto* write = std::get_if<effect::WriteStore>(&effect)) {
        ++writes_;
        if (write->plan != nullptr) stored_plan_ = *write->plan;
        if (store_answers_) leader_->OnStoreWritten(write->revision + 1, now_, &effects_);
        if (!store_fails_.ok()) leader_->OnStoreWritten(store_fails_, now_, &effects_);
      } else if (const auto* order = std::get_if<effect::SendOrder>(&effect)) {
        leader_->OnOrderDone(order->order.shard, order->order.epoch, order->order.number,
                             absl::OkStatus(), now_, &effects_);
      } else if (const auto* told = std::get_if<effect::SendAssignment>(&effect)) {
        assignments_[told->link] = told->assignment;
      } else if (std::holds_alternative<effect::WritePart>(effect)) {
        ++parts_again_;
      } else if (std::holds_alternative<effect::SealCheckpoint>(effect)) {
        ++seals_;
      } else if (const auto* answer = std::get_if<effect::Answer>(&effect)) {
        answers_.insert_or_assign(answer->request, answer->reply);
      }
    }
    effects_.clear();
  }
  // A worker of that name joins and is registered.
  WorkerKey JoinWorker(const std::string& name, const ModelSpec& model = SmallPlan().model()) {
    JoinRequest join;
    join.set_name(name);
    join.set_protocol(kProtocolVersion);
    RegisterRequest registers;
    *registers.mutable_key() = std::get<JoinReply>(Ask(join)).key();
    *registers.mutable_model() = model;
    registers.set_batches_per_epoch(10);
    Ask(registers);
    return registers.key();
  }
  NextSegmentReply NextSegment(const WorkerKey& key, uint64_t finished = 0) {
    NextSegmentRequest next;
    *next.mutable_key() = key;
    next.set_first(finished == 0);
    next.set_finished_segment(finished);
    return std::get<NextSegmentReply>(Ask(next));
  }
  ControlReply Ask(const ControlRequest& asked) {
    const uint64_t request = ++request_;
    leader_->OnRequest(request, asked, now_, &effects_);
    Settle();
    EXPECT_TRUE(answers_.contains(request)) << "request " << request;
    EXPECT_TRUE(answers_[request].ok()) << answers_[request].status();
    return answers_[request].value();
  }
  StatusReply Status() { return std::get<StatusReply>(Ask(StatusRequest())); }
  const ShardCopies& shard() const { return leader_->stored().shards(0); }
  std::vector<uint32_t> in_sync() const {
    return {shard().in_sync().begin(), shard().in_sync().end()};
  }

  Time now_ = std::chrono::hours(1);
  std::unique_ptr<RunLeader> leader_;
  ServerEffects effects_;
  std::map<uint64_t, Assignment> assignments_;
  std::map<uint64_t, absl::StatusOr<ControlReply>> answers_;
  uint64_t request_ = 0, beats_ = 0;
  int writes_ = 0, parts_again_ = 0, seals_ = 0;
  std::optional<RunPlan> stored_plan_;  // the last that was written
  bool store_answers_ = true;
  absl::Status store_fails_;
  RunLeaderOptions options_;
  DurabilityConfig::Acknowledge acknowledge_ = DurabilityConfig::JOURNAL;
};

TEST_F(RunLeaderTest, AWorkerOfAnotherProtocolIsRefused) {
  Make(TrainingRecord(1));
  JoinRequest join;
  join.set_name("a");
  join.set_protocol(kProtocolVersion + 1);
  leader_->OnRequest(++request_, join, now_, &effects_);
  Settle();
  ASSERT_TRUE(answers_.contains(request_));
  const absl::Status refused = answers_[request_].status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("install the same version of psgd on both"));
}

// A run that goes on from a checkpoint of an earlier version learns it from a worker.
TEST_F(RunLeaderTest, StoresHowTheDataWerePrepared) {
  Make(TrainingRecord(1));
  Live(kTick, CopyUnder(1, true), CopyUnder(1, false));
  ModelSpec model = SmallPlan().model();
  model.mutable_preparation()->mutable_shape()->set_width(2);
  JoinWorker("a", model);
  Tick();
  ASSERT_TRUE(stored_plan_.has_value());
  EXPECT_EQ(stored_plan_->model().preparation().shape().width(), 2);
  EXPECT_EQ(stored_plan_->placement().slices_size(), 1);
  stored_plan_.reset();
  JoinWorker("b", model);
  Tick();
  EXPECT_FALSE(stored_plan_.has_value()) << "once is enough";
}

// Servers keep cuts and hold back images until they hear that a checkpoint is done.
TEST_F(RunLeaderTest, CheckpointsFromBeforeItLedAreDone) {
  Make(TrainingRecord(1));
  Hear(1, CopyUnder(1, true));
  Hear(2, CopyUnder(1, false));
  EXPECT_EQ(assignments_[LinkOf(2)].checkpoint_done(), 3u);

  RunRecord under_way = TrainingRecord(1);
  under_way.mutable_coordinator()->mutable_under_way()->set_id(3);
  Make(under_way);
  Hear(1, CopyUnder(1, true));
  Hear(2, CopyUnder(1, false));
  EXPECT_EQ(assignments_[LinkOf(2)].checkpoint_done(), 2u);
}

// A server that was replaced and does not know it must not remove what another one writes.
TEST_F(RunLeaderTest, PartsAreDiscardedOnceTheStoreKnowsThatTheCheckpointIsGivenUp) {
  Make(EndingRecord());
  Live(kTick, CopyUnder(1, true), CopyUnder(1, false));
  EXPECT_FALSE(leader_->OnPartCame(2, 0, &effects_)) << "made again from a journal";
  EXPECT_TRUE(effects_.empty());
  EXPECT_TRUE(leader_->OnPartCame(3, 0, &effects_));
  ASSERT_EQ(effects_.size(), 1u);
  const auto part = std::get<effect::WritePart>(effects_[0]);
  EXPECT_EQ(part.checkpoint, 3u);
  EXPECT_EQ(part.shard, 0u);
  EXPECT_EQ(part.run_epoch, 1u);

  const auto discarded = [this] {
    std::vector<uint64_t> checkpoints;
    for (const ServerEffect& effect : effects_) {
      if (const auto* parts = std::get_if<effect::DiscardParts>(&effect))
        checkpoints.push_back(parts->checkpoint);
    }
    return checkpoints;
  };
  leader_->OnPart(3, 0, absl::InternalError("the disk is broken"), now_, &effects_);
  EXPECT_FALSE(leader_->coordinator().checkpoint_under_way());
  EXPECT_TRUE(discarded().empty());
  leader_->OnStoreWritten(leader_->revision() + 1, now_, &effects_);
  EXPECT_THAT(discarded(), ElementsAre(3u));
}

TEST_F(RunLeaderTest, AServerThatIsSilentIsReplaced) {
  Make(TrainingRecord(2));
  Live(kPatience, CopyUnder(1, false), CopyUnder(1, true));
  for (const Time end = now_ + 2 * kPatience; now_ < end; now_ += kTick) {
    Hear(1, CopyUnder(1, false));
    Tick();
  }
  EXPECT_EQ(shard().leader(), 1u);
  EXPECT_EQ(shard().epoch(), 2u);
  EXPECT_THAT(in_sync(), ElementsAre(1));
}

// Stopped and continued by a debugger, say, or swapped out.
TEST_F(RunLeaderTest, ItsOwnStandstillIsNobodysSilence) {
  Make(TrainingRecord(2));
  Live(kPatience, CopyUnder(1, false), CopyUnder(1, true));
  now_ += 5 * kPatience;
  Tick();
  Live(kPatience, CopyUnder(1, false), CopyUnder(1, true));
  EXPECT_EQ(shard().leader(), 2u);
  EXPECT_THAT(in_sync(), ElementsAre(1, 2));
}

// A leading copy that hears of its report waits for fewer copies; each copy counts its own reports.
TEST_F(RunLeaderTest, AReportOfAnEarlierLeadershipIsNotHeardUnderTheNext) {
  Make(TrainingRecord(2));
  Live(kPatience, CopyUnder(1, false), CopyUnder(1, true, 100));
  EXPECT_EQ(assignments_[LinkOf(2)].copies(0).heard(), 100u);
  for (const Time end = now_ + 2 * kPatience; now_ < end; now_ += kTick) {
    Hear(1, CopyUnder(shard().leader() == 1 ? shard().epoch() : 1, shard().leader() == 1));
    Tick();
  }
  ASSERT_EQ(shard().leader(), 1u);
  const Assignment& told = assignments_[LinkOf(1)];
  EXPECT_EQ(told.copies(0).epoch(), 2u);
  EXPECT_EQ(told.copies(0).heard(), 0u);
}

TEST_F(RunLeaderTest, AShardThatAllServersLostEndsTheRun) {
  Make(TrainingRecord(2));
  Live(kPatience, std::nullopt, std::nullopt);
  EXPECT_TRUE(absl::IsDataLoss(leader_->deposed())) << leader_->deposed();
  EXPECT_THAT(std::string(leader_->deposed().message()),
              HasSubstr("server 2 came back without shard 0"));
}

// Which of two copies has more is settled before either follows: to follow may cost a copy what it
// has.
TEST_F(RunLeaderTest, ACopyReadFromADiskFollowsNobodyUntilItIsSettledWhoLeads) {
  Make(TrainingRecord(2));
  CopyState read;
  read.set_entries(7);
  Hear(1, read);
  ASSERT_TRUE(assignments_.contains(LinkOf(1)));
  EXPECT_EQ(assignments_[LinkOf(1)].copies(0).epoch(), 0u);
  store_answers_ = false;
  now_ += 2 * kPatience;
  assignments_.clear();
  for (int i = 0; i < 40; ++i, now_ += kTick) {  // server 2 does not come; server 1 is to lead
    Hear(1, read);
    Tick();
  }
  for (const auto& [link, told] : assignments_) EXPECT_EQ(told.copies(0).epoch(), 0u);
}

TEST_F(RunLeaderTest, NumbersThatNoServerOfTheRunSaysAreIgnored) {
  Make(TrainingRecord(1));
  Live(kPatience, CopyUnder(1, true), CopyUnder(1, false));
  leader_->OnOrderDone(4711, 1, 1, absl::OkStatus(), now_, &effects_);
  leader_->OnOrderDone(0, 1, UINT64_MAX, absl::OkStatus(), now_, &effects_);
  leader_->OnPart(4, 4711, ShardReceipt(), now_, &effects_);
  Settle();
  EXPECT_TRUE(leader_->deposed().ok());
}

// Thousands of workers that wait must not fill the run store with revisions.
TEST_F(RunLeaderTest, AWorkerThatWaitsIsAnsweredWithoutAWrite) {
  Make(TrainingRecord(1));
  Live(kPatience, CopyUnder(1, true), CopyUnder(1, false));
  leader_->OnConfirmed(now_);
  EXPECT_EQ(NextSegment(JoinWorker("w")).kind(), NextSegmentReply::RUN);
  // It runs a segment; a second worker has to wait for the next one.
  const WorkerKey other = JoinWorker("other");
  const int before = writes_;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(NextSegment(other).kind(), NextSegmentReply::WAIT);
  EXPECT_EQ(writes_, before);
  // Where the store has not kept the lease lately, another server may lead: the worker asks on.
  now_ += kPatience;
  store_answers_ = false;
  NextSegmentRequest next;
  *next.mutable_key() = other;
  leader_->OnRequest(++request_, next, now_, &effects_);
  Settle();
  EXPECT_FALSE(answers_.contains(request_));
}

// Each write is a revision that the store keeps for a while.
TEST_F(RunLeaderTest, AHeartbeatThatSaysNothingNewIsNoWrite) {
  Make(TrainingRecord(1));
  Live(kPatience, CopyUnder(1, true), CopyUnder(1, false));
  HeartbeatRequest beat;
  *beat.mutable_key() = JoinWorker("w");
  NextSegment(beat.key());
  beat.mutable_report()->set_steps(1);
  beat.mutable_report()->set_clock(1);
  beat.mutable_report()->set_residual_norm(0.5);
  const auto writes_of = [&](uint64_t number) {
    const int before = writes_;
    for (int i = 0; i < 3; ++i) {
      beat.set_number(number + (i == 2 ? 0 : i));  // the last comes twice
      Ask(beat);
      Live(std::chrono::seconds(2), CopyUnder(1, true), CopyUnder(1, false));
      beat.mutable_report()->clear_steps();
    }
    return writes_ - before;
  };
  EXPECT_EQ(writes_of(1), 1) << "a step";
  EXPECT_EQ(leader_->stored().coordinator().total().steps(), 1u);
  EXPECT_EQ(writes_of(4), 0);
  beat.mutable_report()->set_clock(2);
  EXPECT_EQ(writes_of(7), 1);
  beat.mutable_report()->set_steps(3);
  EXPECT_EQ(writes_of(10), 1);
  EXPECT_EQ(leader_->stored().coordinator().total().steps(), 4u);
}

TEST_F(RunLeaderTest, ARecordThatIsTooLargeForTheStoreEndsTheRun) {
  Make(TrainingRecord(1));
  Live(kPatience, CopyUnder(1, true), CopyUnder(1, false));
  store_answers_ = false;
  leader_->OnRequest(++request_, DrainRequest(), now_, &effects_);
  Settle();
  leader_->OnConfirmed(now_);
  // Another server may lead by now.
  leader_->OnStoreWritten(absl::OutOfRangeError("too large"), now_ + 2 * kPatience, &effects_);
  EXPECT_TRUE(leader_->deposed().ok()) << leader_->deposed();
  leader_->OnStoreWritten(absl::OutOfRangeError("too large"), now_, &effects_);
  EXPECT_EQ(leader_->deposed().message(), "too large");
}

TEST_F(RunLeaderTest, TrainingBeginsOnceShardsAreWhereTheyBelong) {
  RunRecord record = TrainingRecord(1);
  const ShardCopies first = record.shards(0);
  *record.add_shards() = first;
  record.mutable_shards(1)->set_leader(2);
  Make(record);
  const CopyState leads = CopyUnder(1, true), follows = CopyUnder(1, false);
  for (const Time end = now_ + kPatience; now_ < end; now_ += kTick) {
    Hear(1, {leads, follows});
    Hear(2, {follows, leads});
    Tick();
  }
  const WorkerKey worker = JoinWorker("w");
  RebalanceRequest moves;
  moves.add_moves()->set_shard(1);
  moves.mutable_moves(0)->set_server(1);
  Ask(moves);
  const NextSegmentReply waits = NextSegment(worker);
  EXPECT_EQ(waits.kind(), NextSegmentReply::WAIT);
  EXPECT_THAT(waits.reason(), testing::HasSubstr("server 1 to lead shard 1"));
  Hear(2, {follows, CopyUnder(2, false)});
  Hear(1, {leads, CopyUnder(2, true)});
  EXPECT_EQ(NextSegment(worker).kind(), NextSegmentReply::RUN);
}

// As a run that goes on from the checkpoint of its end, and whose servers change before all workers
// know.
TEST_F(RunLeaderTest, ARunThatIsOverWaitsForNoServer) {
  RunRecord record = TrainingRecord(1);
  record.mutable_shards(0)->mutable_in_sync()->RemoveLast();
  record.mutable_shards(0)->mutable_copies()->RemoveLast();
  record.mutable_coordinator()->set_state(StatusReply::FINISHED);
  record.mutable_coordinator()->set_all_dealt(true);
  record.mutable_coordinator()->mutable_ledger()->mutable_position()->set_epoch(2);
  CoordinatorMemberRecord* const member = record.mutable_coordinator()->add_members();
  member->mutable_key()->set_incarnation(1);
  member->set_live(true);
  member->set_registered(true);
  Make(record);
  Hear(1, CopyUnder(1, true));
  EXPECT_EQ(NextSegment(member->key()).kind(), NextSegmentReply::DONE);
}

// A full disk.
TEST_F(RunLeaderTest, AJournalThatCannotBeWrittenIsTold) {
  Make(TrainingRecord(1));
  CopyState stalled = CopyUnder(1, true);
  stalled.mutable_status()->set_stalled("no space left");
  const auto status = [this] { return std::get<StatusReply>(Ask(StatusRequest())); };
  Live(std::chrono::seconds(1), stalled, CopyUnder(1, false));
  EXPECT_EQ(status().waits_for(), "");
  Live(std::chrono::seconds(3), stalled, CopyUnder(1, false));
  EXPECT_EQ(status().waits_for(), "waiting for shard 0: no space left");
  EXPECT_EQ(status().storage_trouble(), "shard 0: no space left");
  Live(std::chrono::seconds(1), CopyUnder(1, true), CopyUnder(1, false));
  EXPECT_EQ(status().waits_for(), "");
  EXPECT_EQ(status().storage_trouble(), "");
}

TEST_F(RunLeaderTest, AShardThatCannotBeMadeIsTold) {
  Make(FirstRecord("run-id", ServerNumbered(1), 1));
  CopyState none = CopyUnder(0, false);
  none.set_empty(true);
  none.set_trouble("no space left");
  Live(std::chrono::seconds(3), none, std::nullopt);
  EXPECT_EQ(Status().waits_for(), "waiting for shard 0: no space left");
}

// A program that is stuck, as in its data loader.
TEST_F(RunLeaderTest, PeopleHearWhichWorkerOthersWaitFor) {
  Make(TrainingRecord(1));
  Live(std::chrono::seconds(1), CopyUnder(1, true), CopyUnder(1, false));
  const WorkerKey other = JoinWorker("a"), late = JoinWorker("b");
  CopyState waits = CopyUnder(1, true);
  waits.mutable_status()->set_slowest_clock(11);
  waits.mutable_status()->add_late_workers(late.worker());
  LiveWith({other, late}, 9, waits);
  EXPECT_EQ(Status().waits_for(), "");
  LiveWith({other, late}, 2, waits);
  EXPECT_EQ(Status().waits_for(),
            "waiting for worker 1 (b), which has not pushed clock 12 for more than 10 s; the other "
            "workers go on if its process ends");
  Ask(DrainRequest());  // which waits for it, too
  LiveWith({other, late}, 1, waits);
  EXPECT_THAT(Status().waits_for(), HasSubstr("waiting for worker 1"));
  LiveWith({other, late}, 1, CopyUnder(1, true));
  EXPECT_EQ(Status().waits_for(), "");
}

// Its process is frozen, or its machine is gone.
TEST_F(RunLeaderTest, PeopleHearSoonOfASilentWorkerThatOthersWaitFor) {
  Make(TrainingRecord(1));
  Live(std::chrono::seconds(1), CopyUnder(1, true), CopyUnder(1, false));
  const WorkerKey other = JoinWorker("a"), late = JoinWorker("b");
  LiveWith({other}, 4, CopyUnder(1, true));
  EXPECT_EQ(Status().waits_for(), "") << "nobody waits for it";
  CopyState waits = CopyUnder(1, true);
  waits.mutable_status()->set_slowest_clock(11);
  waits.mutable_status()->add_late_workers(late.worker());
  LiveWith({other}, 3, waits);
  EXPECT_EQ(Status().waits_for(),
            "waiting for worker 1 (b), not heard for more than 2 s; the other workers go on if its "
            "process ends, or after 20s (cluster.lease)");
}

// Those that wait have finished their segment: no pull of theirs waits.
TEST_F(RunLeaderTest, PeopleHearWhoseLastClocksOthersWaitFor) {
  Make(TrainingRecord(1));
  const CopyState leads = CopyUnder(1, true);
  Live(std::chrono::seconds(1), leads, CopyUnder(1, false));
  const WorkerKey other = JoinWorker("a"), late = JoinWorker("b");
  const uint64_t segment = NextSegment(other).segment().id();
  NextSegment(late);
  Ask(DrainRequest());
  LiveWith({other, late}, 1, leads);
  EXPECT_EQ(Status().waits_for(), "") << "nobody has finished";
  EXPECT_EQ(NextSegment(other, segment).reason(), "waiting for the other workers to finish");
  LiveWith({other, late}, 9, leads);
  EXPECT_EQ(Status().waits_for(), "");
  LiveWith({other, late}, 2, leads);
  EXPECT_THAT(Status().waits_for(), HasSubstr("worker 1 (b), which has not pushed clock 1 for"));
  LiveWith({other}, 3, leads);
  EXPECT_THAT(Status().waits_for(), HasSubstr("worker 1 (b), not heard for more than 2 s"));
  EXPECT_TRUE(NextSegment(late, segment).evaluate());
  LiveWith({other, late}, 12, leads);
  EXPECT_EQ(Status().waits_for(), "") << "an evaluation may take its time";
  LiveWith({other}, 3, leads);
  EXPECT_THAT(Status().waits_for(), HasSubstr("worker 1 (b), not heard for more than 2 s"));
}

TEST_F(RunLeaderTest, TheLastCheckpointWaitsForRoomUntilTheRunIsAskedToStop) {
  Make(EndingRecord());
  const auto live = [this] {
    Live(std::chrono::milliseconds(1500), CopyUnder(1, true), CopyUnder(1, false));
  };
  const auto status = [this] { return std::get<StatusReply>(Ask(StatusRequest())); };
  live();
  const absl::Status full = absl::ResourceExhaustedError("no space left");
  leader_->OnPart(3, 0, full, now_, &effects_);
  Settle();
  EXPECT_EQ(parts_again_, 0);
  live();
  EXPECT_EQ(parts_again_, 1);
  leader_->OnPart(3, 0, full, now_, &effects_);
  live();
  EXPECT_EQ(parts_again_, 2);
  EXPECT_EQ(status().waits_for(), "waiting for room for the last checkpoint: no space left");
  leader_->OnPart(3, 0, ShardReceipt(), now_, &effects_);
  Settle();
  EXPECT_EQ(seals_, 1);
  leader_->OnSealed(3, full, now_, &effects_);
  live();
  EXPECT_EQ(seals_, 2);
  leader_->OnSealed(3, full, now_, &effects_);
  EXPECT_TRUE(leader_->coordinator().checkpoint_under_way());
  Ask(DrainRequest());
  live();
  EXPECT_EQ(seals_, 2);
  EXPECT_FALSE(leader_->coordinator().checkpoint_under_way());
  EXPECT_EQ(status().waits_for(), "");
  EXPECT_THAT(status().failed_checkpoint(), HasSubstr("no space left"));
}

// The weights may fit where the checkpoint does not. With a journal the run can go on later.
TEST_F(RunLeaderTest, ALastCheckpointThatSomebodyWaitsForIsGivenUpInTheEnd) {
  struct Case {
    DurabilityConfig::Acknowledge acknowledge;
    bool failed;
    bool given_up;
  };
  for (const Case& c :
       {Case{DurabilityConfig::MEMORY, false, true}, Case{DurabilityConfig::JOURNAL, false, false},
        Case{DurabilityConfig::JOURNAL, true, true}}) {
    acknowledge_ = c.acknowledge;
    Make(EndingRecord());
    Live(kTick, CopyUnder(1, true), CopyUnder(1, false));
    DrainRequest drain;
    drain.set_failed(c.failed);
    Ask(drain);
    leader_->OnPart(3, 0, absl::ResourceExhaustedError("no space left"), now_, &effects_);
    Live(std::chrono::seconds(59), CopyUnder(1, true), CopyUnder(1, false));
    EXPECT_TRUE(leader_->coordinator().checkpoint_under_way());
    EXPECT_THAT(Status().storage_trouble(), HasSubstr("no space left"));
    Live(std::chrono::seconds(2), CopyUnder(1, true), CopyUnder(1, false));
    EXPECT_EQ(!leader_->coordinator().checkpoint_under_way(), c.given_up);
    EXPECT_EQ(leader_->coordinator().over(), c.given_up) << "no worker is left";
    EXPECT_EQ(leader_->coordinator().state() == StatusReply::FAILED, c.failed);
  }
}

// etcd, which other servers reach as well: nothing is to be done on this server's disk.
TEST_F(RunLeaderTest, ASharedStoreThatIsAwayIsNoTroubleOfStorage) {
  for (const bool shared : {false, true}) {
    options_.shared_store = shared;
    store_fails_ = absl::OkStatus();
    store_answers_ = true;
    Make(TrainingRecord(1));
    Live(kPatience, CopyUnder(1, true), CopyUnder(1, false));
    JoinWorker("w");  // otherwise the run ends at once
    store_answers_ = false;
    store_fails_ = absl::UnavailableError("no answer");
    leader_->OnRequest(++request_, DrainRequest(), now_, &effects_);
    Live(std::chrono::seconds(3), CopyUnder(1, true), CopyUnder(1, false));
    EXPECT_EQ(Status().waits_for(), "waiting for the run store: no answer");
    EXPECT_EQ(Status().storage_trouble(), shared ? "" : "the run store: no answer");
    EXPECT_EQ(leader_->shared_store_is_away(), shared);
  }
}

// It was asked to stop before its server died.
TEST_F(RunLeaderTest, AStoppingRunThatLostAShardEnds) {
  RunRecord record = TrainingRecord(1);
  record.mutable_coordinator()->set_draining(true);
  record.mutable_coordinator()->set_state(StatusReply::DRAINING);
  record.mutable_shards(0)->set_entries(8);
  record.mutable_shards(0)->mutable_in_sync()->Truncate(1);
  Make(record);
  CopyState read;
  read.set_entries(7);
  Hear(1, read);
  EXPECT_TRUE(absl::IsDataLoss(leader_->deposed())) << leader_->deposed();
  EXPECT_THAT(std::string(leader_->deposed().message()), HasSubstr("the journal of shard 0"));
}

TEST_F(RunLeaderTest, PeopleHearWhyACopyThatIsHereCannotLead) {
  RunRecord record = TrainingRecord(1);
  record.mutable_shards(0)->set_entries(8);
  Make(record);
  CopyState read;
  read.set_entries(7);
  for (const Time end = now_ + 4 * kPatience; now_ < end; now_ += kTick) {
    Hear(1, read);
    Tick();
  }
  EXPECT_TRUE(leader_->deposed().ok()) << leader_->deposed();
  EXPECT_THAT(Status().waits_for(), HasSubstr("another server that has shard 0 (the journal of "
                                              "shard 0 ends at entry 7"));
}

}  // namespace
}  // namespace psgd
