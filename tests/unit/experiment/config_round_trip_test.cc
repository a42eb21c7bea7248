#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "experiment/config/config_yaml.h"
#include "tests/unit/experiment/random_config.h"

namespace psgd {
namespace {

using google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

void ExpectRoundTrip(const Config& config) {
  const Config resolved = ResolveDefaults(config);
  const std::string text = FormatConfig(config);
  const absl::StatusOr<Config> back = ParseConfig(text, "resolved");
  ASSERT_TRUE(back.ok()) << back.status() << "\n" << text;
  std::string differences;
  MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&differences);
  EXPECT_TRUE(differencer.Compare(resolved, *back)) << differences << "\n" << text;
  EXPECT_EQ(FormatConfig(*back), text);
  EXPECT_TRUE(MessageDifferencer::Equals(ResolveDefaults(resolved), resolved));
}

TEST(ConfigRoundTrip, Empty) { ExpectRoundTrip(Config()); }

TEST(ConfigRoundTrip, RandomConfigs) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000 && !HasFailure(); ++i) ExpectRoundTrip(RandomConfig(&random));
}

TEST(ConfigRoundTrip, DefaultsArePresent) {
  const Config config = ResolveDefaults(Config());
  EXPECT_TRUE(config.has_seed());
  EXPECT_TRUE(config.optimizer().sgd().has_learning_rate());
  EXPECT_TRUE(config.schedule().has_constant());
  EXPECT_TRUE(config.compression().push().has_none());
  EXPECT_TRUE(config.compression().pull().has_none());
  EXPECT_TRUE(config.data().synthetic().has_noise());
  EXPECT_FALSE(config.schedule().has_warmup());
  EXPECT_FALSE(config.durability().has_checkpoint());
  EXPECT_EQ(config.model().source_case(), ModelConfig::SOURCE_NOT_SET);
}

TEST(ConfigRoundTrip, WhatAListElementLeavesOutStaysOut) {
  Config config;
  config.mutable_compression()->add_rules()->set_match("a");
  config.mutable_compression()->add_rules()->mutable_push()->mutable_topk();
  const Config resolved = ResolveDefaults(config);
  EXPECT_FALSE(resolved.compression().rules(0).has_push());
  EXPECT_TRUE(resolved.compression().rules(1).push().topk().has_density());
}

// dgc's warm-up is a length with a default, and a bare number means steps.
TEST(ConfigRoundTrip, ALengthMayHaveADefault) {
  const auto warmup = [](const std::string& text) {
    const auto config = ParseConfig("compression: {push: {dgc: {" + text + "}}}", "test.yaml");
    EXPECT_TRUE(config.ok()) << config.status();
    const Config again = *ParseConfig(FormatConfig(*config), "again.yaml");
    return again.compression().push().dgc().warmup();
  };
  EXPECT_EQ(warmup("").epochs(), 4);
  EXPECT_EQ(warmup("warmup: null").epochs(), 4);
  EXPECT_EQ(warmup("warmup: 1.5 epochs").epochs(), 1.5);
  EXPECT_EQ(warmup("warmup: 200").steps(), 200);
  EXPECT_EQ(warmup("warmup: 200 steps").steps(), 200);
  EXPECT_TRUE(warmup("warmup: 0").has_steps());
  EXPECT_FALSE(ParseConfig("compression: {push: {dgc: {warmup: soon}}}", "test.yaml").ok());
  EXPECT_FALSE(ParseConfig("compression: {push: {dgc: {warmup: -5}}}", "test.yaml").ok());
  EXPECT_FALSE(ParseConfig("schedule: {warmup: 200}", "test.yaml").ok());
}

TEST(ConfigFormat, IsReadable) {
  Config config;
  config.mutable_compression()->mutable_push()->mutable_topk();
  auto* rule = config.mutable_compression()->add_rules();
  rule->set_match("fc*.weight");
  rule->mutable_push()->mutable_none();
  config.mutable_consistency()->set_staleness(-1);
  config.mutable_schedule()->mutable_warmup()->set_epochs(1);
  const std::string text = FormatConfig(config);
  EXPECT_THAT(text, HasSubstr("compression:\n"
                              "  push:\n"
                              "    topk:\n"
                              "      density: 0.01\n"
                              "      select: exact\n"
                              "      values: fp32\n"
                              "  pull:\n"
                              "    none: {}\n"
                              "  dense_below: 4KiB\n"
                              "  rules:\n"
                              "    - match: \"fc*.weight\"\n"
                              "      push:\n"
                              "        none: {}\n"
                              "  error_feedback: true\n"
                              "  residual_decay: 1\n"));
  EXPECT_THAT(text, HasSubstr("  staleness: unbounded\n"));
  EXPECT_THAT(text, HasSubstr("  warmup: 1 epoch\n"));
  EXPECT_THAT(text, HasSubstr("  checkpoint: null\n"));
  EXPECT_THAT(text, HasSubstr("  lease: 10s\n"));
  EXPECT_THAT(text, HasSubstr("  hidden: []\n"));
}

}  // namespace
}  // namespace psgd
