// One suite over all stores of a run's record, and tests of failures that only etcd has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "net/etcd/etcd_run_store.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/rocks_run_store.h"
#include "tests/conformance/run_store/fake_etcd.h"
#include "tests/unit/data/scratch.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using As = RunStore::As;

constexpr Duration kSilence = std::chrono::seconds(1);

// The record of a run with one shard; `server` leads.
RunRecord RecordOf(uint64_t epoch, uint32_t server) {
  RunRecord record;
  record.set_run_id("of a test");
  record.set_epoch(epoch);
  record.set_leader(server);
  record.set_next_server(3);
  for (uint32_t number = 1; number < 3; ++number) {
    RunServer* const other = record.add_servers();
    other->set_server(number);
    other->set_address(absl::StrCat("host-", number, ":7070"));
  }
  record.add_shards()->set_epoch(1);
  return record;
}

RunRecord With(RunRecord record, uint32_t next_server) {
  record.set_next_server(next_server);
  return record;
}

RunPlan PlanOf(const std::string& model) {
  RunPlan plan;
  plan.mutable_model()->set_name(model);
  return plan;
}

class RunStores : public testing::TestWithParam<std::string> {
 protected:
  // Opens a store of the same run, as several servers do.
  std::shared_ptr<RunStore> Open() {
    if (GetParam() == "etcd") {
      return std::make_shared<EtcdRunStore>(
          EtcdOptions{.members = {etcd_.address()}, .credentials = {}}, "run", kSilence);
    }
    if (rocks_ == nullptr) rocks_ = *RocksRunStore::Create(scratch_.path() + "/store", true);
    return rocks_;
  }
  // Opens the store again, as after a crash of the process.
  void Reopen() {
    if (GetParam() == "etcd") return;
    rocks_.reset();
    rocks_ = *RocksRunStore::Open(scratch_.path() + "/store", true);
  }

  FakeEtcd etcd_;
  ScratchFolder scratch_;

 private:
  std::shared_ptr<RunStore> rocks_;
};

TEST_P(RunStores, HoldWhatTheyWereGiven) {
  auto store = Open();
  EXPECT_EQ(store->Read()->revision, 0);
  EXPECT_TRUE(absl::IsNotFound(store->ReadPlan().status()));
  const RunRecord record = RecordOf(1, 1);
  const auto first = store->Write(0, record, nullptr, As::kSuccessor);
  ASSERT_TRUE(first.ok()) << first.status();
  const RunPlan plan = PlanOf("mlp");
  const auto second = store->Write(*first, With(record, 4), &plan, As::kLeader);
  ASSERT_TRUE(second.ok()) << second.status();
  store.reset();
  Reopen();
  const auto held = Open()->Read();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->revision, *second);
  EXPECT_EQ(held->record.SerializeAsString(), With(record, 4).SerializeAsString());
  EXPECT_EQ(Open()->ReadPlan()->model().name(), "mlp");
  EXPECT_TRUE(Open()->Keep(1).ok());
}

TEST_P(RunStores, HoldLargeRecords) {
  const auto store = Open();
  RunRecord record = RecordOf(1, 1);
  record.mutable_coordinator()->set_drain_reason(std::string(6 << 20, 'x'));
  const auto revision = store->Write(0, record, nullptr, As::kSuccessor);
  ASSERT_TRUE(revision.ok()) << revision.status();
  const auto held = store->Read();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->record.ByteSizeLong(), record.ByteSizeLong());
  EXPECT_EQ(*store->Write(0, record, nullptr, As::kSuccessor), *revision);
}

TEST_P(RunStores, KeepThePlanThatAChangeDoesNotName) {
  const auto store = Open();
  const RunPlan plan = PlanOf("mlp");
  const int64_t revision = *store->Write(0, RecordOf(1, 1), &plan, As::kSuccessor);
  ASSERT_TRUE(store->Write(revision, RecordOf(2, 2), nullptr, As::kLeader).ok());
  EXPECT_EQ(store->ReadPlan()->model().name(), "mlp");
}

TEST_P(RunStores, RefuseAChangeOfWhatIsNoLongerThere) {
  const auto store = Open();
  const RunRecord record = RecordOf(1, 1);
  const int64_t first = *store->Write(0, record, nullptr, As::kSuccessor);
  EXPECT_TRUE(absl::IsAborted(store->Write(0, RecordOf(1, 2), nullptr, As::kSuccessor).status()));
  const int64_t second = *store->Write(first, With(record, 4), nullptr, As::kLeader);
  EXPECT_NE(first, second);
  EXPECT_TRUE(absl::IsAborted(store->Write(first, With(record, 5), nullptr, As::kLeader).status()));
  EXPECT_EQ(store->Read()->record.next_server(), 4u);
}

TEST_P(RunStores, FindAChangeThatCameToPassBefore) {
  const auto store = Open();
  const int64_t first = *store->Write(0, RecordOf(1, 1), nullptr, As::kSuccessor);
  const int64_t second = *store->Write(first, With(RecordOf(1, 1), 4), nullptr, As::kLeader);
  const auto again = store->Write(first, With(RecordOf(1, 1), 4), nullptr, As::kLeader);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, second);
}

// Maps have no order, and equal records none of their own.
TEST_P(RunStores, FindAChangeWhateverTheOrderOfItsMaps) {
  const auto counted = [](bool upwards) {
    RunRecord record = RecordOf(1, 1);
    auto* const refused = record.mutable_coordinator()->mutable_total()->mutable_refused();
    for (int i = 0; i < 100; ++i) (*refused)[absl::StrCat("reason ", upwards ? i : 99 - i)] = 1;
    return record;
  };
  const auto store = Open();
  for (int round = 0; round < 10; ++round) {
    int64_t revision = store->Read()->revision;
    revision = *store->Write(revision, RecordOf(1, 1), nullptr, As::kLeader);
    const int64_t changed = *store->Write(revision, counted(true), nullptr, As::kLeader);
    const auto again = store->Write(revision, counted(false), nullptr, As::kLeader);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, changed);
  }
}

TEST_P(RunStores, SayWhoLeadsNoMore) {
  const auto store = Open();
  const int64_t first = *store->Write(0, RecordOf(1, 1), nullptr, As::kSuccessor);
  ASSERT_TRUE(Open()->Write(first, RecordOf(2, 2), nullptr, As::kLeader).ok());
  EXPECT_TRUE(Open()->Keep(2).ok());
  if (GetParam() == "etcd") etcd_.EndLeases();
  EXPECT_TRUE(absl::IsAborted(Open()->Keep(1)));
}

TEST_P(RunStores, OfSeveralChangesOneComesToPass) {
  RunRecord record = RecordOf(1, 1);
  int64_t revision = *Open()->Write(0, record, nullptr, As::kSuccessor);
  for (int round = 0; round < 20; ++round) {
    std::vector<absl::StatusOr<int64_t>> outcomes(4, absl::UnknownError(""));
    std::vector<RunRecord> changes;
    for (uint32_t i = 0; i < outcomes.size(); ++i) changes.push_back(With(record, 100 + i));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      threads.emplace_back([&, i, store = Open()] {
        outcomes[i] = store->Write(revision, changes[i], nullptr, As::kLeader);
      });
    }
    for (std::thread& thread : threads) thread.join();
    int came = 0;
    const int64_t before = revision;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      if (!outcomes[i].ok()) {
        EXPECT_TRUE(absl::IsAborted(outcomes[i].status())) << outcomes[i].status();
        continue;
      }
      if (*outcomes[i] == before) continue;  // the previous round wrote the same
      ++came;
      record = changes[i];
      revision = *outcomes[i];
    }
    ASSERT_EQ(came, 1);
    EXPECT_EQ(Open()->Read()->record.SerializeAsString(), record.SerializeAsString());
    record.set_epoch(record.epoch() + 1);
    revision = *Open()->Write(revision, record, nullptr, As::kLeader);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, RunStores, testing::Values("rocks", "etcd"),
                         [](const auto& info) { return info.param; });

TEST(RocksRunStore, SaysWhatAnEarlierVersionWrote) {
  ScratchFolder scratch;
  EXPECT_FALSE(RocksRunStore::Open(scratch.path() + "/none", false).ok());
}

class EtcdRuns : public testing::Test {
 protected:
  EtcdRuns() { store_ = Open({etcd_.address()}); }
  static std::unique_ptr<EtcdRunStore> Open(std::vector<std::string> members) {
    return std::make_unique<EtcdRunStore>(
        EtcdOptions{.members = std::move(members), .credentials = {}}, "run", kSilence);
  }
  int64_t Begin() { return *store_->Write(0, RecordOf(1, 1), nullptr, As::kSuccessor); }

  FakeEtcd etcd_;
  std::unique_ptr<EtcdRunStore> store_;
};

TEST_F(EtcdRuns, NobodySucceedsALeaderWhoseLeaseRuns) {
  const int64_t revision = Begin();
  EXPECT_TRUE(store_->Read()->led);
  const auto other = Open({etcd_.address()});
  EXPECT_TRUE(
      absl::IsAborted(other->Write(revision, RecordOf(2, 2), nullptr, As::kSuccessor).status()));
  etcd_.EndLeases();
  EXPECT_FALSE(store_->Read()->led);
  const auto taken = other->Write(revision, RecordOf(2, 2), nullptr, As::kSuccessor);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_TRUE(store_->Read()->led);
  EXPECT_TRUE(absl::IsAborted(store_->Keep(1))) << "it leads no more";
  EXPECT_EQ(etcd_.Contents()["/psgd/run/leader"], "host-2:7070");
}

TEST_F(EtcdRuns, ASuccessorThatTriedBeforeLeadsForAWholeLease) {
  const int64_t revision = Begin();
  const auto other = Open({etcd_.address()});
  EXPECT_TRUE(
      absl::IsAborted(other->Write(revision, RecordOf(2, 2), nullptr, As::kSuccessor).status()));
  etcd_.PassSeconds(2);
  const auto taken = other->Write(revision, RecordOf(2, 2), nullptr, As::kSuccessor);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_TRUE(Open({etcd_.address()})->Read()->led);
}

// It goes on from the record that it wrote, under the next epoch.
TEST_F(EtcdRuns, ASuccessorWhoseAnswerWasLostTakesTheLeadAgain) {
  const int64_t revision = Begin();
  const auto other = Open({etcd_.address()});
  etcd_.EndLeases();
  etcd_.LoseAnswers(2);
  ASSERT_FALSE(other->Write(revision, RecordOf(2, 2), nullptr, As::kSuccessor).ok());
  etcd_.LoseAnswers(0);
  const RunStore::Held held = *other->Read();
  ASSERT_EQ(held.record.epoch(), 2u) << "the lost answer was that of a success";
  for (int again = 0; again < 2; ++again) {
    etcd_.PassSeconds(again);
    EXPECT_TRUE(absl::IsAborted(
        store_->Write(held.revision, RecordOf(3, 1), nullptr, As::kSuccessor).status()));
  }
  const auto taken = other->Write(held.revision, RecordOf(3, 2), nullptr, As::kSuccessor);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_TRUE(other->Keep(3).ok());
  EXPECT_TRUE(store_->Read()->led);
}

// Names of runs repeat, and each run counts its epochs from 1.
TEST_F(EtcdRuns, ALeaderDoesNotKeepTheLeadOfALaterRunOfTheSameName) {
  const int64_t revision = Begin();
  ASSERT_TRUE(store_->Remove(revision).ok());
  RunRecord later = RecordOf(1, 2);
  later.set_run_id("of the next test");
  ASSERT_TRUE(Open({etcd_.address()})->Write(0, later, nullptr, As::kSuccessor).ok());
  etcd_.EndLeases();
  EXPECT_TRUE(absl::IsAborted(store_->Keep(1)));
  EXPECT_NE(etcd_.Contents()["/psgd/run/leader"], "host-1:7070");
}

TEST_F(EtcdRuns, ALeaseThatIsNotRenewedInTimeIsNotWaitedFor) {
  const int64_t revision = Begin();
  etcd_.PassSeconds(1);
  EXPECT_TRUE(store_->Read()->led);
  ASSERT_TRUE(store_->Keep(1).ok());
  etcd_.PassSeconds(1);
  EXPECT_TRUE(store_->Read()->led) << "it was renewed before";
  etcd_.PassSeconds(1);
  EXPECT_FALSE(store_->Read()->led);
  const auto taken =
      Open({etcd_.address()})->Write(revision, RecordOf(2, 2), nullptr, As::kSuccessor);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(etcd_.Contents()["/psgd/run/leader"], "host-2:7070");
  EXPECT_EQ(etcd_.leases(), 1u) << "the new leader's";
}

TEST_F(EtcdRuns, ALeaderThatRenewsAgainBeforeItIsSucceededStays) {
  const int64_t revision = Begin();
  etcd_.PassSeconds(2);
  EXPECT_FALSE(store_->Read()->led);
  ASSERT_TRUE(store_->Keep(1).ok());
  EXPECT_TRUE(store_->Read()->led);
  EXPECT_TRUE(absl::IsAborted(
      Open({etcd_.address()})->Write(revision, RecordOf(2, 2), nullptr, As::kSuccessor).status()));
  EXPECT_TRUE(store_->Keep(1).ok());
}

TEST_F(EtcdRuns, ALeaderWhoseLeaseRanOutTakesAnotherIfNobodyElseLeads) {
  const int64_t revision = Begin();
  etcd_.EndLeases();
  ASSERT_TRUE(store_->Keep(1).ok());
  EXPECT_TRUE(store_->Read()->led);
  etcd_.EndLeases();
  EXPECT_TRUE(store_->Write(revision, With(RecordOf(1, 1), 9), nullptr, As::kLeader).ok());
  EXPECT_TRUE(store_->Read()->led);
}

// The answer to the leader's own last change may be lost.
TEST_F(EtcdRuns, ALeaderIsKnownByItsEpochAndNotByWhatItLastHeard) {
  const int64_t revision = Begin();
  etcd_.LoseAnswers(1);
  EXPECT_TRUE(absl::IsUnavailable(
      store_->Write(revision, With(RecordOf(1, 1), 9), nullptr, As::kLeader).status()));
  etcd_.EndLeases();
  EXPECT_TRUE(store_->Keep(1).ok());
  EXPECT_TRUE(store_->Read()->led);
}

TEST_F(EtcdRuns, AChangeWhoseAnswerWasLostIsFoundToHaveComeToPass) {
  const int64_t revision = Begin();
  etcd_.LoseAnswers(1);
  const RunRecord next = With(RecordOf(1, 1), 9);
  EXPECT_TRUE(absl::IsUnavailable(store_->Write(revision, next, nullptr, As::kLeader).status()));
  const auto again = store_->Write(revision, next, nullptr, As::kLeader);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, store_->Read()->revision);
  EXPECT_EQ(store_->Read()->record.next_server(), 9u);
}

TEST_F(EtcdRuns, OfARunThatIsOverItsIdIsLeft) {
  const RunPlan plan = PlanOf("mlp");
  const int64_t revision = *store_->Write(0, RecordOf(1, 1), &plan, As::kSuccessor);
  EXPECT_TRUE(absl::IsAborted(store_->Remove(revision + 7)));
  EXPECT_TRUE(store_->Remove(revision).ok());
  EXPECT_EQ(store_->Read()->revision, 0);
  EXPECT_EQ(store_->Read()->ended, "of a test");
  EXPECT_THAT(etcd_.Contents(), ElementsAre(testing::Pair("/psgd/run/ended", "of a test")));
  EXPECT_EQ(etcd_.leases(), 0u);
  EXPECT_TRUE(store_->Write(0, RecordOf(1, 1), nullptr, As::kSuccessor).ok()) << "its name is free";
}

TEST_F(EtcdRuns, OneThatIsAwayIsSaidToBe) {
  Begin();
  etcd_.SetAway(true);
  const auto held = store_->Read();
  ASSERT_TRUE(absl::IsUnavailable(held.status())) << held.status();
  EXPECT_THAT(std::string(held.status().message()), HasSubstr("etcd at " + etcd_.address()));
  EXPECT_THAT(std::string(held.status().message()), HasSubstr("is it running there"));
  etcd_.SetAway(false);
  EXPECT_TRUE(store_->Keep(1).ok());
}

// Each as etcd 3.4 says it: beyond its limit, and far beyond.
TEST_F(EtcdRuns, ARecordThatIsTooLargeIsSaidToBe) {
  const int64_t revision = Begin();
  for (const grpc::Status& refusal :
       {grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "etcdserver: request is too large"),
        grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                     "grpc: received message larger than max (2500008 vs. 2097152)")}) {
    etcd_.Refuse(refusal);
    RunRecord record = RecordOf(1, 1);
    record.mutable_coordinator()->set_drain_reason(std::string(1700000, 'x'));
    const absl::Status status = store_->Write(revision, record, nullptr, As::kLeader).status();
    EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
    for (const std::string& part :
         {std::string("the record of run run"), std::string("1.70 MB"),
          "etcd at " + etcd_.address(), refusal.error_message(),
          std::string("start each of its members with --max-request-bytes=33554432")}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
  }
}

TEST_F(EtcdRuns, OneThatIsFullIsSaidToBe) {
  const int64_t revision = Begin();
  etcd_.Refuse({grpc::StatusCode::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"});
  const absl::Status status =
      store_->Write(revision, RecordOf(1, 1), nullptr, As::kLeader).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << "it may get room: " << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(etcd_.address() + " is full"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--auto-compaction-mode=revision"));
  etcd_.Refuse({grpc::StatusCode::RESOURCE_EXHAUSTED, "etcdserver: too many requests"});
  EXPECT_TRUE(
      absl::IsUnavailable(store_->Write(revision, RecordOf(1, 1), nullptr, As::kLeader).status()));
  etcd_.Refuse(grpc::Status::OK);
  EXPECT_TRUE(store_->Write(revision, RecordOf(1, 1), nullptr, As::kLeader).ok());
}

TEST_F(EtcdRuns, OfSeveralMembersThoseThatAnswerDo) {
  const int64_t revision = Begin();
  const auto several = Open({"127.0.0.1:1", etcd_.address()});
  const auto held = several->Read();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->revision, revision);
}

TEST_F(EtcdRuns, WhatIsNotEtcdIsSaidNotToBe) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  etcdserverpb::Lease::Service another;
  builder.RegisterService(&another);
  const auto server = builder.BuildAndStart();
  const auto held = Open({absl::StrCat("127.0.0.1:", port)})->Read();
  EXPECT_TRUE(absl::IsFailedPrecondition(held.status())) << held.status();
  EXPECT_THAT(std::string(held.status().message()), HasSubstr("is not etcd with its v3 interface"));
}

TEST_F(EtcdRuns, WhatIsNoRecordIsSaidNotToBe) {
  RunRecord no_leader = RecordOf(1, 7), no_shards = RecordOf(1, 1), no_epoch = RecordOf(0, 1);
  no_shards.clear_shards();
  for (const std::string& value : {std::string(), std::string("{}"), no_leader.SerializeAsString(),
                                   no_shards.SerializeAsString(), no_epoch.SerializeAsString()}) {
    etcd_.Write("/psgd/run/record", value);
    const auto held = store_->Read();
    ASSERT_TRUE(absl::IsFailedPrecondition(held.status())) << value << ": " << held.status();
    EXPECT_THAT(std::string(held.status().message()), HasSubstr("under /psgd/run/record"));
  }
}

TEST_F(EtcdRuns, ServersOfARunAreFoundByItsName) {
  EXPECT_TRUE(absl::IsNotFound(ServersOf(*store_, "run").status()));
  ASSERT_TRUE(store_->Write(0, RecordOf(1, 2), nullptr, As::kSuccessor).ok());
  EXPECT_THAT(*ServersOf(*store_, "run"), ElementsAre("host-2:7070", "host-1:7070"));
  RunRecord one_is_gone = RecordOf(1, 2);
  one_is_gone.mutable_servers(0)->set_gone(true);
  ASSERT_TRUE(store_->Write(store_->Read()->revision, one_is_gone, nullptr, As::kLeader).ok());
  EXPECT_THAT(*ServersOf(*store_, "run"), ElementsAre("host-2:7070"));
  EXPECT_TRUE(CheckRunName("fashion-mnist_2.0").ok());
  for (const char* name : {"", "a/b", "a b", "../x"}) {
    EXPECT_EQ(CheckRunName(name).ok(), false) << name;
  }
}

TEST(ParseEtcd, TakesWhatPeopleWrite) {
  const auto credentials = std::make_shared<const Credentials>();
  EXPECT_THAT(ParseEtcd("a:1,http://b:2", nullptr)->members, ElementsAre("a:1", "b:2"));
  EXPECT_EQ(ParseEtcd("127.0.0.1:2379", credentials)->credentials, nullptr);
  EXPECT_EQ(ParseEtcd("https://a:1,https://b:2", credentials)->credentials, credentials);
  for (const char* bad : {"", "a", "a:0", "a:1,", "https://a:1,b:2", "https://a:1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseEtcd(bad, nullptr).status())) << bad;
  }
  const absl::Status open = ParseEtcd("a:1", credentials).status();
  EXPECT_THAT(std::string(open.message()), HasSubstr("write https://a:1"));
}

}  // namespace
}  // namespace psgd
