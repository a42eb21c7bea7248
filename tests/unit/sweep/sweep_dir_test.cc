#include "experiment/plan/sweep_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "experiment/plan/resources.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class SweepDirTest : public testing::Test {
 protected:
  SweepDirTest() : dir_(testing::TempDir() + "/sweep_dir_test") {
    std::filesystem::remove_all(dir_.path());
    EXPECT_TRUE(dir_.Make().ok());
  }
  ~SweepDirTest() override { std::filesystem::remove_all(dir_.path()); }
  const SweepDir dir_;
};

TEST_F(SweepDirTest, PlansAndOutcomesComeBack) {
  SweepPlan plan{"name",
                 "why?",
                 {{"id", "push topk, \"x\"", {{"compression.push", "topk"}}, 7, true, "twin"}},
                 {"2 runs at a time share the one core"}};
  ASSERT_TRUE(dir_.WritePlan(plan).ok());
  const auto back = dir_.ReadPlan();
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->question, "why?");
  ASSERT_EQ(back->runs.size(), 1u);
  EXPECT_EQ(back->runs[0].label, "push topk, \"x\"");
  EXPECT_EQ(back->runs[0].axes, plan.runs[0].axes);
  EXPECT_EQ(back->runs[0].seed, 7u);
  EXPECT_EQ(back->shared, plan.shared);

  EXPECT_FALSE(dir_.ReadOutcome("id"));
  ASSERT_TRUE(dir_.WriteOutcome("id", {Outcome::Kind::kStopped, "not among the best", 3}).ok());
  EXPECT_EQ(dir_.ReadOutcome("id")->epoch, 3);
  dir_.ForgetOutcome("id");
  EXPECT_FALSE(dir_.ReadOutcome("id"));
}

TEST_F(SweepDirTest, DamagedFilesAreErrorsOrNothing) {
  std::ofstream(dir_.PlanFile()) << "{\"name\": 1}";
  EXPECT_THAT(std::string(dir_.ReadPlan().status().message()), HasSubstr("not a sweep's plan"));
  std::ofstream(dir_.OutcomeFile("id")) << "{\"outcome\": \"fai";
  EXPECT_FALSE(dir_.ReadOutcome("id"));
}

TEST_F(SweepDirTest, FailedAttemptsAreKept) {
  for (int attempt = 1; attempt <= 2; ++attempt) {
    std::filesystem::create_directories(dir_.RunPath("id"));
    std::ofstream(dir_.RunPath("id") + "/mark") << attempt;
    ASSERT_TRUE(dir_.PutAway("id").ok());
    EXPECT_FALSE(std::filesystem::exists(dir_.RunPath("id")));
  }
  EXPECT_TRUE(std::filesystem::exists(dir_.path() + "/failed/id-1/mark"));
  EXPECT_TRUE(std::filesystem::exists(dir_.path() + "/failed/id-2/mark"));
  EXPECT_TRUE(dir_.PutAway("id").ok());  // a missing directory is no error
}

// A process that inherited the lock holds it after the first holder has ended.
TEST_F(SweepDirTest, ALockLivesAsLongAsAnyoneWhoHasIt) {
  auto lock = HeldLock::Try(dir_.RunLock("id"));
  ASSERT_TRUE(lock.ok() && *lock != nullptr);
  EXPECT_EQ(*HeldLock::Try(dir_.RunLock("id")), nullptr);
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    close(gate[1]);
    (void)!read(gate[0], &byte, 1);
    _exit(0);
  }
  lock->reset();
  EXPECT_EQ(*HeldLock::Try(dir_.RunLock("id")), nullptr);
  close(gate[0]);
  close(gate[1]);
  waitpid(child, nullptr, 0);
  EXPECT_NE(*HeldLock::Try(dir_.RunLock("id")), nullptr);
}

TEST(Resources, AreSharedInTurn) {
  const auto shares =
      Shares({.cores = {0, 1, 2, 3, 4}, .gpus = {0, 1, 2}, .parallel = 2, .gpus_per_run = 2});
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_THAT(shares[0].cores, ElementsAre(0, 1));
  EXPECT_THAT(shares[1].cores, ElementsAre(2, 3));
  EXPECT_THAT(shares[0].gpus, ElementsAre(0, 1));
  EXPECT_THAT(shares[1].gpus, ElementsAre(0, 2));
  // More than the machine has: the runs share.
  const auto tight = Shares({.cores = {4, 6}, .gpus = {}, .parallel = 3, .cores_per_run = 2});
  EXPECT_THAT(tight[2].cores, ElementsAre(4, 6));
  EXPECT_THAT(Shares({.cores = {5}, .gpus = {}, .parallel = 2})[1].cores, ElementsAre(5));
}

TEST(Resources, WhatCannotBeIsRefusedAndWhatIsSharedIsSaid) {
  const auto error = [](const ShareOptions& options) {
    return std::string(CheckShares(options, "here").message());
  };
  EXPECT_EQ(error({.cores = {0, 1}, .gpus = {}, .parallel = 4, .cores_per_run = 2}), "");
  EXPECT_EQ(error({.cores = {0, 1}, .gpus = {}, .cores_per_run = 64}),
            "resources.cores: 64 for a run are more than the 2 cores of here; give fewer, or 0 for "
            "all that there are");
  EXPECT_THAT(error({.cores = {0}, .gpus = {0, 1}, .gpus_per_run = 3}),
              HasSubstr("more than the 2 GPUs that --gpu"));

  const auto notes = [](const ShareOptions& options) { return SharedNotes(options, "here"); };
  EXPECT_THAT(notes({.cores = {0, 1}, .gpus = {}, .parallel = 2}), ElementsAre());
  EXPECT_THAT(
      notes(
          {.cores = {0, 1}, .gpus = {0, 1}, .parallel = 2, .cores_per_run = 1, .gpus_per_run = 1}),
      ElementsAre());
  EXPECT_THAT(
      notes({.cores = {0, 1}, .gpus = {}, .parallel = 2, .cores_per_run = 2}),
      ElementsAre(
          "2 runs at a time share the 2 cores of here: their times are not those of runs alone; "
          "--parallel 1 gives each its own"));
  EXPECT_THAT(notes({.cores = {0, 1}, .gpus = {}, .parallel = 3}),
              ElementsAre(HasSubstr("share the 2 cores")));
  EXPECT_THAT(notes({.cores = {0, 1, 2, 3}, .gpus = {0, 1}, .parallel = 4, .gpus_per_run = 1}),
              ElementsAre(AllOf(HasSubstr("4 runs at a time share the 2 GPUs"),
                                HasSubstr("--parallel 2"))));
}

}  // namespace
}  // namespace psgd
