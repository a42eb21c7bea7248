// Reports over folders of sound and damaged runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "experiment/plan/sweep_dir.h"
#include "experiment/report/figures.h"
#include "experiment/report/table.h"
#include "experiment/report/write_report.h"
#include "tests/unit/sweep/made_runs.h"

namespace psgd {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class ReportTest : public testing::Test {
 protected:
  ReportTest() : dir_(testing::TempDir() + "/report_test") { std::filesystem::remove_all(dir_); }
  ~ReportTest() override { std::filesystem::remove_all(dir_); }

  void Make(const std::string& name, const MadeRun& run) const { WriteRun(dir_ + "/" + name, run); }
  ReportRuns Runs() const {
    const auto runs = ReadReportRuns(dir_);
    EXPECT_TRUE(runs.ok()) << runs.status();
    return runs.ok() ? *runs : ReportRuns();
  }
  std::map<std::string, Figure> FiguresById() const {
    const ReportRuns runs = Runs();
    std::map<std::string, Figure> figures;
    for (Figure& figure : MakeFigures(runs, GroupRuns(runs), {}))
      figures.emplace(figure.id, std::move(figure));
    return figures;
  }
  std::string Page() const {
    const auto written = WriteReport({.dir = dir_});
    EXPECT_TRUE(written.ok()) << written.status();
    return ReadText(dir_ + "/report.html");
  }
  const std::string dir_;
};

TEST_F(ReportTest, SeedsAreTakenTogetherAndComparedWithTheirTwins) {
  for (int seed = 1; seed <= 2; ++seed) {
    Make(absl::StrCat("dense-", seed), {.seed = seed, .accuracies = {0.5, 0.90 + 0.01 * seed}});
    Make(absl::StrCat("topk-", seed), {.push = "topk",
                                       .staleness = "4",
                                       .seed = seed,
                                       .accuracies = {0.5, 0.88 + 0.01 * seed},
                                       .bytes_pushed = 10000});
  }
  const ReportRuns runs = Runs();
  const auto groups = GroupRuns(runs);
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_TRUE(groups[0].twin);
  EXPECT_NEAR(groups[0].score.mean, 0.915, 1e-9);
  EXPECT_NEAR(groups[0].score.spread, 0.00707, 1e-5);
  EXPECT_THAT(groups[1].label, HasSubstr("push topk"));
  EXPECT_NEAR(groups[1].against_twin.mean, -0.02, 1e-9);
  EXPECT_NEAR(groups[1].push_ratio.mean, 100, 1e-9);
  const auto figures = MakeFigures(runs, groups, {});
  std::vector<std::string> ids;
  for (const Figure& figure : figures) ids.push_back(figure.id);
  EXPECT_THAT(ids, ElementsAre("accuracy-bytes", "accuracy-bytes-total", "accuracy-time",
                               "time-to-accuracy", "curve-accuracy-bytes", "curve-loss-bytes",
                               "curve-accuracy-samples", "curve-loss-samples", "phases"));
  EXPECT_THAT(FigureCsv(figures[0]), AllOf(HasSubstr("10000,0.895,"), HasSubstr(",yes\n")));
}

TEST_F(ReportTest, CurvesAreMeansOverSeedsWithTheTwinInItsOwnColor) {
  for (int seed = 1; seed <= 2; ++seed) {
    Make(absl::StrCat("dense-", seed), {.seed = seed, .accuracies = {0.5, 0.90 + 0.01 * seed}});
    Make(absl::StrCat("topk-", seed), {.push = "topk",
                                       .staleness = "4",
                                       .seed = seed,
                                       .accuracies = {0.4 + 0.1 * seed},
                                       .bytes_pushed = 10000});
  }
  std::map<std::string, Figure> figures = FiguresById();
  const Figure& bytes = figures.at("curve-accuracy-bytes");
  EXPECT_THAT(FigureCsv(bytes), AllOf(HasSubstr(",1,1500000,0.5,0,2\n"),
                                      HasSubstr(",2,3000000,0.915,0.0070710678,2\n"),
                                      HasSubstr(",1,2010000,0.55,0.070710678,2\n")));
  EXPECT_THAT(bytes.svg.Inline(), AllOf(HasSubstr("class=\"line ink\""), HasSubstr("band ink"),
                                        HasSubstr("bar-error")));
  EXPECT_THAT(bytes.caption, HasSubstr("1 configuration has one evaluation and is a point."));
  EXPECT_THAT(FigureCsv(figures.at("curve-loss-samples")), HasSubstr(",2,2000,0.5,0,2\n"));
}

// A single run has curves as well. One without a seed at the end would bend the mean.
TEST_F(ReportTest, CurvesEndWhereASeedEnds) {
  Make("long", {.seed = 1, .accuracies = {0.5, 0.6, 0.7}});
  EXPECT_EQ(FiguresById().at("curve-accuracy-samples").data.size(), 1u + 3);
  Make("short", {.seed = 2, .accuracies = {0.5, 0.6}});
  EXPECT_EQ(FiguresById().at("curve-accuracy-samples").data.size(), 1u + 2);
}

TEST_F(ReportTest, ErrorsOverTrainingSamplesAreFitted) {
  for (const int size : {500, 1000, 2000, 4000}) {
    for (int seed = 1; seed <= 2; ++seed) {
      Make(absl::StrCat("dense-", size, "-", seed),
           {.train_samples = size,
            .seed = seed,
            .accuracies = {1 - 4 * std::pow(size, -0.5) - 0.002 * seed}});
    }
  }
  Make("topk-500", {.push = "topk", .train_samples = 500, .accuracies = {0.7}});
  Make("topk-1000", {.push = "topk", .train_samples = 1000, .accuracies = {0.8}});
  std::map<std::string, Figure> figures = FiguresById();
  const Figure& error = figures.at("learning-curve-error");
  EXPECT_THAT(error.caption, HasSubstr("dense, synchronous: The"));
  EXPECT_THAT(error.caption, HasSubstr("no fit, 2 sizes with an error above 0; a fit "
                                       "needs 3 or more."));
  ASSERT_THAT(error.table, SizeIs(2));
  EXPECT_THAT(error.table[1][1], HasSubstr("m^-0.5"));
  EXPECT_THAT(error.data, SizeIs(1 + 6));
  EXPECT_THAT(figures.at("learning-curve-loss").caption, HasSubstr("does not fall"));
  EXPECT_THAT(Page(), HasSubstr("m for 0.5 times that"));
}

TEST_F(ReportTest, ErrorsInNumbersAreBetterIfTheyAreSmaller) {
  Make("dense", {.accuracies = {0.9, 0.5}, .measure = "rmse"});
  Make("topk", {.push = "topk", .accuracies = {0.8, 0.6}, .measure = "rmse", .bytes_pushed = 9000});
  Make("fp16", {.push = "fp16", .accuracies = {2, 1}, .measure = "rmse", .bytes_pushed = 500000});
  const ReportRuns runs = Runs();
  EXPECT_STREQ(runs.metric.name, "rmse");
  const auto groups = GroupRuns(runs);
  const ReportTable table = TableOf(runs, groups);
  EXPECT_EQ(table.columns[2], "rmse");
  EXPECT_EQ(table.rows[0][2].text, "0.5000");
  EXPECT_EQ(table.rows[2][3].text, "+0.1") << "topk";
  EXPECT_THAT(RunsCsv(runs), HasSubstr("twin,rmse,loss"));
  std::map<std::string, Figure> figures;
  for (const Figure& figure : MakeFigures(runs, groups, {})) figures.emplace(figure.id, figure);
  const Figure& bytes = figures.at("rmse-bytes");
  EXPECT_THAT(bytes.caption, HasSubstr("Down and to the left is better"));
  EXPECT_THAT(FigureCsv(bytes), AllOf(HasSubstr("9000,0.6,0,1,yes"), HasSubstr("500000,1,0,1,no"),
                                      HasSubstr("1000000,0.5,0,1,yes")));
  const Figure& time = figures.at("time-to-rmse");
  EXPECT_EQ(time.title, "Time to RMSE 0.505");
  EXPECT_THAT(FigureCsv(time), HasSubstr("0.505,9.9375,")) << "the twin's line from 0.9 to 0.5";
  EXPECT_THAT(Page(), AllOf(HasSubstr("of the same seed, in rmse."), Not(HasSubstr("accuracy"))));
}

TEST_F(ReportTest, RunsAreComparedByTheMetricOfMost) {
  Make("a", {.accuracies = {0.9}});
  Make("b", {.push = "topk", .accuracies = {0.8}});
  Make("c", {.push = "fp16", .accuracies = {0.7}, .measure = "f1"});
  const ReportRuns runs = Runs();
  EXPECT_STREQ(runs.metric.name, "accuracy");
  EXPECT_THAT(runs.notes, ElementsAre(HasSubstr("other measures than accuracy")));
  EXPECT_EQ(runs.runs[2].score.metric, nullptr);
}

TEST_F(ReportTest, SaysWhyARunEndedEarly) {
  Make("a", {.stopped_early = "the accuracy got no better"});
  EXPECT_THAT(Runs().notes,
              ElementsAre(HasSubstr("seed 1, ended early: the accuracy got no better.")));
}

TEST_F(ReportTest, RunsAreComparedByAnotherMetricThatIsAskedFor) {
  Make("a", {.accuracies = {0.9, 0.8}, .measure = "auc"});
  Make("b", {.push = "topk", .accuracies = {0.7, 0.6}, .measure = "perplexity"});
  const auto by = [&](const std::string& metric) { return ReadReportRuns(dir_, metric); };
  ASSERT_TRUE(by("perplexity").ok()) << by("perplexity").status();
  const ReportRuns runs = *by("perplexity");
  EXPECT_STREQ(runs.metric.name, "perplexity");
  EXPECT_TRUE(runs.metric.smaller_is_better);
  EXPECT_EQ(runs.runs[0].score.metric, nullptr);
  EXPECT_EQ(runs.runs[1].score.value, 0.6);
  EXPECT_EQ(runs.runs[1].data.curve[0].score.value, 0.7);
  EXPECT_STREQ(by("auc")->metric.name, "auc");
  EXPECT_THAT(
      by("f1").status().ToString(),
      HasSubstr("no run has measured f1 on its test set; compare by loss, auc, perplexity"));
  EXPECT_STREQ(by("loss")->metric.name, "loss");
}

TEST_F(ReportTest, RunsAreComparedByAnyMeasureThatIsAskedFor) {
  Make("a", {.accuracies = {0.9, 0.8}, .measure = "mae"});
  EXPECT_EQ(Runs().runs[0].score.metric, nullptr) << "unless it is asked for";
  const auto by_mae = ReadReportRuns(dir_, "mae");
  ASSERT_TRUE(by_mae.ok()) << by_mae.status();
  EXPECT_STREQ(by_mae->metric.name, "mae");
  EXPECT_TRUE(by_mae->metric.smaller_is_better);
  for (const char* error : {"wer", "val_loss", "top1_error", "val_rmse", "perplexity"}) {
    EXPECT_TRUE(MetricOfMeasure(error)->smaller_is_better) << error;
  }
  for (const char* success : {"bleu", "iou", "transfer"}) {
    EXPECT_FALSE(MetricOfMeasure(success)->smaller_is_better) << success;
  }
  EXPECT_EQ(by_mae->runs[0].score.value, 0.8);
  EXPECT_TRUE(WriteReport({.dir = dir_, .metric = "mae"}).ok());
}

TEST_F(ReportTest, ATargetMustBeOfTheMetric) {
  Make("a", {.accuracies = {0.9}});
  EXPECT_THAT(WriteReport({.dir = dir_, .target = 90}).status().ToString(),
              HasSubstr("--target is 90, but accuracy is from 0 to 1"));
}

// Three runs with one seed have no deviation over seeds and do not count as three seeds.
TEST_F(ReportTest, RepeatsOfASeedCountOnce) {
  for (int i = 0; i < 3; ++i) {
    Make(absl::StrCat("dense-", i), {.accuracies = {0.5, 0.9 + 0.01 * i}});
    Make(absl::StrCat("fp16-", i),
         {.push = "fp16", .seed = 1 + i / 2, .accuracies = {0.5, 0.6 + 0.1 * i}});
  }
  const ReportRuns runs = Runs();
  const auto groups = GroupRuns(runs);
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].done, 3u);
  EXPECT_EQ(groups[0].seeds, 1u);
  EXPECT_EQ(groups[0].score.count, 1u);
  EXPECT_NEAR(groups[0].score.mean, 0.91, 1e-9);
  EXPECT_EQ(StatusText(runs, groups[0]), "3 finished (repeats of 1 seed)");
  EXPECT_EQ(groups[1].seeds, 2u);
  EXPECT_NEAR(groups[1].score.mean, (0.65 + 0.8) / 2, 1e-9);
  EXPECT_NEAR(groups[1].score.low, 0.65, 1e-9);
  EXPECT_EQ(StatusText(runs, groups[1]), "3 finished (repeats of 2 seeds)");
  const ReportTable table = TableOf(runs, groups);
  EXPECT_THAT(table.rows[0][2].text, Not(HasSubstr("±")));
  EXPECT_THAT(table.rows[1][2].text, HasSubstr("±"));
  for (const Figure& figure : MakeFigures(runs, groups, {})) {
    if (figure.id != "time-to-accuracy") continue;
    EXPECT_THAT(FigureCsv(figure), HasSubstr(",1,1\n"));
    EXPECT_THAT(FigureCsv(figure), Not(HasSubstr(",3\n")));
  }
}

TEST_F(ReportTest, ScalingHasEfficiency) {
  for (const int workers : {1, 2, 4}) {
    Make(absl::StrCat("w", workers),
         {.push = "fp16", .workers = workers, .samples_per_second = 1000 + 500.0 * (workers - 1)});
  }
  const ReportRuns runs = Runs();
  const auto figures = MakeFigures(runs, GroupRuns(runs), {});
  std::string csv;
  for (const Figure& figure : figures) {
    if (figure.id == "scaling-workers") csv = FigureCsv(figure);
  }
  EXPECT_THAT(csv, AllOf(HasSubstr(",4,2500,0,2.5,0.625"), HasSubstr(",2,1500,0,1.5,0.75")));
}

TEST_F(ReportTest, StalenessAndNumericKeysHaveFigures) {
  for (const int batch : {16, 32, 64}) {
    Make(absl::StrCat("b", batch),
         {.push = "fp16", .staleness = "4", .batch = batch, .staleness_counts = {5, 3, 2}});
  }
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("id=\"figure-staleness\""));
  EXPECT_THAT(page, HasSubstr("id=\"figure-accuracy-batch\""));
  EXPECT_THAT(page, HasSubstr("id=\"figure-throughput-batch\""));
}

TEST_F(ReportTest, BrokenRunsAreShownAndHideNobody) {
  Make("fine", {});
  Make("no-config", {.push = "fp16"});
  std::filesystem::remove(dir_ + "/no-config/config.yaml");
  Make("no-metrics", {.push = "onebit"});
  std::filesystem::remove(dir_ + "/no-metrics/metrics.jsonl");
  Make("torn-summary", {.push = "topk"});
  WriteText(dir_ + "/torn-summary/summary.json", "{\"name\": \"x\", <b>");
  Make("bad-config", {.push = "int8"});
  WriteText(dir_ + "/bad-config/config.yaml", "modle: {}\n");
  Make("died", {.push = "sign", .status = "failed"});
  std::filesystem::create_directories(dir_ + "/empty");
  std::filesystem::create_directories(dir_ + "/metrics-is-a-folder/metrics.jsonl");
  std::filesystem::create_directories(dir_ + "/weights-alone");
  WriteText(dir_ + "/weights-alone/weights.safetensors", "x");
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("8 runs: "));
  for (const char* words :
       {"config.yaml is missing", "metrics.jsonl is missing", "not a run&#39;s summary",
        "unknown key &quot;modle&quot;", "worker-1 was killed"}) {
    EXPECT_THAT(page, HasSubstr(words));
  }
  EXPECT_THAT(page, HasSubstr("80.00 %"));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
}

TEST_F(ReportTest, ASweepWithRunsMissingIsWhole) {
  const SweepDir sweep(dir_);
  ASSERT_TRUE(sweep.Make().ok());
  ASSERT_TRUE(
      sweep
          .WritePlan({"s",
                      "what?",
                      {{"twin", "dense", {}, 1, true, "twin"},
                       {"a", "push topk", {{"compression.push", "topk"}}, 1, false, "twin"},
                       {"b", "push sign", {{"compression.push", "sign"}}, 1, false, "twin"},
                       {"c", "push int8", {{"compression.push", "int8"}}, 1, false, "twin"}}})
          .ok());
  WriteRun(sweep.RunPath("twin"), {.accuracies = {0.9}});
  WriteRun(sweep.RunPath("a"),
           {.push = "topk", .accuracies = {0.85, 0.2}, .status = "interrupted"});
  ASSERT_TRUE(
      sweep.WriteOutcome("a", {Outcome::Kind::kStopped, "not among the best after 1 epochs", 1})
          .ok());
  ASSERT_TRUE(sweep.WriteOutcome("b", {Outcome::Kind::kFailed, "no such file", 0}).ok());
  const ReportRuns runs = Runs();
  ASSERT_THAT(runs.runs, SizeIs(4));
  EXPECT_EQ(runs.runs[1].status, ReportStatus::kStopped);
  EXPECT_EQ(runs.runs[1].score.value, 0.85);  // at the rung; later evaluations do not count
  EXPECT_EQ(runs.runs[2].status, ReportStatus::kFailed);
  EXPECT_EQ(runs.runs[2].detail, "no such file");
  EXPECT_EQ(runs.runs[3].status, ReportStatus::kWaiting);
  const auto markdown = WriteReport({.dir = dir_, .markdown = true});
  ASSERT_TRUE(markdown.ok());
  EXPECT_THAT(markdown->text, HasSubstr("| push topk | stopped early | 85.00 % | -5.00 |"));
  // An unreadable plan does not hide the runs.
  WriteText(sweep.PlanFile(), "{");
  EXPECT_THAT(Runs().runs, SizeIs(2));
  EXPECT_THAT(Runs().notes, Contains(HasSubstr("not a sweep's plan")));
}

// A sweep.yaml with two entries called "fast".
TEST_F(ReportTest, EntriesOfOneNameAreNotTakenForSeeds) {
  const SweepDir sweep(dir_);
  ASSERT_TRUE(sweep.Make().ok());
  const AxisValues fast{{"way", "fast"}};
  ASSERT_TRUE(sweep
                  .WritePlan({"s",
                              "",
                              {{"a1", "fast", fast, 1, false, ""},
                               {"b1", "fast", fast, 1, false, ""},
                               {"a2", "fast", fast, 2, false, ""},
                               {"b2", "fast", fast, 2, false, ""}}})
                  .ok());
  WriteRun(sweep.RunPath("a1"), {.push = "topk", .seed = 1, .accuracies = {0.9}});
  WriteRun(sweep.RunPath("a2"), {.push = "topk", .seed = 2, .accuracies = {0.9}});
  WriteRun(sweep.RunPath("b1"), {.push = "sign", .seed = 1, .accuracies = {0.1}});
  const ReportRuns runs = Runs();  // one run of the second entry is still missing
  const auto groups = GroupRuns(runs);
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].label, "fast");
  EXPECT_EQ(groups[0].score.mean, 0.9);
  EXPECT_EQ(groups[1].label, "fast (2)");
  EXPECT_THAT(groups[1].runs, ElementsAre(1, 3));
  EXPECT_EQ(groups[1].score.mean, 0.1);
  EXPECT_THAT(runs.notes, ElementsAre(HasSubstr("are all called \"fast\"; here the second is")));
}

// A table has no room for labels with so many settings.
TEST_F(ReportTest, UnlikeRunsGoByTheirDirectories) {
  for (int seed = 1; seed <= 2; ++seed) {
    Make(absl::StrCat("dense-", seed), {.workers = 2, .batch = 64, .seed = seed});
  }
  Make("sparse", {.push = "{topk: {density: 0.0125}}",
                  .staleness = "unbounded",
                  .workers = 16,
                  .batch = 1024});
  const ReportRuns runs = Runs();
  const auto groups = GroupRuns(runs);
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].label, "dense-1");
  EXPECT_THAT(groups[0].runs, SizeIs(2));
  EXPECT_EQ(groups[1].label, "sparse");
  ASSERT_THAT(runs.legend, SizeIs(2));
  EXPECT_EQ(runs.legend[1].first, "sparse");
  EXPECT_THAT(runs.legend[1].second, HasSubstr("workers 16"));
  const auto markdown = WriteReport({.dir = dir_, .markdown = true});
  ASSERT_TRUE(markdown.ok()) << markdown.status();
  EXPECT_THAT(markdown->text, HasSubstr("\n| sparse | finished"));
  EXPECT_THAT(markdown->text, HasSubstr("\n\n- dense-1: "));
  EXPECT_THAT(Page(), HasSubstr("<li><b>sparse</b>: "));
  EXPECT_THAT(RunsCsv(runs), HasSubstr("workers 16"));
}

TEST_F(ReportTest, RunsWhoseConfigIsUnknownAreLikeNoOther) {
  for (const char* name : {"made", "one/same", "two/same"}) {
    Make(name, {.accuracies = {0.5}});
    std::filesystem::remove(absl::StrCat(dir_, "/", name, "/config.yaml"));
  }
  Make("whole", {.accuracies = {0.9}});  // its config has the name "made"
  std::vector<std::string> labels;
  for (const ReportGroup& group : GroupRuns(Runs())) labels.push_back(group.label);
  EXPECT_THAT(labels, ElementsAre("made, config unknown", "one/same, config unknown",
                                  "two/same, config unknown", "made"));
}

TEST_F(ReportTest, AFolderWithoutRunsIsAnError) {
  std::filesystem::create_directories(dir_ + "/a/b");
  EXPECT_THAT(std::string(WriteReport({.dir = dir_}).status().message()),
              HasSubstr("holds no runs"));
}

TEST_F(ReportTest, TheTableGoesToAGivenFile) {
  Make("a", {});
  const auto written = WriteReport({.dir = dir_, .out = dir_ + "/table.md", .markdown = true});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->text, "");
  EXPECT_THAT(written->files, ElementsAre(dir_ + "/table.md"));
  EXPECT_THAT(ReadText(dir_ + "/table.md"), HasSubstr("| finished |"));
}

TEST_F(ReportTest, FilesOfFigures) {
  Make("a", {});
  Make("b", {.push = "fp16"});
  const auto written =
      WriteReport({.dir = dir_, .out = dir_ + "/page.html", .svg_dir = dir_ + "/svg"});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_THAT(written->files, Contains(dir_ + "/svg/accuracy-bytes.svg"));
  EXPECT_THAT(ReadText(dir_ + "/svg/accuracy-bytes.svg"), HasSubstr("<style>"));
  EXPECT_THAT(ReadText(dir_ + "/svg/phases.csv"), HasSubstr("compute,5,0.5"));
}

// Five hundred runs of ten epochs and a thousand records each take ten seconds at most, and the
// page stays small enough to open.
TEST_F(ReportTest, FiveHundredRuns) {
  const char* const codecs[] = {"none",    "fp16", "int8",    "onebit",  "topk",
                                "ternary", "sign", "natural", "randomk", "qsgd"};
  for (int i = 0; i < 500; ++i) {
    const MadeRun run{.push = codecs[i % 10],
                      .staleness = absl::StrCat(i / 10 % 5),
                      .batch = 16 << (i / 50 % 5),
                      .seed = 1 + i / 250,
                      .accuracies = std::vector<double>(10, 0.8 + i % 20 * 1e-2 / 2),
                      .bytes_pushed = 1000u + 100u * static_cast<unsigned>(i % 10),
                      .staleness_counts = {5, 4, 3, 2, 1},
                      .progress_records = 100};
    const std::string folder = absl::StrCat(dir_, "/run-", i);
    if (i < 20) {
      WriteRun(folder, run);
      continue;
    }
    // Copies are faster, because writing a summary waits for the disk.
    std::filesystem::copy(absl::StrCat(dir_, "/run-", i % 20), folder);
    WriteRunConfig(folder, run);
  }
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t begun = std::clock();
  const std::string page = Page();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  // CPU time, which does not depend on other programs.
  const double processor = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  std::printf("500 runs: %.2f s, %.2f s of the processor, %.1f MB\n", took.count(), processor,
              static_cast<double>(page.size()) / 1e6);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(processor, 10);
#endif
  EXPECT_THAT(page, HasSubstr("500 runs: 500 finished"));
  EXPECT_LT(page.size(), size_t{8} << 20);
}

}  // namespace
}  // namespace psgd
