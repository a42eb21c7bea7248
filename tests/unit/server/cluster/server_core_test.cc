// What a server makes of the run store.
#include "server/cluster/server_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::HasSubstr;

constexpr Time kNow = std::chrono::hours(1);

ServerCoreOptions Options(bool begins) {
  ServerCoreOptions options;
  options.self.set_identity(101);
  options.self.set_name("m1");
  options.self.set_address("host-1:7070");
  options.run_id = "run-id";
  options.begins = begins;
  options.may_lead = true;
  options.leader.patience = std::chrono::seconds(1);
  options.leader.coordinator.config.mutable_cluster()->set_shards(1);
  return options;
}

template <typename Effect>
std::vector<Effect> All(const ServerEffects& effects) {
  std::vector<Effect> found;
  for (const ServerEffect& effect : effects) {
    if (const auto* of_kind = std::get_if<Effect>(&effect)) found.push_back(*of_kind);
  }
  return found;
}

// Whoever deletes the keys of a run in etcd ends it, and the server that led it says so.
TEST(ServerCore, ARecordThatIsGoneIsNoEndOfARun) {
  ServerCore core(Options(true));
  ServerEffects effects;
  core.Start(kNow, &effects);
  const auto writes = All<effect::WriteStore>(effects);
  ASSERT_EQ(writes.size(), 1u);
  effects.clear();
  core.OnStoreWritten(writes[0].number, 1, kNow, &effects);
  ASSERT_NE(core.leader(), nullptr);
  core.OnLeaseKept(1, absl::AbortedError("somebody else changed the record"), &effects);
  ASSERT_EQ(core.leader(), nullptr);
  effects.clear();
  core.OnStoreRead(RunStore::Held{}, nullptr, kNow, &effects);
  const auto ends = All<effect::End>(effects);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_TRUE(absl::IsDataLoss(ends[0].why)) << ends[0].why;
  EXPECT_THAT(std::string(ends[0].why.message()), HasSubstr("the run's record is gone"));
}

// The store counts from when it was asked. A server that counts from a late answer believes in its
// lease for too long, and ends a run that another one leads by now.
TEST(ServerCore, ALeaseCountsFromWhenTheStoreWasAsked) {
  ServerCore core(Options(true));
  ServerEffects effects;
  const auto written = [&](const absl::StatusOr<int64_t>& revision, Time now) {
    core.OnStoreWritten(All<effect::WriteStore>(effects).back().number, revision, now, &effects);
  };
  const absl::Status too_large = absl::OutOfRangeError("the record is too large");
  core.Start(kNow, &effects);
  written(1, kNow);
  core.Tick(kNow, &effects);
  EXPECT_EQ(All<effect::KeepLease>(effects).size(), 1u);
  const Time late = kNow + Options(true).leader.patience;
  core.Tick(late, &effects);
  EXPECT_EQ(All<effect::KeepLease>(effects).size(), 1u) << "one is under way";
  core.OnLeaseKept(1, absl::OkStatus(), &effects);
  written(too_large, late);
  ASSERT_NE(core.leader(), nullptr) << "another server may lead";

  core.Tick(late + Milliseconds(100), &effects);
  EXPECT_EQ(All<effect::KeepLease>(effects).size(), 2u);
  core.OnLeaseKept(1, absl::OkStatus(), &effects);
  written(too_large, late + Milliseconds(200));
  EXPECT_EQ(core.leader(), nullptr);
  ASSERT_EQ(All<effect::End>(effects).size(), 1u);
  EXPECT_EQ(All<effect::End>(effects)[0].why, too_large);
}

// Only the server that began the run has read the checkpoint.
TEST(ServerCore, ARunFromACheckpointDoesNotBeginWithoutIt) {
  ServerCoreOptions options = Options(true);
  options.leader.coordinator.resume.emplace().checkpoint = 7;
  ServerCore first(std::move(options));
  ServerEffects effects;
  first.Start(kNow, &effects);
  RunStore::Held held;
  held.revision = 1;
  held.record = All<effect::WriteStore>(effects).at(0).record;
  RunServer* const joined = held.record.add_servers();
  joined->set_server(2);
  joined->set_identity(102);

  ServerCoreOptions of_joined = Options(false);
  of_joined.self.set_identity(102);
  ServerCore second(std::move(of_joined));
  second.Start(kNow, &effects);
  effects.clear();
  // The first server may only stand still.
  second.OnStoreRead(held, nullptr, kNow, &effects);
  second.OnStoreRead(held, nullptr, kNow, &effects);
  const auto news = All<effect::News>(effects);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_THAT(news[0].text, HasSubstr("checkpoint 7, and only server 1"));
  EXPECT_THAT(All<effect::WriteStore>(effects), testing::IsEmpty());
  // It was restarted, and no longer has the checkpoint.
  ServerCore restarted(Options(false));
  restarted.Start(kNow, &effects);
  effects.clear();
  restarted.OnStoreRead(held, nullptr, kNow, &effects);
  const auto ends = All<effect::End>(effects);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_THAT(std::string(ends[0].why.message()), HasSubstr("checkpoint 7"));
}

// It was frozen for longer than the run lasted, say.
TEST(ServerCore, ARunThatWasEndedIsOver) {
  ServerCoreOptions options = Options(false);
  options.was_part = true;
  ServerCore core(std::move(options));
  ServerEffects effects;
  core.Start(kNow, &effects);
  RunStore::Held held;
  held.ended = "run-id";
  core.OnStoreRead(held, nullptr, kNow, &effects);
  const auto ends = All<effect::End>(effects);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_TRUE(ends[0].why.ok());
}

// With hundreds of shards a state for each report would take all of the server's time.
TEST(ServerCore, ReportsOfManyCopiesAreOneState) {
  ServerCore core(Options(false));
  std::vector<CopyState> copies(3);
  for (uint32_t shard = 0; shard < 3; ++shard) {
    copies[shard].set_shard(shard);
    copies[shard].set_epoch(1);
  }
  ServerEffects effects;
  core.OnCopies(copies, kNow, &effects);
  const auto states = All<effect::SendState>(effects);
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].state.copies_size(), 3);
}

TEST(ServerCore, TroubleWithTheStoreIsToldOnceAndTriedAgain) {
  ServerCore core(Options(true));
  ServerEffects effects;
  core.Start(kNow, &effects);
  int told = 0, tried = 0;
  for (Time now = kNow; now < kNow + std::chrono::seconds(2); now += Milliseconds(20)) {
    const ServerEffects before = std::exchange(effects, {});
    for (const auto& write : All<effect::WriteStore>(before)) {
      ++tried;
      core.OnStoreWritten(write.number, absl::UnavailableError("no etcd at host-9"), now, &effects);
    }
    for (const auto& news : All<effect::News>(effects)) {
      ++told;
      EXPECT_EQ(news.text, "the run store: no etcd at host-9");
    }
    core.Tick(now, &effects);
  }
  EXPECT_EQ(told, 1);
  EXPECT_GT(tried, 5);
  EXPECT_LT(tried, 40) << "it pauses between two tries";
}

class TakeoverTest : public testing::Test {
 protected:
  // The leader of the run is gone, and the server tries to lead. Returns the number of its write.
  uint64_t TryToLead() {
    effects_.clear();
    core_.OnStoreRead(Held(), nullptr, now_, &effects_);
    const auto writes = All<effect::WriteStore>(effects_);
    EXPECT_EQ(writes.size(), 1u);
    EXPECT_EQ(writes[0].as, RunStore::As::kSuccessor);
    EXPECT_EQ(writes[0].record.epoch(), 2u);
    effects_.clear();
    return writes[0].number;
  }
  static RunStore::Held Held() {
    RunStore::Held held;
    held.revision = 5;
    held.record = FirstRecord("run-id", Options(false).self, 1);
    return held;
  }
  // The next read of the store within ten times the patience.
  bool ReadsAgain() {
    for (const Time end = now_ + std::chrono::seconds(10); now_ < end; now_ += Milliseconds(20)) {
      core_.Tick(now_, &effects_);
      if (!All<effect::ReadStore>(effects_).empty()) return true;
    }
    return false;
  }

  Time now_ = kNow;
  ServerCore core_{Options(false)};
  ServerEffects effects_;
};

// Otherwise each server would fail in the same way, and people would not learn why the run stands
// still.
TEST_F(TakeoverTest, OfARunWhoseRecordIsTooLargeEndsAndSaysWhy) {
  core_.OnStoreWritten(TryToLead(), absl::OutOfRangeError("the record is too large"), now_,
                       &effects_);
  const auto ends = All<effect::End>(effects_);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].why, absl::OutOfRangeError("the record is too large"));
  EXPECT_EQ(core_.leader(), nullptr);
  EXPECT_FALSE(ReadsAgain());
}

TEST_F(TakeoverTest, WaitsForAStoreThatIsFull) {
  for (int i = 0; i < 3; ++i) {
    core_.OnStoreWritten(TryToLead(), absl::UnavailableError("etcd is full"), now_, &effects_);
    EXPECT_EQ(All<effect::News>(effects_).size(), i == 0 ? 1u : 0u) << "people hear of it once";
    EXPECT_TRUE(All<effect::End>(effects_).empty());
    ASSERT_TRUE(ReadsAgain());
  }
  core_.OnStoreWritten(TryToLead(), 6, now_, &effects_);
  ASSERT_NE(core_.leader(), nullptr);
  EXPECT_EQ(core_.leader()->stored().epoch(), 2u);
}

// The parts that it wrote when it led before may be gone: another server led meanwhile.
TEST(ServerCore, APartThatWasWrittenUnderAnEarlierLeadershipDoesNotCount) {
  ServerCoreOptions options = Options(false);
  Config& config = options.leader.coordinator.config;
  config.mutable_cluster()->set_workers(1);
  config.mutable_cluster()->set_segment(4);
  config.mutable_cluster()->set_lease(20000);
  config.mutable_cluster()->set_deadline(60000);
  config.mutable_train()->set_epochs(2);
  config.mutable_durability()->set_acknowledge(DurabilityConfig::JOURNAL);
  RunStore::Held held;
  held.revision = 5;
  held.record = FirstRecord("run-id", options.self, 1);
  held.record.set_has_plan(true);
  CoordinatorRecord* const coordinator = held.record.mutable_coordinator();
  coordinator->set_batches_per_epoch(10);
  coordinator->set_next_checkpoint(4);
  coordinator->set_state(StatusReply::TRAINING);
  coordinator->mutable_ledger()->set_next_id(1);
  coordinator->mutable_under_way()->set_id(3);
  RunPlan plan;
  plan.mutable_model()->add_parameters()->set_name("w");
  plan.mutable_model()->mutable_parameters(0)->add_shape(4);
  plan.mutable_placement()->add_slices()->set_count(4);

  ServerCore core(std::move(options));
  ServerEffects effects;
  CopyState copy;
  copy.set_epoch(1);
  copy.set_leads(true);
  copy.set_endpoint("tcp://somewhere:1");
  core.OnCopies({&copy, 1}, kNow, &effects);
  core.OnStoreRead(held, &plan, kNow, &effects);
  core.OnStoreWritten(All<effect::WriteStore>(effects).back().number, 6, kNow, &effects);
  ASSERT_NE(core.leader(), nullptr);
  EXPECT_TRUE(core.OnPartCame(3, 0, &effects));
  const auto parts = All<effect::WritePart>(effects);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].run_epoch, 2u);
  core.OnPart({3, 0, 1}, ShardReceipt(), kNow, &effects);
  EXPECT_TRUE(All<effect::SealCheckpoint>(effects).empty());
  core.OnPart(parts[0], ShardReceipt(), kNow, &effects);
  ASSERT_EQ(All<effect::SealCheckpoint>(effects).size(), 1u);
  EXPECT_EQ(All<effect::SealCheckpoint>(effects)[0].run_epoch, 2u);
  core.OnSealed(1, 3, SealedCheckpoint(), kNow, &effects);
  EXPECT_TRUE(core.leader()->coordinator().checkpoint_under_way());
  core.OnSealed(2, 3, SealedCheckpoint(), kNow, &effects);
  EXPECT_FALSE(core.leader()->coordinator().checkpoint_under_way());
}

// A leader that dies or is restarted has lost the parts that it did not write yet.
TEST(ServerCore, ACutIsGivenToEachLeaderUntilItsCheckpointIsDone) {
  ServerCore core(Options(false));
  ServerEffects effects;
  EXPECT_TRUE(core.OnCut(2, 5, &effects));
  ASSERT_EQ(All<effect::SendPart>(effects).size(), 1u);
  EXPECT_EQ(All<effect::SendPart>(effects)[0].shard, 2u);
  EXPECT_EQ(All<effect::SendPart>(effects)[0].checkpoint, 5u);

  effects.clear();
  core.OnConnected(kNow, &effects);
  EXPECT_EQ(All<effect::SendPart>(effects).size(), 1u);

  Assignment done;
  done.set_run_epoch(1);
  done.set_revision(1);
  done.set_checkpoint_done(5);
  core.OnAssignment(done, kNow, &effects);
  effects.clear();
  core.OnConnected(kNow, &effects);
  EXPECT_FALSE(core.OnCut(1, 5, &effects)) << "another shard's part could not be written, say";
  EXPECT_TRUE(All<effect::SendPart>(effects).empty());
}

// Its journal would be deleted with the old one's.
// It was added and dropped while this server stood still.
TEST(ServerCore, ACopyThatHasNotReportedYetIsDropped) {
  ServerCore core(Options(false));
  ServerEffects effects;
  Assignment assignment;
  assignment.set_run_epoch(1);
  assignment.set_revision(1);
  assignment.add_copies()->set_shard(5);
  assignment.mutable_copies(0)->set_epoch(1);
  core.OnAssignment(assignment, kNow, &effects);
  assignment.set_revision(2);
  assignment.clear_copies();
  core.OnAssignment(assignment, kNow, &effects);
  ASSERT_EQ(All<effect::DropCopy>(effects).size(), 1u);
  EXPECT_EQ(All<effect::DropCopy>(effects)[0].shard, 5u);
}

TEST(ServerCore, ANewCopyWaitsUntilTheOldOneIsGone) {
  ServerCore core(Options(false));
  CopyState state;
  state.set_shard(4);
  ServerEffects effects;
  core.OnCopies({&state, 1}, kNow, &effects);
  Assignment assignment;
  assignment.set_run_epoch(1);
  const auto assign = [&](uint64_t revision) {
    effects.clear();
    assignment.set_revision(revision);
    core.OnAssignment(assignment, kNow, &effects);
  };
  assign(1);
  EXPECT_EQ(All<effect::DropCopy>(effects).size(), 1u);
  assign(2);
  EXPECT_TRUE(All<effect::DropCopy>(effects).empty()) << "it is under way";
  AssignedCopy* const copy = assignment.add_copies();
  copy->set_shard(4);
  copy->set_epoch(2);
  assign(3);
  EXPECT_TRUE(All<effect::HaveCopy>(effects).empty());
  effects.clear();
  core.OnDropped(4, kNow, &effects);
  ASSERT_EQ(All<effect::HaveCopy>(effects).size(), 1u);
  EXPECT_EQ(All<effect::HaveCopy>(effects)[0].copy.epoch(), 2u);
  assign(4);
  EXPECT_EQ(All<effect::HaveCopy>(effects).size(), 1u);
}

TEST(ServerCore, OnlyTheRunsLeaderTakesParts) {
  ServerCore core(Options(false));
  ServerEffects effects;
  EXPECT_FALSE(core.OnPartCame(5, 0, &effects));
  EXPECT_TRUE(effects.empty());
}

}  // namespace
}  // namespace psgd
