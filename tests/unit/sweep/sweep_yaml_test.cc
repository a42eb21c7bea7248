#include "experiment/plan/sweep_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string ErrorOf(const std::string& text) {
  const auto sweep = ParseSweep(text, "s.yaml");
  EXPECT_FALSE(sweep.ok()) << text;
  return std::string(sweep.status().message());
}

TEST(SweepYaml, ReadsEverything) {
  const auto sweep = ParseSweep(R"(
name: everything
question: What of all this?
base: {model: {zoo: mlp}, data: {format: synthetic}}
grid:
  compression.push: [none, {topk: {density: 0.01}}]
  model.hidden: [[64], [64, 32]]
list:
  - {name: slow, cluster.workers: 1}
  - {cluster.workers: 2, optimizer: adam}
random:
  count: 3
  seed: 9
  keys:
    optimizer.sgd.learning_rate: {log_uniform: [1e-3, 1]}
    data.batch: {uniform: [16, 64]}
    data.path: {choice: [a, "b, c"]}
asha: {metric: loss, rungs: [1, 3], reduction: 2}
repeat: {seeds: 2}
twin: one
resources: {cores: 2}
launch: {precision: bf16}
)",
                                "s.yaml");
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->base().config().model().zoo(), "mlp");
  ASSERT_EQ(sweep->grid_size(), 2);
  EXPECT_EQ(sweep->grid(0).key(), "compression.push");
  EXPECT_THAT(sweep->grid(0).values(), ElementsAre("none", "{topk: {density: 0.01}}"));
  EXPECT_THAT(sweep->grid(1).values(), ElementsAre("[64]", "[64, 32]"));
  EXPECT_EQ(sweep->list(0).name(), "slow");
  EXPECT_EQ(sweep->list(1).settings(1).value(), "adam");
  EXPECT_THAT(sweep->random().keys(2).choice(), ElementsAre("a", "b, c"));
  EXPECT_EQ(sweep->asha().metric(), SweepAsha::LOSS);
  EXPECT_EQ(sweep->twin(), Sweep::ONE);
  EXPECT_EQ(sweep->launch().precision(), SweepLaunch::BF16);
}

TEST(SweepYaml, NamesEveryMistakeAtOnce) {
  const std::string error = ErrorOf(
      "grid:\n"
      "  compresion.push: [none]\n"
      "  train.epocs: [1]\n"
      "  compression.push: [{topk: {densty: .1}}, {topk: {density: 7}}]\n"
      "list:\n"
      "  - {cluster.wrkers: 1}\n"
      "  - 7\n"
      "random:\n"
      "  count: 2\n"
      "  keys: {data.batch: {uniform: [4, 2]}, data.bach: {choice: [2]}}\n");
  EXPECT_THAT(
      std::vector<std::string>(absl::StrSplit(error, '\n')),
      ElementsAre(HasSubstr("s.yaml:2:3: unknown key \"compresion\""),
                  HasSubstr("s.yaml:3:3: unknown key \"epocs\" in train"),
                  HasSubstr("s.yaml:4:30: unknown key \"densty\" in compression.push.topk"),
                  HasSubstr("s.yaml:4:61: compression.push.topk.density: 7 is out of range"),
                  HasSubstr("s.yaml:6:6: unknown key \"wrkers\""),
                  HasSubstr("s.yaml:7:5: list: expected a mapping"),
                  HasSubstr("s.yaml:10:22: random.keys.data.batch: expected two numbers"),
                  HasSubstr("s.yaml:10:41: unknown key \"bach\"")));
}

TEST(SweepYaml, ErrorsSayWhereAndWhatWasMeant) {
  EXPECT_EQ(ErrorOf("gird: {}"),
            "s.yaml:1:1: unknown key \"gird\" in sweep; did you mean \"grid\"?");
  EXPECT_EQ(ErrorOf("grid:\n  consistency.stalenes: [0]"),
            "s.yaml:2:3: unknown key \"stalenes\" in consistency; did you mean \"staleness\"?");
  EXPECT_THAT(
      ErrorOf("grid:\n  compression.push: [none, topkk]"),
      AllOf(StartsWith("s.yaml:2:28: compression.push: "), HasSubstr("did you mean \"topk\"?")));
  // Also inside a value.
  EXPECT_THAT(
      ErrorOf("grid:\n  compression.push: [{topk: {density: 2}}]"),
      AllOf(StartsWith("s.yaml:2:39: compression.push.topk.density: "), HasSubstr("out of range")));
  EXPECT_THAT(ErrorOf("base:\n  model: {zoo: mlp}\n  trian: {}"),
              AllOf(StartsWith("s.yaml:3:3: "), HasSubstr("did you mean \"train\"?")));
  EXPECT_THAT(ErrorOf("launch: {precision: fp8}"), StartsWith("s.yaml:1:21: launch.precision: "));
  EXPECT_THAT(ErrorOf("grid: {launch.threds: [1]}"), HasSubstr("did you mean \"threads\"?"));
  EXPECT_THAT(ErrorOf("launch: {command: python3 train.py}"),
              AllOf(StartsWith("s.yaml:1:19: launch.command: "), HasSubstr("a list")));
  // Options of the command.
  EXPECT_THAT(ErrorOf("grid:\n  --lr=: [0.1]"),
              AllOf(StartsWith("s.yaml:2:3: "), HasSubstr("\"--lr=\" is no option")));
  EXPECT_THAT(ErrorOf("grid: {--: [0.1]}"), HasSubstr("\"--\" is no option"));
  EXPECT_THAT(ErrorOf("grid:\n  --lr: 0.1"),
              AllOf(StartsWith("s.yaml:2:9: grid.--lr: "), HasSubstr("a list of values")));
  EXPECT_THAT(ErrorOf("grid:\n  --lr: [{grid: [0.1]}]"),
              AllOf(StartsWith("s.yaml:2:10: --lr: "), HasSubstr("expected a single value")));
  EXPECT_THAT(ErrorOf("random: {keys: {--lr: {log_uniform: [0, 1]}}}"),
              HasSubstr("random.keys.--lr: log_uniform needs numbers above 0"));
}

// Otherwise one setting would silently overwrite the other, or be averaged with it.
TEST(SweepYaml, RefusesWhatIsThereTwice) {
  EXPECT_EQ(ErrorOf("list:\n  - {name: a, data.batch: 16}\ngrid:\n  data.batch: [32]"),
            "s.yaml:4:3: data.batch is set in list, too, in line 2: one would overwrite the other; "
            "leave it in one of "
            "them");
  EXPECT_THAT(ErrorOf("random: {keys: {data.batch: {uniform: [1, 9]}}}\ngrid: {data.batch: [32]}"),
              HasSubstr("data.batch is set in random.keys, too"));
  EXPECT_THAT(ErrorOf("grid: {launch.link: [1gbit]}\nlist: [{launch.link: 1gbit}]"),
              HasSubstr("launch.link is set in grid, too"));
  EXPECT_THAT(ErrorOf("list: [{data.batch: 16, data.batch: 32}]"),
              HasSubstr("duplicate key \"data.batch\""));
  EXPECT_THAT(ErrorOf("list: [{name: a, data.batch: 16, name: b}]"),
              HasSubstr("duplicate key \"name\""));
  EXPECT_THAT(ErrorOf("random: {keys: {data.batch: {uniform: [1, 9]}, data.batch: {choice: [3]}}}"),
              HasSubstr("duplicate key \"data.batch\""));
  EXPECT_EQ(ErrorOf("list:\n  - {name: a, data.batch: 16}\n  - {name: a, data.batch: 32}"),
            "s.yaml:3:5: two entries of list are called \"a\", the other one in line 2: reports "
            "could not tell them "
            "apart; give each a name of its own");
  // Names derived from settings must differ too.
  EXPECT_THAT(
      ErrorOf("list: [{optimizer.sgd.learning_rate: 0.1}, {optimizer.adam.learning_rate: 0.1}]"),
      HasSubstr("are called \"learning_rate 0.1\""));
  EXPECT_TRUE(ParseSweep("list: [{data.batch: 16}, {data.batch: 32}]", "s.yaml").ok());
}

TEST(SweepYaml, RefusesWhatHasNoMeaning) {
  EXPECT_THAT(ErrorOf("grid: {data.batch: 64}"), HasSubstr("expected a list of values"));
  EXPECT_THAT(ErrorOf("grid: {data.batch: []}"), HasSubstr("expected a list of values"));
  EXPECT_THAT(ErrorOf("grid: [data.batch]"), HasSubstr("expected a mapping"));
  EXPECT_THAT(ErrorOf("grid: {data.batch: [1], data.batch: [2]}"), HasSubstr("duplicate key"));
  EXPECT_THAT(ErrorOf("list: {data.batch: 1}"), HasSubstr("expected a list of mappings"));
  EXPECT_THAT(ErrorOf("grid: {seed: [1, 2]}"), HasSubstr("repeat: {seeds: N}"));
  EXPECT_THAT(ErrorOf("grid: {name: [a]}"), HasSubstr("given by the sweep"));
  EXPECT_THAT(ErrorOf("random: {keys: {data.batch: {uniform: [2]}}}"), HasSubstr("two numbers"));
  EXPECT_THAT(ErrorOf("random: {keys: {data.batch: {uniform: [0, 5]}}}"),
              HasSubstr("out of range"));
  EXPECT_THAT(ErrorOf("random: {keys: {data.batch: {}}}"), HasSubstr("one of uniform"));
  EXPECT_THAT(ErrorOf("random: {keys: {data.batch: {key: x}}}"), HasSubstr("write uniform"));
  EXPECT_THAT(ErrorOf("random: {keys: {optimizer.sgd.learning_rate: {log_uniform: [0, 5]}}}"),
              HasSubstr("above 0"));
}

}  // namespace
}  // namespace psgd
