#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiment/config/config_yaml.h"

namespace psgd {
namespace {

using ::testing::ElementsAre;

class ConfigSet : public testing::Test {
 protected:
  void Set(const std::string& assignment) {
    const absl::Status status = ApplySet(assignment, &config_);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::string ErrorOf(const std::string& assignment) {
    const std::string before = config_.SerializeAsString();
    const absl::Status status = ApplySet(assignment, &config_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << assignment;
    EXPECT_EQ(config_.SerializeAsString(), before) << "a refused --set changed the config";
    return std::string(status.message());
  }

  Config config_;
};

TEST_F(ConfigSet, Values) {
  Set("train.epochs=2");
  Set("compression.push.topk.density=0.05");
  Set("model.hidden=[256,128]");
  Set("cluster.window=32MiB");
  Set("durability.checkpoint=1 epoch");
  Set("consistency.staleness=unbounded");
  Set("cluster.transport=IPC");
  EXPECT_EQ(config_.train().epochs(), 2);
  EXPECT_EQ(config_.compression().push().topk().density(), 0.05);
  EXPECT_THAT(config_.model().hidden(), ElementsAre(256, 128));
  EXPECT_EQ(config_.cluster().window(), 32 << 20);
  EXPECT_EQ(config_.durability().checkpoint().epochs(), 1);
  EXPECT_EQ(config_.consistency().staleness(), -1);
  EXPECT_EQ(config_.cluster().transport(), ClusterConfig::IPC);
}

TEST_F(ConfigSet, AnotherMemberOfAChoiceReplacesTheFirst) {
  Set("compression.push=topk");
  EXPECT_TRUE(config_.compression().push().has_topk());
  Set("compression.push=onebit");
  EXPECT_TRUE(config_.compression().push().has_onebit());
  Set("compression.push.ternary.clip=2");
  EXPECT_TRUE(config_.compression().push().has_ternary());
  Set("compression.push.auto.codecs=[topk, {onebit: {block: 128}}]");
  ASSERT_EQ(config_.compression().push().auto_().codecs_size(), 2);
  EXPECT_EQ(config_.compression().push().auto_().codecs(1).onebit().block(), 128);
  Set("compression=auto");
  EXPECT_TRUE(config_.compression().push().has_auto_());
  EXPECT_EQ(config_.compression().push().auto_().codecs_size(), 0);
  Set("compression.push={topk: {density: 0.5}}");
  EXPECT_EQ(config_.compression().push().topk().density(), 0.5);
}

TEST_F(ConfigSet, DottedKeysKeepTheirNeighbours) {
  Set("optimizer.sgd.momentum=0.9");
  Set("optimizer.sgd.learning_rate=0.1");
  EXPECT_EQ(config_.optimizer().sgd().momentum(), 0.9);
  EXPECT_EQ(config_.optimizer().sgd().learning_rate(), 0.1);
}

TEST_F(ConfigSet, WholeSectionsAndListsAreReplaced) {
  Set("model.hidden=[1,2]");
  Set("model.hidden=[3]");
  EXPECT_THAT(config_.model().hidden(), ElementsAre(3));
  Set("optimizer.sgd.momentum=0.9");
  Set("optimizer={sgd: {learning_rate: 0.1}}");
  EXPECT_FALSE(config_.optimizer().sgd().has_momentum());
  Set("compression.rules=[{match: a, push: none}]");
  EXPECT_EQ(config_.compression().rules_size(), 1);
}

TEST_F(ConfigSet, NothingGivesTheDefault) {
  Set("durability.checkpoint=1 epoch");
  Set("durability.checkpoint=");
  EXPECT_FALSE(config_.durability().has_checkpoint());
  Set("train.epochs=7");
  Set("train.epochs=null");
  EXPECT_FALSE(config_.train().has_epochs());
  Set("model.hidden=[4]");
  Set("model.hidden=");
  EXPECT_EQ(config_.model().hidden_size(), 0);
}

TEST_F(ConfigSet, StringsAreTakenAsTheyAre) {
  for (const char* path : {"/a: b #c", "null", "[x", "a=b", "\"q\"", "~", ""}) {
    Set(std::string("data.path=") + path);
    EXPECT_EQ(config_.data().path(), path);
  }
}

TEST_F(ConfigSet, AllProblemsAreNamedAtOnce) {
  const auto config =
      ParseConfig("batch_size: 1\n", "c.yaml", {"optimzer.lr=0.1", "seed=2", "train.epoch=1"});
  EXPECT_EQ(config.status().message(),
            "c.yaml:1:1: unknown key \"batch_size\" in config; psgd calls it data.batch\n"
            "--set optimzer.lr=0.1: unknown key \"optimzer\" in config; did you mean "
            "\"optimizer\"?\n"
            "--set train.epoch=1: unknown key \"epoch\" in train; did you mean \"epochs\"?");
}

TEST_F(ConfigSet, Errors) {
  EXPECT_EQ(ErrorOf("compression.pussh=topk"),
            "--set compression.pussh=topk: unknown key \"pussh\" in compression; did you mean "
            "\"push\"?");
  EXPECT_EQ(ErrorOf("compresion.push=topk"),
            "--set compresion.push=topk: unknown key \"compresion\" in config; did you mean "
            "\"compression\"?");
  EXPECT_EQ(ErrorOf("compression.push=topkk"),
            "--set compression.push=topkk: compression.push: \"topkk\" is not one of none, fp16, "
            "topk, onebit, ternary, bf16, int8, qsgd, natural, sign, signum, randomk, threshold, "
            "blocks, dgc, powersgd, auto, factors, chunked; did you mean \"topk\"?");
  EXPECT_THAT(ErrorOf("compression=atuo"), testing::EndsWith("; did you mean \"auto\"?"));
  EXPECT_EQ(ErrorOf("compression.push={topk: {densty: 1}}"),
            "--set compression.push={topk: {densty: 1}}: unknown key \"densty\" in "
            "compression.push.topk; did you mean \"density\"?");
  EXPECT_EQ(ErrorOf("train.epochs"), "--set train.epochs: expected key=value, as train.epochs=2");
  EXPECT_EQ(ErrorOf("=2"), "--set =2: expected key=value, as train.epochs=2");
  EXPECT_EQ(ErrorOf("train.epochs=two"),
            "--set train.epochs=two: train.epochs: expected a whole number, got \"two\"");
  EXPECT_EQ(ErrorOf("train.epochs.x=2"),
            "--set train.epochs.x=2: train.epochs is a single value; it has no key \"x\"");
  EXPECT_EQ(ErrorOf("durability.checkpoint.epochs=2"),
            "--set durability.checkpoint.epochs=2: durability.checkpoint is a single value; it has "
            "no key \"epochs\"");
  EXPECT_EQ(ErrorOf("compression.rules.match=a"),
            "--set compression.rules.match=a: compression.rules is a list; give it whole, as "
            "compression.rules=[a, b]");
  EXPECT_EQ(ErrorOf("model.hidden=[1,2"),
            "--set model.hidden=[1,2: not valid YAML: this [ is never closed");
  EXPECT_EQ(ErrorOf("train..epochs=1"),
            "--set train..epochs=1: unknown key \"\" in train; its keys are epochs, max_steps, "
            "clip, average, early_stop");
  EXPECT_EQ(ErrorOf("name=a b"),
            "--set name=a b: name: expected 1 to 64 letters, digits, '.', '_' or '-', got \"a "
            "b\"");
}

}  // namespace
}  // namespace psgd
