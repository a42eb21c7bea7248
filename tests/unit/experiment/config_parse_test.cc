#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "experiment/config/config_yaml.h"

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Config Parsed(const std::string& text) {
  absl::StatusOr<Config> config = ParseConfig(text, "c.yaml");
  EXPECT_TRUE(config.ok()) << text << "\n" << config.status();
  return config.ok() ? *config : Config();
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Config> config = ParseConfig(text, "c.yaml");
  EXPECT_FALSE(config.ok()) << text;
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

TEST(ConfigParse, NamesEveryWrongKeyAtOnce) {
  EXPECT_EQ(ErrorOf("naem: a\ntrain: {epochs: many, epocs: 2}\ndata: {batch: 0}\n"),
            "c.yaml:1:1: unknown key \"naem\" in config; did you mean \"name\"?\n"
            "c.yaml:2:17: train.epochs: expected a whole number, got \"many\"\n"
            "c.yaml:2:23: unknown key \"epocs\" in train; did you mean \"epochs\"?\n"
            "c.yaml:3:15: data.batch: 0 is out of range: must be 1 to 1048576");
  std::string many;
  for (int i = 0; i < 30; ++i) many += absl::StrCat("zzzz", i, ": 1\n");
  const std::string error = ErrorOf(many);
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 10);
  EXPECT_TRUE(error.ends_with("\nand perhaps more")) << error;
}

TEST(ConfigParse, NamesEveryWrongItemOfAListAtOnce) {
  const std::string error = ErrorOf(
      "compression:\n  rules:\n"
      "  - {mach: a, push: none}\n"
      "  - {match: b, push: {topk: {densty: 0.1}}}\n"
      "  - {match: c, push: topkk}\n"
      "model: {hidden: [64, a, b]}\n");
  EXPECT_THAT(
      std::vector<std::string>(absl::StrSplit(error, '\n')),
      ElementsAre(
          HasSubstr("c.yaml:3:6: unknown key \"mach\" in compression.rules[0]"),
          HasSubstr("c.yaml:4:30: unknown key \"densty\" in compression.rules[1].push.topk"),
          HasSubstr("c.yaml:5:22: compression.rules[2].push: "),
          HasSubstr("c.yaml:6:22: model.hidden[1]: "),
          HasSubstr("c.yaml:6:25: model.hidden[2]: ")));
  std::string many;
  for (int i = 0; i < 30; ++i) many += "{mach: a}, ";
  const std::string cut = ErrorOf("compression: {rules: [" + many + "], pusch: none}");
  EXPECT_EQ(std::count(cut.begin(), cut.end(), '\n'), 10);
  EXPECT_TRUE(cut.ends_with("\nand perhaps more")) << cut;
}

TEST(ConfigParse, KnowsWhatOthersCallAKey) {
  EXPECT_EQ(ErrorOf("learning_rate: 0.1"),
            "c.yaml:1:1: unknown key \"learning_rate\" in config; psgd calls it "
            "optimizer.sgd.learning_rate (or of another optimizer)");
  EXPECT_THAT(ErrorOf("optimizer: {lr: 0.1}"),
              HasSubstr("psgd calls it optimizer.sgd.learning_rate"));
  EXPECT_THAT(ErrorOf("batch_size: 32"), HasSubstr("psgd calls it data.batch"));
  EXPECT_THAT(ErrorOf("data: {tokens: words}"),
              HasSubstr("is not one of bytes, bpe; psgd has no tokens of whole words: bpe learns "
                        "frequent parts of words"));
  EXPECT_THAT(ErrorOf("max_grad_norm: 1"), HasSubstr("psgd calls it train.clip.norm"));
  EXPECT_THAT(ErrorOf("train: {ema_decay: 0.9}"), HasSubstr("psgd calls it train.average"));
  EXPECT_THAT(ErrorOf("optimizer: {param_groups: []}"),
              HasSubstr("psgd calls it optimizer.groups"));
  EXPECT_THAT(ErrorOf("optimizer: {adam: {lr: 0.1}}"), HasSubstr("; psgd calls it learning_rate"));
  EXPECT_THAT(ErrorOf("optimizer: {adam: {momentum: 0.9}}"), HasSubstr("its keys are "));
  EXPECT_THAT(ErrorOf("train: {lr: 0.1}"), HasSubstr("psgd calls it optimizer.sgd.learning_rate"));
  EXPECT_THAT(ErrorOf("cluster: {staleness: 4}"), HasSubstr("calls it consistency.staleness"));
  EXPECT_THAT(ErrorOf("compression: {push: {topk: {ratio: 0.1}}}"),
              HasSubstr("calls it compression.push.topk.density"));
  EXPECT_THAT(ErrorOf("optimizer: {betas: [0.9, 0.99]}"),
              HasSubstr("calls it optimizer.adam.beta1 and optimizer.adam.beta2"));
  EXPECT_THAT(ErrorOf("data: {augment: {mirror: true}}"), HasSubstr("calls it data.augment.flip"));
  EXPECT_THAT(ErrorOf("data: {shuffle: true}"), HasSubstr("in data; leave it out: psgd deals"));
  EXPECT_THAT(ErrorOf("staleness: 4"), HasSubstr("psgd calls it consistency.staleness"));
  EXPECT_THAT(ErrorOf("training: {epochs: 2}"), HasSubstr("; psgd calls it train"));
  // The outer optimizer's rate is not meant here.
  EXPECT_THAT(ErrorOf("local: {learning_rate: 0.1}"), HasSubstr("its keys are steps, "));
  EXPECT_THAT(ErrorOf("output_dir: a"), HasSubstr("; use the option --run-dir of ps-run"));
}

TEST(ConfigParse, AHintIsAtTheOptimizerThatTheConfigChooses) {
  const std::string adam =
      "unknown key \"lr\" in config; psgd calls it optimizer.adam.learning_rate";
  for (const char* text : {"lr: 0.1\noptimizer: {adam: {learning_rate: 0.01}}\n",
                           "optimizer: Adam\nlr: 0.1\n", "{lr: 1, optimizer: {adam: }}"}) {
    EXPECT_TRUE(ErrorOf(text).ends_with(adam)) << ErrorOf(text);
  }
  EXPECT_THAT(ErrorOf("optimizer: {groups: [], lamb: {}}\ntrain: {weight_decay: 0.1}"),
              HasSubstr("psgd calls it optimizer.lamb.weight_decay"));
  EXPECT_THAT(ErrorOf("optimizer: {adagrad: {}, lr: 0.1}"),
              HasSubstr("psgd calls it optimizer.adagrad.learning_rate"));
  EXPECT_THAT(ErrorOf("optimizer: adamw\nmomentum: 0.9"),
              HasSubstr("; optimizer.adamw has no momentum, but learning_rate, beta1, "));
  EXPECT_THAT(ErrorOf("optimizer: worker\nlr: 0.9"),
              testing::EndsWith("; optimizer.worker has no learning_rate"));
  EXPECT_THAT(ErrorOf("optimizer: admm\nlr: 0.9"), HasSubstr("(or of another optimizer)"));
  Config config;
  config.mutable_optimizer()->mutable_adam();
  EXPECT_THAT(std::string(ApplySet("train.lr=1", &config).message()),
              testing::EndsWith("; psgd calls it optimizer.adam.learning_rate"));
}

TEST(ConfigParse, ASettingThatReplacesAChoiceIsNoted) {
  const auto notes = [](const std::string& text, const std::vector<std::string>& set) {
    std::vector<std::string> notes;
    EXPECT_TRUE(ParseConfig(text, "c.yaml", set, &notes).ok());
    return notes;
  };
  const std::string text =
      "optimizer: {adam: {learning_rate: 0.1}}\ncompression: topk\nschedule: {warmup: 2 epochs}\n";
  EXPECT_THAT(notes(text, {"optimizer.sgd.momentum=0.9", "optimizer.sgd.learning_rate=0.1"}),
              ElementsAre("--set chooses optimizer.sgd: the file's optimizer.adam does not count"));
  EXPECT_THAT(notes(text, {"compression.push.onebit.block=64"}),
              ElementsAre("--set chooses compression.push.onebit: the file's compression.push.topk "
                          "does not count"));
  EXPECT_THAT(notes(text, {"optimizer.adam.learning_rate=1", "schedule.warmup=500 steps"}),
              ElementsAre());
  // Who gives the whole choice knows that it replaces the other.
  EXPECT_THAT(notes(text, {"compression.push=onebit", "optimizer=sgd"}), ElementsAre());
  EXPECT_THAT(notes("seed: 1", {"optimizer.sgd.momentum=0.9"}), ElementsAre());
}

TEST(ConfigParse, NotesThatLocalStepsMakeTheOptimizerTheOuterOne) {
  const auto notes = [](const std::string& text) {
    std::vector<std::string> notes;
    const auto config = ParseConfig(text, "c.yaml", {}, &notes);
    EXPECT_TRUE(config.ok()) << config.status();
    return notes;
  };
  const std::string sgd = "optimizer: {sgd: {learning_rate: 0.05}}\n";
  EXPECT_THAT(notes(sgd + "local: {steps: 10}"),
              ElementsAre("with local.steps, workers train with local.optimizer, which is not set "
                          "(sgd 0.01), and optimizer: sgd applies their changes: if it is meant "
                          "for the workers, move it to local.optimizer"));
  EXPECT_THAT(notes(sgd), ElementsAre());
  EXPECT_THAT(notes("local: {steps: 10}"), ElementsAre());
  EXPECT_THAT(notes(sgd + "local: {steps: 10, optimizer: adam}"), ElementsAre());
  EXPECT_THAT(notes(sgd + "local: {steps: 10}\nmodel: client"), ElementsAre());
  const std::string no_rate = "optimizer: {sgd: {momentum: 0.9}}\n";
  const auto slow = ElementsAre(
      "optimizer.sgd.learning_rate is not set (0.01), and with local.steps each exchange moves the "
      "shards' weights by 1 % of the mean weight change (momentum adds to it): set it, as 0.7");
  EXPECT_THAT(notes(no_rate + "local: {steps: 10, optimizer: adam}"), slow);
  EXPECT_THAT(notes(no_rate + "local: {steps: 10}\nmodel: client"), slow);
  EXPECT_THAT(notes(no_rate), ElementsAre());
}

TEST(ConfigParse, NotesThatAutoKnowsNoSpeedsInAProgramsFirstEpoch) {
  const auto notes = [](const std::string& text) {
    std::vector<std::string> notes;
    EXPECT_TRUE(ParseConfig(text, "c.yaml", {}, &notes).ok());
    return notes;
  };
  const std::string automatic = "local: {steps: auto}\n", program = "model: client\n";
  EXPECT_THAT(notes(program + automatic), ElementsAre(HasSubstr("set cluster.segment, as 16")));
  EXPECT_THAT(notes(automatic), ElementsAre());
  EXPECT_THAT(notes(program + "local: {steps: 8}"), ElementsAre());
  EXPECT_THAT(notes(program + automatic + "cluster: {segment: 16}"), ElementsAre());
}

TEST(ConfigParse, HintsAtValuesOfOtherSystems) {
  const auto calls = [](const std::string& text, const std::string& ours) {
    EXPECT_THAT(ErrorOf(text), testing::EndsWith("; psgd calls it " + ours)) << text;
  };
  calls("data: {format: csv}", "table");
  calls("data: {format: image_folder}", "images");
  calls("data: {format: npz}", "arrays");
  calls("model: {loss: mse}", "squared");
  calls("model: {loss: l2}", "squared");
  calls("model: {loss: bce}", "sigmoid");
  calls("model: {loss: nll}", "cross_entropy");
  calls("model: {loss: CrossEntropyLoss}", "cross_entropy");
  calls("schedule: cosine_annealing", "cosine");
  calls("schedule: CosineAnnealingLR", "cosine");
  calls("consistency: {staleness: inf}", "unbounded");
  EXPECT_THAT(ErrorOf("model: {loss: table}"), testing::EndsWith("smooth_l1, poisson"));
}

TEST(ConfigParse, ASettingMendsWhatTheTextHasWrong) {
  const auto config = ParseConfig("train: {epochs: many}\nseed: 3\n", "c.yaml", {"train.epochs=2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->train().epochs(), 2);
  EXPECT_EQ(config->seed(), 3u);
  EXPECT_THAT(ParseConfig("seed: 3", "c.yaml", {"train.epochs=no"}).status().ToString(),
              HasSubstr("--set train.epochs=no"));
}

TEST(ConfigParse, ReadsEveryKindOfValue) {
  const Config config = Parsed(R"(
name: fashion-mnist
seed: 18446744073709551615
model: {zoo: mlp, hidden: [256, 128], dropout: .5}
data:
  format: Synthetic
  path: "a folder: with # signs"
  mean: [0.2860]
  stddev: [0.3530]
  augment: {flip: true}
schedule: {warmup: 1 epoch, multistep: {at: [2.5 epochs, 3epochs]}}
consistency: {staleness: unbounded, compensation: DELAY}
compression:
  push: {topk: {density: 5e-3}}
  dense_below: 16 KiB
  rules:
    - {match: "fc*.weight", push: onebit}
    - match: conv1.bias
      push: {none: }
cluster: {transport: grpc, lease: 2.5s, window: 64MiB}
durability: {checkpoint: 500 steps}
)");
  EXPECT_EQ(config.name(), "fashion-mnist");
  EXPECT_EQ(config.seed(), 18446744073709551615u);
  EXPECT_THAT(config.model().hidden(), ElementsAre(256, 128));
  EXPECT_EQ(config.model().dropout(), 0.5f);
  EXPECT_EQ(config.data().format(), DataConfig::SYNTHETIC);
  EXPECT_EQ(config.data().path(), "a folder: with # signs");
  EXPECT_THAT(config.data().mean(), ElementsAre(0.2860f));
  EXPECT_TRUE(config.data().augment().flip());
  EXPECT_EQ(config.schedule().warmup().epochs(), 1);
  ASSERT_EQ(config.schedule().multistep().at_size(), 2);
  EXPECT_EQ(config.schedule().multistep().at(0).epochs(), 2.5);
  EXPECT_EQ(config.schedule().multistep().at(1).epochs(), 3);
  EXPECT_EQ(config.consistency().staleness(), -1);
  EXPECT_EQ(config.consistency().compensation(), ConsistencyConfig::DELAY);
  EXPECT_EQ(config.compression().push().topk().density(), 5e-3);
  EXPECT_EQ(config.compression().dense_below(), 16384);
  ASSERT_EQ(config.compression().rules_size(), 2);
  EXPECT_TRUE(config.compression().rules(0).push().has_onebit());
  EXPECT_TRUE(config.compression().rules(1).push().has_none());
  EXPECT_EQ(config.cluster().transport(), ClusterConfig::GRPC);
  EXPECT_EQ(config.cluster().lease(), 2500);
  EXPECT_EQ(config.cluster().window(), 64 << 20);
  EXPECT_EQ(config.durability().checkpoint().steps(), 500);
}

TEST(ConfigParse, KeepsOnlyWhatTheFileGives) {
  const Config config = Parsed("train: {epochs: 3}\nseed: null\ndata:\n");
  EXPECT_FALSE(config.has_seed());
  EXPECT_FALSE(config.has_cluster());
  EXPECT_FALSE(config.train().has_max_steps());
  EXPECT_EQ(config.train().epochs(), 3);
}

TEST(ConfigParse, EmptyIsAllDefaults) {
  for (const char* text : {"", "# only a comment\n", "---\n", "{}", "null", "\n\n"}) {
    EXPECT_EQ(Parsed(text).ByteSizeLong(), 0) << text;
  }
}

TEST(ConfigParse, AWordPicksAMemberOfAChoice) {
  EXPECT_TRUE(Parsed("compression: {push: topk}").compression().push().has_topk());
  EXPECT_TRUE(Parsed("compression: {push: TopK}").compression().push().has_topk());
  EXPECT_TRUE(Parsed("optimizer: adamw").optimizer().has_adamw());
  EXPECT_TRUE(Parsed("schedule: cosine").schedule().has_cosine());
  EXPECT_TRUE(Parsed("compression: {push: {topk: }}").compression().push().has_topk());
  EXPECT_TRUE(Parsed("compression: auto").compression().push().has_auto_());
  EXPECT_TRUE(Parsed("compression: topk").compression().push().has_topk());
}

TEST(ConfigParse, ATextAloneIsAListOfOne) {
  EXPECT_THAT(Parsed("data: {target: price}").data().target(), ElementsAre("price"));
  EXPECT_THAT(Parsed("data: {target: [price, age]}").data().target(), ElementsAre("price", "age"));
  EXPECT_THAT(Parsed("model: {frozen: \"pos*\"}").model().frozen(), ElementsAre("pos*"));
}

TEST(ConfigParse, ALengthMayHaveQuotes) {
  const Config config = Parsed(
      "schedule: {warmup: \"200 steps\", multistep: {at: ['1.5 epochs', 2 epochs]}}\n"
      "durability: {checkpoint: '1 epoch'}");
  EXPECT_EQ(config.schedule().warmup().steps(), 200);
  EXPECT_EQ(config.schedule().multistep().at(0).epochs(), 1.5);
  EXPECT_EQ(config.durability().checkpoint().epochs(), 1);
}

TEST(ConfigParse, AliasesShareWhatTheyName) {
  const Config config = Parsed(
      "compression:\n"
      "  push: &c {topk: {density: 0.5}}\n"
      "  rules: [{match: a, push: *c}, {match: b, push: *c}]\n");
  EXPECT_EQ(config.compression().rules(1).push().topk().density(), 0.5);
}

struct Golden {
  const char* text;
  const char* error;
};

TEST(ConfigParse, ErrorsSayWhereAndWhatToDo) {
  const Golden goldens[] = {
      // Unknown keys.
      {"name: a\nconsistancy: {}\n",
       "c.yaml:2:1: unknown key \"consistancy\" in config; did you mean \"consistency\"?"},
      {"compression:\n  push: {topk: {densty: 1}}\n",
       "c.yaml:2:17: unknown key \"densty\" in compression.push.topk; did you mean \"density\"?"},
      {"train: {zzz: 1}",
       "c.yaml:1:9: unknown key \"zzz\" in train; its keys are epochs, max_steps, clip, average, "
       "early_stop"},
      {"compression: {push: {none: {a: 1}}}",
       "c.yaml:1:29: unknown key \"a\" in compression.push.none; it has none"},
      {"\"a\\e[31mb\": 1",
       "c.yaml:1:1: unknown key \"a\\033[31mb\" in config; its keys are name, "
       "seed, model, data, train, optimizer, schedule, consistency, "
       "compression, cluster, durability, node, local"},
      // Given twice.
      {"seed: 1\nname: a\nseed: 2\n",
       "c.yaml:3:1: duplicate key \"seed\" in config; first given in line 1"},
      {"compression: {push: {topk: {}, onebit: {}}}",
       "c.yaml:1:32: compression.push: \"topk\" and \"onebit\" exclude each other; keep one"},
      // Types.
      {"data:\n  batch: many\n", "c.yaml:2:10: data.batch: expected a whole number, got \"many\""},
      {"data: {batch: 12abc}", "c.yaml:1:15: data.batch: expected a whole number, got \"12abc\""},
      {"data: {batch: 6.5}", "c.yaml:1:15: data.batch: expected a whole number, got \"6.5\""},
      {"data: {batch: 0x10}", "c.yaml:1:15: data.batch: expected a whole number, got \"0x10\""},
      {"data: {batch: \"64\"}",
       "c.yaml:1:15: data.batch: expected a whole number, got the string \"64\""},
      {"data: {batch: [64]}", "c.yaml:1:15: data.batch: expected a single value, got a list"},
      {"data: {batch: {a: 1}}", "c.yaml:1:15: data.batch: expected a single value, got a mapping"},
      {"data: {noise: 1, synthetic: {noise: 1x}}",
       "c.yaml:1:8: unknown key \"noise\" in data; its keys are format, path, batch, eval_batch, "
       "mean, stddev, augment, synthetic, prefetch, threads, train_samples, test_samples, text, "
       "images, table, ratings, tokens, vocabulary, translation, "
       "target, columns, categories, target_kind, standardize, input, micro_batch\n"
       "c.yaml:1:37: data.synthetic.noise: expected a number, got \"1x\""},
      {"data: {synthetic: {noise: 1x}}",
       "c.yaml:1:27: data.synthetic.noise: expected a number, got \"1x\""},
      {"data: {synthetic: {noise: nan}}",
       "c.yaml:1:27: data.synthetic.noise: expected a number, got \"nan\""},
      {"data: {synthetic: {noise: .inf}}",
       "c.yaml:1:27: data.synthetic.noise: expected a number, got \".inf\""},
      {"data: {augment: {flip: yes}}",
       "c.yaml:1:24: data.augment.flip: expected true or false, got \"yes\""},
      {"data: {augment: {flip: 'true'}}",
       "c.yaml:1:24: data.augment.flip: expected true or false, got the string \"true\""},
      {"model: {hidden: 5}", "c.yaml:1:17: model.hidden: expected a list, as [a, b], got \"5\""},
      {"model: {hidden: [1, ~]}",
       "c.yaml:1:21: model.hidden[1]: expected a single value, got nothing"},
      {"model: lenet5",
       "c.yaml:1:8: model: expected client or a mapping with keys of zoo, onnx, client, hidden, "
       "dropout, layers, width, "
       "heads, frozen, label_smoothing, loss, ignored_label, recompute, meprop, got \"lenet5\""},
      {"train: [1]",
       "c.yaml:1:8: train: expected a mapping with keys of epochs, max_steps, clip, average, "
       "early_stop, got a list"},
      {"{[a]: 1}", "c.yaml:1:2: a key must be a word, got a list"},
      {"data: {? {a: b} : 1}", "c.yaml:1:10: data: a key must be a word, got a mapping"},
      {"model: {zoo: [a]}", "c.yaml:1:14: model.zoo: expected a single value, got a list"},
      {"data: {path: \"a\\0b\"}",
       "c.yaml:1:14: data.path: a line end, control character or malformed UTF-8 in it"},
      {"name: a b",
       "c.yaml:1:7: name: expected 1 to 64 letters, digits, '.', '_' or '-', got \"a b\""},
      {"name: ../x",
       "c.yaml:1:7: name: expected 1 to 64 letters, digits, '.', '_' or '-', got \"../x\""},
      // Choices.
      {"cluster: {transport: zqm}",
       "c.yaml:1:22: cluster.transport: \"zqm\" is not one of zmq, ipc, grpc, auto, ucx; did you "
       "mean "
       "\"zmq\"?"},
      {"cluster: {transport: carrier-pigeon}",
       "c.yaml:1:22: cluster.transport: \"carrier-pigeon\" is not one of zmq, ipc, grpc, auto, "
       "ucx"},
      {"compression: {push: topkk}",
       "c.yaml:1:21: compression.push: \"topkk\" is not one of none, fp16, topk, onebit, ternary, "
       "bf16, "
       "int8, qsgd, natural, sign, signum, randomk, threshold, blocks, dgc, powersgd, auto, "
       "factors, chunked; did you mean \"topk\"?"},
      // Ranges.
      {"data: {batch: 0}", "c.yaml:1:15: data.batch: 0 is out of range: must be 1 to 1048576"},
      {"data: {batch: 99999999999}",
       "c.yaml:1:15: data.batch: 99999999999 is out of range: must be 1 to 1048576"},
      {"local: {steps: 30}\noptimizer: {sgd: {learning_rate: 0}}",
       "c.yaml:2:34: optimizer.sgd.learning_rate: 0 is out of range: must be above 0: with 0 the "
       "weights never change"},
      {"train: {epochs: 0}", "c.yaml:1:17: train.epochs: 0 is out of range: must be at least 1"},
      {"train: {epochs: 2147483648}",
       "c.yaml:1:17: train.epochs: 2147483648 is out of range: must be at most 2147483647"},
      {"seed: -1", "c.yaml:1:7: seed: -1 is out of range: must be at least 0"},
      {"seed: 18446744073709551616",
       "c.yaml:1:7: seed: 18446744073709551616 is out of range: must be at most "
       "18446744073709551615"},
      {"consistency: {staleness: -2}",
       "c.yaml:1:26: consistency.staleness: -2 is out of range: must be at least 0, or "
       "\"unbounded\""},
      {"consistency: {staleness: -1}",
       "c.yaml:1:26: consistency.staleness: -1 is out of range: must be at least 0, or "
       "\"unbounded\""},
      {"model: {recompute: -1}",
       "c.yaml:1:20: model.recompute: -1 is out of range: must be at least 0, or \"auto\""},
      {"consistency: {staleness: unbound}",
       "c.yaml:1:26: consistency.staleness: expected a whole number or \"unbounded\", got "
       "\"unbound\""},
      {"compression: {push: {topk: {density: 0}}}",
       "c.yaml:1:38: compression.push.topk.density: 0 is out of range: must be above 0 and at most "
       "1"},
      {"model: {dropout: 1}",
       "c.yaml:1:18: model.dropout: 1 is out of range: must be at least 0 and below 1"},
      {"model: {dropout: 0.999999999999}",  // 1 as a float
       "c.yaml:1:18: model.dropout: 0.999999999999 is out of range: must be at least 0 and below "
       "1"},
      {"optimizer: {sgd: {learning_rate: 1e999}}",
       "c.yaml:1:34: optimizer.sgd.learning_rate: 1e999 is too large for this key"},
      {"model: {hidden: [8, 0]}",
       "c.yaml:1:21: model.hidden[1]: 0 is out of range: must be at least 1"},
      // Units.
      {"cluster: {lease: 10}",
       "c.yaml:1:18: cluster.lease: \"10\" has no unit; write it as 100ms, 2s, 5min or 1h"},
      {"cluster: {lease: 10ms}",
       "c.yaml:1:18: cluster.lease: 10ms is out of range: must be at least 200ms"},
      {"cluster: {window: 4 bananas}",
       "c.yaml:1:19: cluster.window: \"4 bananas\" has an unknown unit; write it as 4MiB, 64KiB or "
       "512"},
      {"cluster: {slice: 8MiB}",
       "c.yaml:1:18: cluster.slice: 8MiB is out of range: must be 0 to 4MiB"},
      {"cluster: {window: 99999999999GiB}",
       "c.yaml:1:19: cluster.window: \"99999999999GiB\" is too large"},
      {"durability: {checkpoint: 2}",
       "c.yaml:1:26: durability.checkpoint: expected a length such as 2 epochs or 500 steps, got "
       "\"2\""},
      {"durability: {checkpoint: 2 weeks}",
       "c.yaml:1:26: durability.checkpoint: expected a length such as 2 epochs or 500 steps, got "
       "\"2 weeks\""},
      {"durability: {checkpoint: 1.5 steps}",
       "c.yaml:1:26: durability.checkpoint: expected a whole number, got \"1.5\""},
      {"durability: {checkpoint: -1 epochs}",
       "c.yaml:1:26: durability.checkpoint: -1 is out of range: must be at least 0"},
      {"durability: {checkpoint: {epochs: 1}}",
       "c.yaml:1:26: durability.checkpoint: expected a single value, got a mapping"},
      // YAML syntax.
      {"train: {epochs: 1", "c.yaml:1:8: not valid YAML: this { is never closed"},
      {"train:\n\tepochs: 1\n", "c.yaml:2:1: not valid YAML: a tab in the indentation; use spaces"},
      {"model: {hidden: [1, 2}\n", "c.yaml:1:22: not valid YAML: illegal flow end"},
      {"model: {hidden: [1, 2", "c.yaml:1:17: not valid YAML: this [ is never closed"},
      {"train: a: b", "c.yaml:1:9: not valid YAML: illegal map value"},
      {"seed: *nothing", "c.yaml:1:7: not valid YAML: the referenced anchor is not defined"},
      {"seed: 1\n---\nseed: 2\n",
       "c.yaml:2:1: a second YAML document starts here; keep one, or look for a stray bracket or "
       "\"---\" before this line"},
      {"seed: !!int 1", "c.yaml:1:7: YAML tags are not used here; leave out tag:yaml.org,2002:int"},
      {"- a\n- b\n",
       "c.yaml:1:1: expected a mapping with keys of name, seed, model, data, train, optimizer, "
       "schedule, consistency, compression, cluster, durability, node, local, got a list"},
      {"data: &d {augment: *d}", "c.yaml:1:20: an alias to what contains it"},
      // Columns count characters, not bytes.
      {"{name: \"\xC3\xA9\xC3\xA9\", seed: 1}",
       "c.yaml:1:8: name: expected 1 to 64 letters, digits, '.', '_' or '-', got "
       "\"\xC3\xA9\xC3\xA9\""},
      {"data: {path: \"\xC3\xA9\xC3\xA9\", batches: 1}",
       "c.yaml:1:20: unknown key \"batches\" in data; did you mean \"batch\"?"},
      {"name: a\nmodel: {zoo: \"\xFF\"}",
       "c.yaml:2:15: byte 0xff does not belong in UTF-8 text; is this a YAML file?"},
  };
  for (const Golden& golden : goldens) EXPECT_EQ(ErrorOf(golden.text), golden.error) << golden.text;
}

TEST(ConfigParse, LongTextsAreCutInErrors) {
  EXPECT_EQ(ErrorOf(std::string(100000, 'x') + ": 1").size() < 300, true);
  EXPECT_THAT(ErrorOf("seed: " + std::string(100000, 'x')), HasSubstr("xxx...\""));
}

TEST(ConfigLoad, MissingFile) {
  const absl::Status status = LoadConfig("/no/such/config.yaml").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "config: cannot open /no/such/config.yaml: No such file or directory; check the "
            "spelling and the folder it is relative to");
}

TEST(ConfigLoad, NotAFile) {
  EXPECT_THAT(std::string(LoadConfig("/tmp").status().message()), HasSubstr("Is a directory"));
  EXPECT_THAT(std::string(LoadConfig("/dev/zero").status().message()),
              HasSubstr("/dev/zero is larger than 1048576 bytes; is it the right file?"));
}

TEST(ConfigLoad, ErrorsBeginWithThePath) {
  const std::string path = testing::TempDir() + "/config_load_test.yaml";
  std::ofstream(path) << "\nseeed: 1\n";
  EXPECT_EQ(LoadConfig(path).status().message(),
            path + ":2:1: unknown key \"seeed\" in config; did you mean \"seed\"?");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace psgd
