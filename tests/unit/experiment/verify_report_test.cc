#include "experiment/launch/verify_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/records.h"
#include "experiment/record/run_dir.h"
#include "server/durability/journal_folder.h"
#include "server/durability/rocks_journal.h"
#include "server/durability/rocks_run_store.h"
#include "server/durability/server_record.h"
#include "tests/unit/server/durability/small_journal.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class VerifyReportTest : public testing::Test {
 protected:
  VerifyReportTest() {
    fs::create_directories(run_.ServerDir());
    std::ofstream(run_.ConfigFile()) << "durability: {acknowledge: journal}\n";
  }
  ~VerifyReportTest() override { fs::remove_all(run_.path()); }

  std::string Journal(const std::string& part) const {
    return run_.ServerDir() + "/journal/" + part;
  }
  void MakeShard(uint32_t shard) const {
    MakeSmallJournal({Journal(absl::StrCat("shard-", shard)), shard});
  }
  RunRecord RecordOf(const std::vector<uint32_t>& leaders) const {
    RunRecord record;
    record.set_leader(1);
    record.set_has_plan(true);
    for (const uint32_t leader : leaders) {
      ShardCopies* const shard = record.add_shards();
      shard->set_leader(leader);
      shard->add_in_sync(leader);
      shard->add_copies(leader);
    }
    return record;
  }
  void Save(const RunRecord& record) const {
    MakeServer(true);
    const auto store = RocksRunStore::Create(Journal("coordinator"), false);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Write(0, record, nullptr, RunStore::As::kSuccessor).ok());
  }
  // `leaders`: for each shard, the server that leads it.
  void MakeCoordinator(const std::vector<uint32_t>& leaders) const { Save(RecordOf(leaders)); }
  // Each shard has an image and no entries.
  void MakeShardsThatHad(const std::vector<uint64_t>& entries) const {
    RunRecord record = RecordOf(std::vector<uint32_t>(entries.size(), 1));
    for (uint32_t s = 0; s < entries.size(); ++s) {
      MakeShard(s);
      record.mutable_shards(static_cast<int>(s))->set_entries(entries[s]);
    }
    Save(record);
  }
  void MakeServer(bool keeps_run) const {
    fs::create_directories(Journal(""));
    ServerRecord record;
    record.set_identity(1);
    record.set_keeps_run(keeps_run);
    ASSERT_TRUE(SaveServerRecord(run_.ServerDir(), record).ok());
  }
  void MakeJoined() const { MakeServer(false); }
  // A further server of ps-run, with a shard; "server-2".
  void MakeInside(const std::string& name, uint32_t shard, const std::string& run_id = "") const {
    const RunDir dir(absl::StrCat(run_.path(), "/", name));
    fs::create_directories(dir.ServerDir() + "/journal");
    ServerRecord record;
    record.set_identity(2);
    record.set_run_id(run_id);
    ASSERT_TRUE(SaveServerRecord(dir.ServerDir(), record).ok());
    MakeSmallJournal({absl::StrCat(dir.ServerDir(), "/journal/shard-", shard), shard});
  }
  void Verify() {
    const auto run = VerifyRun(run_.path());
    ASSERT_TRUE(run.ok()) << run.status();
    text_ = VerifiedText(*run, false);
    json_ = Record::parse(VerifiedText(*run, true));
    status_ = VerifiedStatus(run_.path(), *run);
  }
  std::string StateOf(const std::string& part) const {
    for (const Record& one : json_["journal"]) {
      if (one["part"] == part) return one["state"];
    }
    return "";
  }
  std::string Advice() const { return std::string(status_.message()); }

  const RunDir run_{absl::StrCat(testing::TempDir(), "/psgd-verify-", getpid())};
  std::string text_;
  Record json_;
  absl::Status status_;
};

TEST_F(VerifyReportTest, OnlyShardsThatAreHereAreLookedAt) {
  MakeCoordinator({1, 2, 3});
  MakeShard(0);
  MakeShard(1);  // left over: the shard has moved away
  fs::remove(Journal("shard-1/log/CURRENT"));
  Verify();
  EXPECT_TRUE(status_.ok()) << status_ << text_;
  EXPECT_THAT(text_,
              AllOf(HasSubstr("on server 2"), HasSubstr("on server 3"), Not(HasSubstr("damaged"))));
  EXPECT_EQ(StateOf("shard 0"), "sound");
  EXPECT_EQ(json_["journal"][2]["server"], 2);
  fs::remove_all(Journal("shard-0"));
  Verify();
  EXPECT_EQ(StateOf("shard 0"), "damaged");
  EXPECT_THAT(
      text_, AllOf(HasSubstr("shard-0 is missing; was it deleted"), Not(HasSubstr("permissions"))));
  EXPECT_THAT(Advice(),
              AllOf(HasSubstr("--recover would refuse it"), HasSubstr("restore it from a copy")));
}

TEST_F(VerifyReportTest, ACopyThatFollowsIsLookedAt) {
  RunRecord record = RecordOf({2});
  record.mutable_shards(0)->add_copies(1);
  record.mutable_shards(0)->set_entries(100);  // entries of the leading copy
  Save(record);
  MakeShard(0);
  Verify();
  EXPECT_EQ(StateOf("shard 0"), "sound");
}

TEST_F(VerifyReportTest, AServerThatJoinedHasNoCoordinator) {
  MakeJoined();
  MakeShard(1);
  MakeShard(3);
  Verify();
  EXPECT_TRUE(status_.ok()) << status_ << text_;
  EXPECT_EQ(json_["journal"].size(), 2u);
  EXPECT_EQ(StateOf("shard 3"), "sound");
  fs::remove_all(Journal("shard-3/log"));
  Verify();
  EXPECT_EQ(StateOf("shard 3"), "damaged");
  EXPECT_THAT(Advice(), HasSubstr("--join would refuse it"));
  fs::remove_all(Journal("shard-1"));
  fs::remove_all(Journal("shard-3"));
  Verify();
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_THAT(text_, HasSubstr("holds no shard of it"));
  std::ofstream(Journal("server")) << "\xff\xff\xff";
  Verify();
  EXPECT_EQ(StateOf("server"), "damaged");
  std::ofstream(run_.ConfigFile()) << "durability: {acknowledge: memory}\n";
  Verify();
  EXPECT_TRUE(status_.ok()) << status_;
}

TEST_F(VerifyReportTest, TheRecordOfARunWithItsOwnEtcdIsLookedFor) {
  std::ofstream(run_.ConfigFile())
      << "durability: {acknowledge: journal}\ncluster: {servers: 2, copies: 2}\n";
  MakeJoined();
  MakeShard(0);
  Verify();
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_THAT(text_, AllOf(HasSubstr("the run's record is not in"), HasSubstr("psgd-etcd-*/data"),
                           HasSubstr("--recover " + run_.path() + " --etcd HOST:PORT")));
  std::ofstream(run_.ServerDir() + "/etcd.log") << "etcd ran here\n";
  Verify();
  EXPECT_EQ(status_.code(), absl::StatusCode::kDataLoss) << status_;
  EXPECT_THAT(Advice(), HasSubstr("restore " + run_.ServerDir() + "/etcd from a copy"));
  fs::create_directories(run_.ServerDir() + "/etcd/member");
  Verify();
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_THAT(text_, HasSubstr("goes on with:  ps-run --resume " + run_.path()));
  std::ofstream(run_.ConfigFile())
      << "durability: {acknowledge: memory}\ncluster: {servers: 2, copies: 2}\n";
  Verify();
  EXPECT_EQ(status_.code(), absl::StatusCode::kNotFound) << "nothing goes on: " << status_;
}

TEST_F(VerifyReportTest, FurtherServersInTheRunDirectoryAreLookedAt) {
  MakeCoordinator({1, 2});
  MakeShard(0);
  MakeInside("server-2", 1);
  MakeInside("server-3", 1, "another run");
  fs::remove_all(run_.path() + "/server-3/server/journal/shard-1/log");
  Verify();
  EXPECT_TRUE(status_.ok()) << status_ << text_;
  EXPECT_THAT(text_, AllOf(HasSubstr("server-2: shard 1"), Not(HasSubstr("server-3"))));
  EXPECT_EQ(json_["journal"].back()["folder"], "server-2");
  EXPECT_EQ(json_["journal"].back()["state"], "sound");
  fs::remove_all(run_.path() + "/server-2/server/journal/shard-1/log");
  Verify();
  EXPECT_EQ(status_.code(), absl::StatusCode::kDataLoss) << status_;
  EXPECT_THAT(text_, HasSubstr(run_.path() + "/server-2/server/journal/shard-1"));
  EXPECT_THAT(Advice(), HasSubstr("the journal of " + run_.path() +
                                  "/server-2 is damaged; --join would refuse it"));
}

TEST_F(VerifyReportTest, AServerWhoseRunAnotherOneTookOverDoesNotCount) {
  std::ofstream(run_.ConfigFile())
      << "durability: {acknowledge: journal}\ncluster: {servers: 2, copies: 2}\n";
  MakeJoined();
  MakeShard(0);
  MakeInside("server-2", 0);
  fs::create_directories(run_.ServerDir() + "/etcd/member");
  std::ofstream(run_.ServerDir() + "/etcd.log") << "etcd ran here\n";
  fs::remove_all(Journal("shard-0/log"));
  Verify();
  EXPECT_EQ(status_.code(), absl::StatusCode::kDataLoss) << "it leads: " << status_;
  std::ofstream(run_.LeaderFile()) << "server-2";
  Verify();
  EXPECT_TRUE(status_.ok()) << status_ << text_;
  EXPECT_EQ(json_["journal"].size(), 1u) << text_;
  EXPECT_THAT(text_, AllOf(HasSubstr("server-2 took over from the server of " + run_.path()),
                           HasSubstr("goes on with:  ps-run --resume " + run_.path())));
  fs::remove_all(run_.path() + "/server-2/server/journal/shard-0/log");
  Verify();
  EXPECT_EQ(status_.code(), absl::StatusCode::kDataLoss) << status_;
  EXPECT_THAT(Advice(), HasSubstr("ps-run --resume " + run_.path() + " puts a new server in"));
}

TEST_F(VerifyReportTest, AJournalThatWasBeingCreatedIsNotDamaged) {
  MakeJoined();
  MakeShard(0);
  fs::create_directories(Journal("shard-1/log"));
  Verify();
  EXPECT_TRUE(status_.ok()) << status_ << text_;
  EXPECT_EQ(StateOf("shard 0"), "sound");
  EXPECT_EQ(StateOf("shard 1"), "holds nothing yet");
}

TEST_F(VerifyReportTest, AJournalThatIsPutBackIsLookedAt) {
  MakeCoordinator({1, 1});
  MakeShard(0);
  MakeShard(1);
  fs::rename(Journal("shard-0"), Journal("shard-0.before"));
  Verify();
  EXPECT_TRUE(status_.ok()) << status_ << text_;
  EXPECT_EQ(StateOf("shard 0.before"), "sound");
  // The server died before the first image of the new one was whole.
  ASSERT_TRUE(RocksJournal::Create({Journal("shard-0"), 0}).ok());
  Verify();
  EXPECT_TRUE(status_.ok()) << status_ << text_;
  EXPECT_EQ(StateOf("shard 0.before"), "sound");
  MakeShard(0);  // the server died before it removed the one that is aside
  Verify();
  EXPECT_EQ(StateOf("shard 0"), "sound");
  fs::remove_all(Journal("shard-0/log"));
  Verify();
  EXPECT_EQ(StateOf("shard 0"), "damaged") << "the one that is aside may lack acknowledged steps";
  EXPECT_THAT(Advice(), HasSubstr("--recover would refuse it"));
  fs::remove_all(Journal("shard-0"));
  fs::remove_all(Journal("shard-0.before/log"));
  Verify();
  EXPECT_EQ(StateOf("shard 0.before"), "damaged");
  EXPECT_THAT(Advice(), HasSubstr("--recover would refuse it"));
}

TEST_F(VerifyReportTest, AServerThatKeepsTheRunsRecordDidNotJoin) {
  MakeShard(0);
  MakeServer(true);
  Verify();
  EXPECT_EQ(StateOf("coordinator"), "damaged");
}

TEST_F(VerifyReportTest, AJournalWhoseEndIsGoneIsDamaged) {
  MakeShardsThatHad({0, 3});
  Verify();
  EXPECT_EQ(StateOf("shard 0"), "sound");
  EXPECT_EQ(StateOf("shard 1"), "damaged");
  EXPECT_THAT(
      text_,
      HasSubstr(
          "the journal of shard 1 ends at entry 0, and the run's record says that it had entry 3: "
          "its end is gone"));
  EXPECT_EQ(status_.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Advice(), HasSubstr("--recover would refuse it"));
}

TEST_F(VerifyReportTest, ACoordinatorThatIsGoneIsDamage) {
  MakeCoordinator({1});
  MakeShard(0);
  const auto expect_gone = [this] {
    Verify();
    EXPECT_EQ(StateOf("coordinator"), "damaged");
    EXPECT_EQ(StateOf("shard 0"), "sound");
    EXPECT_EQ(status_.code(), absl::StatusCode::kDataLoss) << status_;
    EXPECT_THAT(
        text_,
        AllOf(HasSubstr("coordinator holds no record of the coordinator, and training had begun"),
              HasSubstr("its shards have images")));
    EXPECT_THAT(Advice(), HasSubstr("--recover would refuse it"));
  };
  fs::remove_all(Journal("coordinator"));
  expect_gone();
  EXPECT_FALSE(fs::exists(Journal("coordinator"))) << "verify wrote something";
  fs::create_directories(Journal("coordinator"));
  expect_gone();
  ASSERT_TRUE(RocksRunStore::Create(Journal("coordinator"), false).ok());  // its log is gone
  expect_gone();
  fs::rename(Journal("shard-0"), Journal("shard-0") + kAsideSuffix);
  Verify();
  EXPECT_EQ(status_.code(), absl::StatusCode::kDataLoss) << status_;
  fs::rename(Journal("shard-0") + kAsideSuffix, Journal("shard-0"));
  fs::create_directories(run_.ServerDir() + "/checkpoint-000000000001");
  Verify();
  EXPECT_THAT(text_, AllOf(HasSubstr("the run has checkpoints"), HasSubstr("ps-run --resume")));
}

TEST_F(VerifyReportTest, ARunThatHadNotBegunHasNothingThatIsDamaged) {
  ASSERT_TRUE(RocksRunStore::Create(Journal("coordinator"), false).ok());
  Verify();
  EXPECT_EQ(json_["journal"].size(), 0u);
  EXPECT_FALSE(absl::IsDataLoss(status_)) << status_;
  // The server died between the shards' first images and the run's plan.
  MakeShard(0);
  RunRecord record = RecordOf({1});
  record.set_has_plan(false);
  Save(record);
  Verify();
  EXPECT_EQ(json_["journal"].size(), 0u);
  EXPECT_FALSE(absl::IsDataLoss(status_)) << status_;
  // A worker has trained, so the plan was there: the record's end is cut off.
  fs::remove_all(Journal("shard-0"));
  MakeSmallJournal({Journal("shard-0"), 0}, /*a_worker_pushed=*/true);
  Verify();
  EXPECT_EQ(StateOf("coordinator"), "damaged");
  EXPECT_EQ(status_.code(), absl::StatusCode::kDataLoss) << status_;
  EXPECT_THAT(text_, HasSubstr("its shards have updates"));
}

TEST_F(VerifyReportTest, MixedUpShardsAreDamage) {
  MakeCoordinator({1, 1});
  MakeShard(0);
  MakeShard(1);
  fs::rename(Journal("shard-0"), Journal("aside"));
  fs::rename(Journal("shard-1"), Journal("shard-0"));
  fs::rename(Journal("aside"), Journal("shard-1"));
  Verify();
  EXPECT_EQ(status_.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(StateOf("shard 0"), "misplaced");
  EXPECT_THAT(text_, HasSubstr("holds the journal of shard 1, not of shard 0"));
  EXPECT_THAT(Advice(),
              AllOf(HasSubstr("rename them as said above"), Not(HasSubstr("from a copy"))));
}

TEST_F(VerifyReportTest, AShardUnderAnotherNameIsToBeRenamed) {
  MakeCoordinator({1, 1});
  MakeShard(0);
  MakeShard(1);
  fs::rename(Journal("shard-1"), Journal("shard-01"));
  Verify();
  EXPECT_EQ(StateOf("shard 0"), "sound");
  EXPECT_EQ(StateOf("shard 1"), "misplaced");
  EXPECT_THAT(text_, AllOf(HasSubstr("shard-1 is missing; beside it lies shard-01, "),
                           HasSubstr(" to shard-1\n")));
  EXPECT_THAT(Advice(), HasSubstr("rename them as said above"));
  fs::rename(Journal("shard-01"), Journal("shard-1"));
  fs::remove_all(Journal("shard-1/log"));
  Verify();
  EXPECT_EQ(StateOf("shard 1"), "damaged");
  EXPECT_THAT(text_, HasSubstr("shard-1/log is missing"));
}

TEST_F(VerifyReportTest, WhatCannotBeReadIsNotDamaged) {
  MakeCoordinator({1, 1});
  MakeShard(0);
  std::ofstream(Journal("shard-1")) << "a file in place of a folder";
  Verify();
  EXPECT_EQ(StateOf("shard 0"), "sound");
  EXPECT_EQ(StateOf("shard 1"), "could not be read");
  EXPECT_THAT(text_, AllOf(HasSubstr("shard-1: Not a directory"), Not(HasSubstr("damaged"))));
  EXPECT_EQ(status_.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(Advice(), AllOf(HasSubstr("could not be read"), HasSubstr("as the user that trained"),
                              Not(HasSubstr("--resume"))));
}

TEST_F(VerifyReportTest, PermissionsThatAreMissingAreNotDamage) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer does not follow a fork";
#endif
  MakeCoordinator({1});
  MakeShard(0);
  fs::create_directories(run_.ServerDir() + "/checkpoint-000000000001/shard-0");
  for (const std::string& folder :
       {run_.ServerDir() + "/checkpoint-000000000001", Journal("shard-0/log"), Journal("shard-0"),
        Journal("coordinator"), Journal("")}) {
    fs::permissions(folder, fs::perms::none);
    const pid_t child = fork();
    if (child == 0) {
      // File modes do not restrict root.
      if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(2);
      const auto run = VerifyRun(run_.path());
      if (!run.ok()) _exit(3);
      const std::string text = VerifiedText(*run, false);
      if (text.find("could not be read") == std::string::npos) _exit(4);
      if (text.find("damaged") != std::string::npos) _exit(5);
      _exit(absl::IsPermissionDenied(VerifiedStatus(run_.path(), *run)) ? 0 : 6);
    }
    int ended = 0;
    waitpid(child, &ended, 0);
    EXPECT_EQ(ended, 0) << folder;
    fs::permissions(folder, fs::perms(0755));
  }
}

}  // namespace
}  // namespace psgd
