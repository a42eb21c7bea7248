// Asha's decisions across ps-sweeps that were killed.
#include "experiment/sweep/rungs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "experiment/record/run_dir.h"

namespace psgd {
namespace {

class RungsTest : public testing::Test {
 protected:
  RungsTest() : dir_(testing::TempDir() + "/rungs_test") {
    std::filesystem::remove_all(dir_.path());
    EXPECT_TRUE(dir_.Make().ok());
    asha_.add_rungs(1);
    asha_.set_reduction(2);
    for (const char* id : {"twin", "a", "b", "c"}) {
      PlannedRun& run = runs_.emplace_back();
      run.id = id;
      run.twin_id = "twin";
      run.config.mutable_train()->set_epochs(4);
    }
  }
  ~RungsTest() override { std::filesystem::remove_all(dir_.path()); }

  // What the next ps-sweep knows.
  Rungs Sitting() const {
    Rungs rungs(asha_, dir_, runs_);
    rungs.Recall();
    return rungs;
  }
  static std::vector<CurvePoint> Reached(double accuracy, double epoch = 1) {
    return {{.epoch = epoch, .loss = 1, .scores = ScoresOf(accuracy, {})}};
  }
  // Writes the run directory of a run that ended well or was stopped.
  void Recorded(const std::string& id, double accuracy, Outcome::Kind kind) const {
    const RunDir run(dir_.RunPath(id));
    std::filesystem::create_directories(run.path());
    std::ofstream(run.MetricsFile()) << R"({"kind":"evaluation","seconds":1,"epoch":1,"accuracy":)"
                                     << accuracy << R"(,"loss":1})"
                                     << "\n";
    EXPECT_TRUE(dir_.WriteOutcome(id, {kind, "", 1}).ok());
  }

  const SweepDir dir_;
  SweepAsha asha_;
  std::vector<PlannedRun> runs_;
};

// A program that does not log the metric is told apart, with what it logs.
TEST_F(RungsTest, AProgramMustReportWhatIsCompared) {
  const auto message = [&](const std::string& lines, bool ended, bool of_a_program = true) {
    const std::string file = dir_.path() + "/metrics.jsonl";
    std::ofstream(file) << lines;
    MetricsFollower metrics(file);
    metrics.Look();
    PlannedRun run = runs_[1];
    if (of_a_program) run.config.mutable_model()->mutable_client();
    return std::string(Sitting().CheckMeasured(run, metrics, ended).message());
  };
  const std::string half = R"({"kind":"evaluation","epoch":0.5,"loss":1})"
                           "\n";
  const std::string first =
      R"({"kind":"evaluation","epoch":1,"loss":1,"measures":{"margin":2,"auc":0.5}})"
      "\n";
  const std::string both = R"({"kind":"evaluation","epoch":2,"loss":1,"accuracy":0.5})"
                           "\n";
  EXPECT_EQ(message("", /*ended=*/false), "");
  EXPECT_THAT(message("", /*ended=*/true), testing::HasSubstr("logged nothing; log accuracy"));
  EXPECT_EQ(message(half, /*ended=*/false), "");
  EXPECT_THAT(message(half, /*ended=*/true), testing::HasSubstr("logged loss; log accuracy"));
  EXPECT_THAT(message(half + first, /*ended=*/false),
              testing::HasSubstr("asha.metric is accuracy"));
  EXPECT_THAT(message(half + first, /*ended=*/false),
              testing::HasSubstr("logged auc, loss, margin; log accuracy"));
  EXPECT_EQ(message(half + first, /*ended=*/true, /*of_a_program=*/false), "");
  EXPECT_EQ(message(both, /*ended=*/true), "");
  asha_.set_metric(SweepAsha::LOSS);
  EXPECT_EQ(message(first, /*ended=*/true), "");
  EXPECT_THAT(message(R"({"kind":"evaluation","epoch":1,"loss":0,"accuracy":0.5})"
                      "\n",
                      true),
              testing::HasSubstr("asha.metric is loss"));
}

TEST_F(RungsTest, NoSittingComparesWithTwins) {
  Recorded("twin", 0.99, Outcome::Kind::kFinished);
  Rungs rungs = Sitting();
  EXPECT_TRUE(rungs.GoesOn(runs_[0], Reached(0.99)));
  EXPECT_TRUE(rungs.GoesOn(runs_[1], Reached(0.5)));
  EXPECT_FALSE(dir_.ReadOutcome("a"));
}

// Early runs went on. The next ps-sweep keeps these decisions and the scores.
TEST_F(RungsTest, WhoWentOnWhenASittingWasKilledGoesOn) {
  {
    Rungs rungs = Sitting();
    EXPECT_TRUE(rungs.GoesOn(runs_[1], Reached(0.5)));
    EXPECT_TRUE(rungs.GoesOn(runs_[2], Reached(0.6)));
  }
  Rungs rungs = Sitting();
  EXPECT_TRUE(rungs.GoesOn(runs_[1], Reached(0.5)));
  EXPECT_FALSE(rungs.GoesOn(runs_[3], Reached(0.4)));
  EXPECT_EQ(dir_.ReadOutcome("c")->kind, Outcome::Kind::kStopped);
}

// A run that failed later still counts in comparisons, in any ps-sweep.
TEST_F(RungsTest, WhatFailedLaterStillCounts) {
  {
    Rungs rungs = Sitting();
    EXPECT_TRUE(rungs.GoesOn(runs_[1], Reached(0.5)));
  }
  ASSERT_TRUE(dir_.WriteOutcome("a", {Outcome::Kind::kFailed, "diverged", 0}).ok());
  EXPECT_FALSE(Sitting().GoesOn(runs_[2], Reached(0.4)));
  // A repeated run starts again without scores.
  dir_.ForgetOutcome("a");
  dir_.ForgetRungs("a");
  EXPECT_TRUE(Sitting().GoesOn(runs_[3], Reached(0.3)));
}

TEST_F(RungsTest, WhatEndedIsComparedWithAtItsRungs) {
  Recorded("a", 0.5, Outcome::Kind::kFinished);
  Recorded("b", 0.4, Outcome::Kind::kStopped);
  EXPECT_FALSE(Sitting().GoesOn(runs_[3], Reached(0.45)));
}

// Only the rule that stopped a run keeps it stopped.
TEST_F(RungsTest, WhatAnotherRuleStoppedIsForgotten) {
  const auto stopped = [&](const std::string& rule) {
    std::filesystem::create_directories(dir_.RunPath("a"));
    EXPECT_TRUE(
        dir_.WriteOutcome("a", {Outcome::Kind::kStopped, "not among the best", 1, rule}).ok());
  };
  const auto forgets = [&](const SweepAsha* asha) {
    const size_t forgotten = ForgetStopped(asha, dir_, runs_);
    EXPECT_EQ(forgotten, dir_.ReadOutcome("a") ? 0u : 1u);
    return forgotten == 1;
  };
  Rungs rungs = Sitting();
  EXPECT_TRUE(rungs.GoesOn(runs_[2], Reached(0.9)));
  std::filesystem::create_directories(dir_.RunPath("a"));
  EXPECT_FALSE(rungs.GoesOn(runs_[1], Reached(0.5)));
  EXPECT_FALSE(forgets(&asha_));
  EXPECT_TRUE(forgets(nullptr));  // the sweep no longer uses asha
  stopped(RuleOf(asha_));
  SweepAsha other = asha_;
  other.set_metric(SweepAsha::LOSS);
  EXPECT_TRUE(forgets(&other));
  stopped(RuleOf(asha_));
  other = asha_;
  other.set_reduction(3);
  EXPECT_TRUE(forgets(&other));
  stopped(RuleOf(asha_));
  other = asha_;
  other.add_rungs(2);
  EXPECT_TRUE(forgets(&other));
  // An older program stored no rule.
  stopped("");
  EXPECT_FALSE(forgets(&asha_));
  EXPECT_TRUE(forgets(nullptr));
  // The run's directory is gone, so the run starts again.
  stopped(RuleOf(asha_));
  ASSERT_TRUE(dir_.WriteRungs("a", {{1, 0.5, 1}}).ok());
  std::filesystem::remove_all(dir_.RunPath("a"));
  EXPECT_TRUE(forgets(&asha_));
  EXPECT_TRUE(dir_.ReadRungs("a").empty());
  // The run became a twin.
  stopped(RuleOf(asha_));
  runs_[2].twin_id = "a";
  EXPECT_TRUE(forgets(&asha_));
  // The outcome of a finished or failed run stays.
  ASSERT_TRUE(dir_.WriteOutcome("a", {Outcome::Kind::kFinished, "", 0}).ok());
  EXPECT_EQ(ForgetStopped(nullptr, dir_, runs_), 0u);
  EXPECT_TRUE(dir_.ReadOutcome("a"));
}

TEST_F(RungsTest, ARunAtItsEndIsNotStopped) {
  asha_.set_rungs(0, 4);
  Rungs rungs = Sitting();
  EXPECT_TRUE(rungs.GoesOn(runs_[1], Reached(0.5, 4)));
  EXPECT_TRUE(rungs.GoesOn(runs_[2], Reached(0.4, 4)));
}

TEST_F(RungsTest, RungsThatNobodyPassesAreErrors) {
  const auto error = [&](const std::vector<int>& rungs) {
    asha_.mutable_rungs()->Assign(rungs.begin(), rungs.end());
    return std::string(CheckAsha(asha_, runs_).message());
  };
  EXPECT_EQ(error({1, 3}), "");
  EXPECT_EQ(error({1, 4}),
            "asha.rungs: nothing can be stopped after 4 epochs, for runs end after 4; leave that "
            "rung out, or give "
            "train.epochs above 4");
  EXPECT_THAT(error({1, 9}), testing::HasSubstr("train.epochs above 9"));
  EXPECT_THAT(error({3, 1}), testing::HasSubstr("higher than the one before"));
  EXPECT_THAT(error({}), testing::HasSubstr("after which epochs"));
  // One run that goes further is enough. A twin is never stopped, however far it goes.
  runs_[3].config.mutable_train()->set_epochs(10);
  EXPECT_EQ(error({1, 9}), "");
  runs_[0].config.mutable_train()->set_epochs(100);
  EXPECT_THAT(error({1, 10}), testing::HasSubstr("train.epochs above 10"));
}

TEST_F(RungsTest, TheMetricMustBeMeasuredOfTheData) {
  for (PlannedRun& run : runs_) {
    run.config.mutable_model()->set_loss(ModelConfig::SMOOTH_L1);
    run.config.mutable_data()->set_target_kind(DataConfig::NUMBER);
  }
  EXPECT_EQ(CheckAsha(asha_, runs_).message(),
            "asha.metric is accuracy, which is not measured with data.format: idx and model.loss: "
            "smooth_l1; set it to rmse, or to loss");
  asha_.set_metric(SweepAsha::RMSE);
  EXPECT_TRUE(CheckAsha(asha_, runs_).ok());
  EXPECT_EQ(RuleOf(asha_), "best 1/2 by rmse after 1 epochs");
}

TEST_F(RungsTest, TheSmallerRmseGoesOn) {
  asha_.set_metric(SweepAsha::RMSE);
  Rungs rungs = Sitting();
  const auto reached = [](double rmse) {
    return std::vector<CurvePoint>{
        {.epoch = 1, .loss = 1, .scores = ScoresOf({}, {{"rmse", rmse}})}};
  };
  EXPECT_TRUE(rungs.GoesOn(runs_[1], reached(0.5)));
  EXPECT_FALSE(rungs.GoesOn(runs_[2], reached(0.7)));
  EXPECT_TRUE(rungs.GoesOn(runs_[3], reached(0.3)));
}

// A sweep may compare by what is not the first thing to look at.
TEST_F(RungsTest, TheAucOfClassesOrThePerplexityOfText) {
  for (PlannedRun& run : runs_) run.config.mutable_data()->set_format(DataConfig::TEXT);
  asha_.set_metric(SweepAsha::AUC);
  EXPECT_THAT(std::string(CheckAsha(asha_, runs_).message()),
              testing::HasSubstr("set it to accuracy or perplexity, or to loss"));
  asha_.set_metric(SweepAsha::PERPLEXITY);
  EXPECT_TRUE(CheckAsha(asha_, runs_).ok());
  Rungs by_perplexity = Sitting();
  const auto reached = [](const char* measure, double accuracy, double value) {
    return std::vector<CurvePoint>{
        {.epoch = 1, .loss = 1, .scores = ScoresOf(accuracy, {{measure, value}})}};
  };
  EXPECT_TRUE(by_perplexity.GoesOn(runs_[1], reached("perplexity", 0.5, 20)));
  EXPECT_FALSE(by_perplexity.GoesOn(runs_[2], reached("perplexity", 0.6, 25)));

  for (PlannedRun& run : runs_) run.config.mutable_data()->set_format(DataConfig::LIBSVM);
  asha_.set_metric(SweepAsha::AUC);
  EXPECT_TRUE(CheckAsha(asha_, runs_).ok());
}

TEST_F(RungsTest, DamagedFilesAreNone) {
  std::ofstream(dir_.RungsFile("a")) << "[{\"epoch\": 1, ";
  EXPECT_TRUE(dir_.ReadRungs("a").empty());
  ASSERT_TRUE(dir_.WriteRungs("a", {{1, 0.5, std::numeric_limits<double>::infinity()}}).ok());
  ASSERT_EQ(dir_.ReadRungs("a").size(), 1u);
  EXPECT_EQ(dir_.ReadRungs("a")[0].score, 0.5);
}

}  // namespace
}  // namespace psgd
