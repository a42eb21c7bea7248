#include "experiment/plan/expand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiment/config/config_yaml.h"
#include "experiment/plan/random_draws.h"
#include "experiment/plan/sweep_yaml.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kBase[] =
    "base: {data: {format: synthetic}, model: {zoo: mlp}, optimizer: {sgd: {momentum: 0.9}}}\n";

absl::StatusOr<RunPlan> Expanded(const std::string& text) {
  const auto sweep = ParseSweep(kBase + text, "s.yaml");
  EXPECT_TRUE(sweep.ok()) << sweep.status();
  const auto base = BaseConfig(*sweep, "s.yaml");
  EXPECT_TRUE(base.ok()) << base.status();
  return ExpandSweep(*sweep, *base);
}

std::vector<PlannedRun> Runs(const std::string& text) {
  auto plan = Expanded(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? std::move(plan->runs) : std::vector<PlannedRun>();
}

std::vector<std::string> Labels(const std::vector<PlannedRun>& runs) {
  std::vector<std::string> labels;
  for (const PlannedRun& run : runs) labels.push_back(run.label);
  return labels;
}

TEST(Expand, GridIsEveryCombinationAndItsTwin) {
  const auto runs = Runs(
      "grid: {compression.push: [none, {topk: {density: 0.1}}], consistency.staleness: [0, 4]}");
  // The sweep asks for the dense synchronous run, which is also the twin of all.
  EXPECT_THAT(Labels(runs), ElementsAre("push none, staleness 0", "push none, staleness 4",
                                        "push topk density 0.1, staleness 0",
                                        "push topk density 0.1, staleness 4"));
  EXPECT_TRUE(runs[0].twin);
  EXPECT_FALSE(runs[3].twin);
  EXPECT_EQ(runs[3].twin_id, runs[0].id);
  EXPECT_EQ(runs[3].config.consistency().staleness(), 4);
  EXPECT_EQ(runs[3].config.compression().push().topk().density(), 0.1);
}

TEST(Expand, ATwinIsAddedForEachOtherSettingAndSeed) {
  const auto runs =
      Runs("grid: {data.batch: [16, 32], compression.push: [onebit]}\nrepeat: {seeds: 2}");
  EXPECT_THAT(Labels(runs),
              ElementsAre("dense, synchronous, batch 16", "dense, synchronous, batch 32",
                          "batch 16", "batch 32", "dense, synchronous, batch 16",
                          "dense, synchronous, batch 32", "batch 16", "batch 32"));
  EXPECT_EQ(runs[2].twin_id, runs[0].id);
  EXPECT_EQ(runs[7].twin_id, runs[5].id);
  EXPECT_EQ(runs[7].config.seed(), 2u);
  EXPECT_EQ(Runs("grid: {data.batch: [16, 32], compression.push: [onebit]}\ntwin: one").size(), 3u);
  EXPECT_EQ(Runs("grid: {data.batch: [16, 32], compression.push: [onebit]}\ntwin: none").size(),
            2u);
}

TEST(Expand, PackedIsNotDenseAndEachReductionHasATwin) {
  const auto packed = Runs("grid: {compression.lossless: [zstd, none]}");
  ASSERT_THAT(Labels(packed), ElementsAre("lossless none", "lossless zstd"));
  EXPECT_TRUE(packed[0].twin);
  EXPECT_FALSE(packed[1].twin);
  EXPECT_EQ(packed[1].twin_id, packed[0].id);
  const auto counted = Runs("grid: {consistency.reduction: [mean, sum], compression.push: [fp16]}");
  EXPECT_THAT(Labels(counted),
              ElementsAre("dense, synchronous, reduction mean", "dense, synchronous, reduction sum",
                          "reduction mean", "reduction sum"));
  EXPECT_EQ(counted[3].twin_id, counted[1].id);
}

// Other settings of an entry, such as the momentum for dgc, belong to its way of sending updates.
// One step is an exchange in each step, with the optimizer that makes the local steps: the twin.
TEST(Expand, OneLocalStepIsTheTwinOfMoreAndMostIsOfAuto) {
  const auto sweep = ParseSweep(
      "base: {data: {format: synthetic}, model: {zoo: mlp}, local: {steps: 10, most: 30, "
      "optimizer: {adamw: {learning_rate: 0.01}}}}\n"
      "grid: {local.steps: [1, 10, auto]}",
      "s.yaml");
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  const auto plan = ExpandSweep(*sweep, sweep->base().config());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::vector<PlannedRun>& runs = plan->runs;
  ASSERT_THAT(Labels(runs), ElementsAre("steps 1", "steps 10", "steps auto"));
  EXPECT_TRUE(runs[0].twin);
  EXPECT_EQ(runs[0].config.optimizer().adamw().learning_rate(), 0.01);
  EXPECT_EQ(runs[0].config.cluster().segment(), ResolveDefaults(Config()).cluster().segment());
  EXPECT_EQ(runs[1].twin_id, runs[0].id);
  EXPECT_EQ(runs[2].twin_id, runs[0].id);
  EXPECT_EQ(runs[2].config.local().most(), 30);
}

// What counts is the base: the keys that a run sets say nothing of its workers' optimizer.
TEST(Expand, OneLocalStepIsTheTwinAlsoOfABaseWithoutALocalOptimizer) {
  for (const char* ways : {"grid: {local.steps: [1, 10]}",
                           "list: [{name: steps 1, local: {steps: 1}}, {name: steps 10}]"}) {
    const auto sweep = ParseSweep(
        absl::StrCat("base: {data: {format: synthetic}, model: {zoo: mlp}, local: {steps: 10}, "
                     "optimizer: {sgd: {learning_rate: 0.7, momentum: 0.9, nesterov: true}}}\n",
                     ways),
        "s.yaml");
    ASSERT_TRUE(sweep.ok()) << sweep.status();
    const auto plan = ExpandSweep(*sweep, sweep->base().config());
    ASSERT_TRUE(plan.ok()) << plan.status();
    const std::vector<PlannedRun>& runs = plan->runs;
    ASSERT_THAT(Labels(runs), ElementsAre("steps 1", "steps 10")) << ways;
    EXPECT_TRUE(runs[0].twin) << ways;
    EXPECT_EQ(runs[0].config.optimizer().sgd().momentum(), 0) << ways;
    EXPECT_EQ(runs[1].config.optimizer().sgd().learning_rate(), 0.7);
  }
}

TEST(Expand, MostThatARunSetsItselfIsNotDroppedInSilence) {
  const auto sweep = ParseSweep(
      "base: {data: {format: synthetic}, model: {zoo: mlp}}\n"
      "list: [{local.steps: 10, local.most: 40}]",
      "s.yaml");
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  const auto plan = ExpandSweep(*sweep, sweep->base().config());
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("leave local.most out"));
}

TEST(Expand, AListOfWaysHasOneTwin) {
  const auto runs = Runs(R"(
list:
  - {name: dgc, compression.push: dgc, optimizer.sgd.momentum: 0}
  - {compression.push: fp16}
)");
  EXPECT_THAT(Labels(runs), ElementsAre("dense, synchronous", "dgc", "push fp16"));
  EXPECT_EQ(runs[0].config.optimizer().sgd().momentum(), 0.9);
  EXPECT_EQ(runs[1].config.optimizer().sgd().momentum(), 0);
}

// Entries that are not about updates have a twin each.
TEST(Expand, AListOfScalesHasATwinEach) {
  const auto runs = Runs(R"(
list: [{cluster.workers: 1, data.batch: 64}, {cluster.workers: 2, data.batch: 32}]
grid: {compression.push: [onebit]}
)");
  EXPECT_THAT(Labels(runs), ElementsAre("dense, synchronous, workers 1, batch 64",
                                        "dense, synchronous, workers 2, batch 32",
                                        "workers 1, batch 64", "workers 2, batch 32"));
}

TEST(Expand, RandomDrawsStayWithinTheirRangesAndAreTheSameAgain) {
  const std::string text =
      "random: {count: 20, seed: 3, keys: {optimizer.sgd.learning_rate: {log_uniform: [0.001, "
      "0.1]}, "
      "data.batch: {uniform: [8, 64]}}}\ntwin: none";
  const auto runs = Runs(text);
  ASSERT_EQ(runs.size(), 20u);
  std::set<double> rates;
  for (const PlannedRun& run : runs) {
    const double rate = run.config.optimizer().sgd().learning_rate();
    EXPECT_GE(rate, 0.001);
    EXPECT_LE(rate, 0.1);
    EXPECT_GE(run.config.data().batch(), 8);
    EXPECT_LE(run.config.data().batch(), 64);
    rates.insert(rate);
  }
  EXPECT_GT(rates.size(), 15u);
  EXPECT_LT(*rates.begin(), 0.01);  // half of the draws are, because they are log-uniform
  EXPECT_EQ(Labels(Runs(text)), Labels(runs));
}

TEST(Expand, MoreDrawsChangeNoneOfThoseBefore) {
  SweepDraw draw;
  draw.set_key("data.batch");
  draw.add_choice("1");
  draw.add_choice("2");
  draw.add_choice("3");
  std::set<std::string> seen;
  for (int i = 0; i < 50; ++i) seen.insert(DrawValue(draw, 7, i));
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ(DrawValue(draw, 7, 4), DrawValue(draw, 7, 4));
}

// Ids do not depend on the sweep's name, the order, or defaults that are written out.
TEST(Expand, IdsAreOfWhatIsComputed) {
  const auto one = Runs("name: a\ngrid: {data.batch: [16, 32]}\ntwin: none");
  const auto other = Runs("name: b\ngrid: {data.batch: [32, 16], data.prefetch: [4]}\ntwin: none");
  EXPECT_EQ(one[0].id, other[1].id);
  EXPECT_EQ(one[1].id, other[0].id);
  EXPECT_NE(one[0].id, one[1].id);
  const auto launched = Runs("grid: {data.batch: [16]}\nlaunch: {precision: bf16}\ntwin: none");
  EXPECT_NE(one[0].id, launched[0].id);
  // Directories of sweeps contain ids: do not change.
  EXPECT_EQ(RunId(Config(), SweepLaunch()).size(), 12u);
}

TEST(Expand, RunsThatCannotBeAreNamed) {
  const auto plan = Expanded("grid: {data.batch: [16, 32], compression.push: [onebit, dgc]}");
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(std::string(plan.status().message()),
              AllOf(HasSubstr("2 of the 6 runs cannot be"), HasSubstr("batch 16, push dgc"),
                    HasSubstr("momentum")));
}

TEST(Expand, WhatUndoesAnotherKeyIsAnError) {
  const auto error = [](const std::string& text) {
    return std::string(Expanded(text).status().message());
  };
  EXPECT_EQ(error("list: [{name: a, compression.push: fp16}]\ngrid: "
                  "{compression.push.topk.density: [0.1]}"),
            "a: compression.push.topk.density=0.1 undoes compression.push=fp16; leave one of them "
            "out, or write both "
            "as one value of compression.push");
  EXPECT_THAT(error("list: [{name: a, optimizer: adam}]\ngrid: {optimizer.sgd.momentum: [0, 0.9]}"),
              HasSubstr("optimizer.sgd.momentum=0 undoes optimizer=adam"));
  EXPECT_THAT(
      error("list: [{consistency.staleness: 4}]\ngrid: {consistency: [{compensation: scale}]}"),
      HasSubstr("undoes consistency.staleness=4"));
  // The same holds for a value that is a default.
  EXPECT_THAT(error("list: [{consistency: {staleness: 0}}]\ngrid: {consistency.staleness: [4]}"),
              HasSubstr("consistency.staleness=4 undoes consistency="));
  // A second setting may fill in what the first leaves open.
  EXPECT_EQ(error("list: [{name: a, compression.push: topk}]\ngrid: "
                  "{compression.push.topk.density: [0.1, 0.2]}"),
            "");
}

// The words of a run's command, in one line.
std::string CommandOf(const PlannedRun& run) { return absl::StrJoin(run.launch.command(), " "); }

TEST(Expand, OptionsOfACommandAreAxes) {
  const auto runs = Runs(
      "launch: {command: [python3, a.py, --lr, 1, --wd=2]}\n"
      "grid: {--lr: [0.1, 0.01], compression.push: [fp16]}\nlist: [{--wd: 3, -q: 4}]");
  ASSERT_EQ(runs.size(), 4u);
  // A twin has the options of its run.
  EXPECT_THAT(Labels(runs), ElementsAre("dense, synchronous, --wd 3, -q 4, --lr 0.1",
                                        "dense, synchronous, --wd 3, -q 4, --lr 0.01",
                                        "--wd 3, -q 4, --lr 0.1", "--wd 3, -q 4, --lr 0.01"));
  for (const size_t i : {0u, 2u}) {
    EXPECT_EQ(CommandOf(runs[i]), "python3 a.py --lr 0.1 --wd=3 -q 4");
    EXPECT_EQ(CommandOf(runs[i + 1]), "python3 a.py --lr 0.01 --wd=3 -q 4");
  }
  EXPECT_EQ(runs[3].twin_id, runs[1].id);
}

TEST(Expand, OptionsAreAddedToWhicheverCommandARunHas) {
  const auto runs = Runs(
      "twin: none\nrandom: {count: 1, keys: {--lr: {uniform: [2, 3]}}}\n"
      "grid: {launch.command: [[python3, a.py], [\"b c\"]]}");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_THAT(CommandOf(runs[0]), testing::StartsWith("python3 a.py --lr 2."));
  EXPECT_THAT(runs[1].launch.command(), testing::SizeIs(3));
  EXPECT_THAT(runs[1].label, testing::StartsWith("command [b c], --lr 2."));
  EXPECT_EQ(Expanded("grid: {--lr: [1]}").status().message(),
            "--lr is an option of the program that workers run, and the sweep names none; say "
            "launch: {command: [python3, train.py]}, or name a key of a config");
}

TEST(Expand, SaysHowManyOfTheRunsDiffer) {
  const auto drawn = Expanded(
      "list: [{compression.push: fp16}, {compression.push: onebit}]\ntwin: none\n"
      "random: {count: 5, keys: {data.batch: {choice: [31, 31]}}}");
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_EQ(drawn->runs.size(), 2u);
  EXPECT_THAT(
      drawn->notes,
      ElementsAre("10 runs are asked for, 2 differ: the others would compute the same again"));
  const auto named =
      Expanded("list: [{name: a, compression.push: none}, {name: b, compression.pull: none}]");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(
      named->notes,
      ElementsAre("2 runs are asked for, 1 differs: the others would compute the same again, "
                  "as \"b\" and \"a\""));
  // A twin does not count as asked for.
  EXPECT_THAT(Expanded("grid: {data.batch: [16, 32], compression.push: [none, onebit]}")->notes,
              testing::IsEmpty());
}

TEST(Expand, AnUnknownBaseIsAnError) {
  const auto sweep = ParseSweep("base: nowhere.yaml", "s.yaml");
  ASSERT_TRUE(sweep.ok());
  EXPECT_THAT(std::string(BaseConfig(*sweep, "configs/s.yaml").status().message()),
              HasSubstr("configs/nowhere.yaml"));
  EXPECT_THAT(std::string(BaseConfig(Sweep(), "s.yaml").status().message()), HasSubstr("no base"));
}

}  // namespace
}  // namespace psgd
