#include "compression/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

ParameterSpec Parameter(const char* name, std::initializer_list<int64_t> shape) {
  ParameterSpec parameter;
  parameter.set_name(name);
  for (int64_t extent : shape) parameter.add_shape(extent);
  return parameter;
}

TEST(ChooseCodec, DefaultsToNone) {
  EXPECT_TRUE(ChooseCodec({}, Parameter("w", {100, 100})).has_none());
}

TEST(ChooseCodec, SmallTensorsAndStatisticsTravelDense) {
  CompressionConfig config;
  config.mutable_push()->mutable_onebit();
  EXPECT_TRUE(ChooseCodec(config, Parameter("w", {1023})).has_none());
  EXPECT_TRUE(ChooseCodec(config, Parameter("w", {1024})).has_onebit());
  EXPECT_TRUE(ChooseCodec(config, Parameter("w", {0, 1 << 20})).has_none());
  EXPECT_TRUE(ChooseCodec(config, Parameter("w", {int64_t{1} << 62, 1 << 20})).has_onebit());
  config.set_dense_below(0);
  EXPECT_TRUE(ChooseCodec(config, Parameter("w", {1})).has_onebit());
  ParameterSpec mean = Parameter("bn.mean", {1 << 20});
  mean.set_role(ParameterSpec::STATISTIC);
  EXPECT_TRUE(ChooseCodec(config, mean).has_none());
}

TEST(FullDensityText, SaysWhenNothingIsLeftOut) {
  CompressionConfig config;
  EXPECT_EQ(FullDensityText(config), "");
  config.mutable_push()->mutable_topk()->set_density(0.01);
  EXPECT_EQ(FullDensityText(config), "");
  config.mutable_push()->mutable_topk()->set_density(1);
  EXPECT_THAT(FullDensityText(config),
              testing::StartsWith("compression.push.topk.density is 1, a share from 0 to 1: "));
}

TEST(LeftOutText, SaysWhenMostWeightsTravelDense) {
  ModelSpec model;
  *model.add_parameters() = Parameter("w", {30, 30});
  *model.add_parameters() = Parameter("b", {30});
  CompressionConfig config;
  EXPECT_EQ(LeftOutText(config, model), "") << "no codec";
  config.mutable_push()->mutable_topk();
  EXPECT_EQ(LeftOutText(config, model),
            "codec topk carries 0 of 2 tensors: the others have fewer than 4096 bytes "
            "(compression.dense_below) and travel whole");
  config.set_dense_below(1000);
  EXPECT_EQ(LeftOutText(config, model), "") << "biases are small in every network";
  config.clear_dense_below();
  config.mutable_push()->mutable_signum();
  EXPECT_EQ(LeftOutText(config, model), "") << "small tensors send signs, too";
  config.mutable_push()->mutable_dgc();
  EXPECT_NE(LeftOutText(config, model), "") << "small tensors send every element";
  ParameterSpec rows = Parameter("rows", {1000, 1000});
  rows.set_sparse(true);
  *model.add_parameters() = rows;
  config.mutable_push()->mutable_int8();
  EXPECT_THAT(LeftOutText(config, model), testing::StartsWith("codec int8 carries 0 of 2 tensors"))
      << "of rows, the nonzero ones travel";
}

// The server's optimizer then has no momentum, and small tensors need theirs too.
TEST(ChooseCodec, SmallTensorsKeepTheMomentumOfTheirCodec) {
  CompressionConfig config;
  config.mutable_push()->mutable_dgc()->set_momentum(0.8);
  config.mutable_push()->mutable_dgc()->mutable_warmup()->set_steps(100);
  const DgcCodec small = ChooseCodec(config, Parameter("b", {10})).dgc();
  EXPECT_EQ(small.density(), 1);
  EXPECT_EQ(small.momentum(), 0.8);
  EXPECT_FALSE(small.has_warmup());
  EXPECT_EQ(ChooseCodec(config, Parameter("w", {5000})).dgc().warmup().steps(), 100);
  ParameterSpec mean = Parameter("bn.mean", {10});
  mean.set_role(ParameterSpec::STATISTIC);
  EXPECT_TRUE(ChooseCodec(config, mean).has_none());
  config.mutable_push()->mutable_signum()->set_momentum(0.5);
  EXPECT_EQ(ChooseCodec(config, Parameter("b", {10})).signum().momentum(), 0.5);
}

TEST(InSteps, CountsLengthsOfWholeEpochs) {
  CompressionConfig config;
  config.mutable_push()->mutable_dgc()->mutable_warmup()->set_epochs(1.5);
  config.add_rules()->mutable_push()->mutable_dgc()->mutable_warmup()->set_steps(7);
  config.add_rules()->mutable_push()->mutable_dgc();
  config.add_rules()->mutable_push()->mutable_topk();
  const CompressionConfig counted = InSteps(config, 33);
  EXPECT_EQ(counted.push().dgc().warmup().steps(), 50);
  EXPECT_EQ(counted.rules(0).push().dgc().warmup().steps(), 7);
  EXPECT_FALSE(counted.rules(1).push().dgc().has_warmup());
  EXPECT_TRUE(counted.rules(2).push().has_topk());
  config.mutable_push()->mutable_dgc()->mutable_warmup()->set_epochs(1e300);
  EXPECT_GT(InSteps(config, 33).push().dgc().warmup().steps(), 1000000);
}

// auto is for tensors worth a choice. A sparse one sends only its nonzero values anyway.
TEST(ChooseCodec, AutoIsForLargeDenseTensors) {
  CompressionConfig config;
  config.mutable_push()->mutable_auto_();
  EXPECT_TRUE(ChooseCodec(config, Parameter("w", {1024})).has_auto_());
  EXPECT_TRUE(ChooseCodec(config, Parameter("w", {1023})).has_none());
  ParameterSpec table = Parameter("table", {1 << 20});
  table.set_sparse(true);
  EXPECT_TRUE(ChooseCodec(config, table).has_none());
  config.mutable_push()->mutable_topk();
  EXPECT_TRUE(ChooseCodec(config, table).has_topk());
}

// A push touches few rows of a table of a million. One byte per element would be more than four
// bytes per touched element.
TEST(ChooseCodec, WhatSendsZerosIsForDenseTensorsUnlessARuleSaysSo) {
  ParameterSpec table = Parameter("table", {1 << 20});
  table.set_sparse(true);
  const char* const dense[] = {"fp16",   "bf16", "int8",    "qsgd",    "natural",
                               "onebit", "sign", "ternary", "powersgd"};
  const char* const sparse[] = {"topk",    "randomk", "threshold", "blocks",
                                "chunked", "dgc",     "signum",    "none"};
  const auto choose = [&](const char* name, bool by_rule) {
    CodecConfig codec;
    const auto* field = CodecConfig::descriptor()->FindFieldByName(name);
    codec.GetReflection()->MutableMessage(&codec, field);
    CompressionConfig config;
    if (by_rule) {
      config.add_rules()->set_match("t*");
      *config.mutable_rules(0)->mutable_push() = codec;
    } else {
      *config.mutable_push() = codec;
    }
    return CodecText(ChooseCodec(config, table));
  };
  for (const char* name : dense) {
    EXPECT_EQ(choose(name, false), "none") << name;
    EXPECT_EQ(choose(name, true), name);
  }
  for (const char* name : sparse) EXPECT_EQ(choose(name, false), name);
}

std::vector<std::string> CandidateTexts(const AutoCodec& config) {
  std::vector<std::string> texts;
  for (const CodecConfig& codec : Candidates(config)) texts.push_back(CodecText(codec));
  return texts;
}

TEST(Candidates, HaveFp16First) {
  AutoCodec config;
  using Texts = std::vector<std::string>;
  EXPECT_EQ(CandidateTexts(config), (Texts{"fp16", "int8", "onebit", "topk"}));
  config.add_codecs()->mutable_topk()->set_density(0.05);
  config.mutable_codecs(0)->mutable_topk()->set_values(TopkCodec::FP16);
  config.mutable_codecs(0)->mutable_topk()->set_select(TopkCodec::EXACT);
  EXPECT_EQ(CandidateTexts(config), (Texts{"fp16", "topk(density: 0.05, values: fp16)"}));
  config.add_codecs()->mutable_fp16();
  config.add_codecs()->mutable_none();
  EXPECT_EQ(CandidateTexts(config), (Texts{"fp16", "topk(density: 0.05, values: fp16)", "none"}));
}

TEST(ChooseCodec, TheFirstRuleThatMatchesDecides) {
  CompressionConfig config;
  config.mutable_push()->mutable_onebit();
  CompressionRule* rule = config.add_rules();
  rule->set_match("fc*");
  rule->mutable_push()->mutable_topk()->set_density(0.5);
  rule = config.add_rules();
  rule->set_match("*.weight");
  rule->mutable_push()->mutable_fp16();
  EXPECT_EQ(ChooseCodec(config, Parameter("fc1.weight", {4096})).topk().density(), 0.5);
  EXPECT_TRUE(ChooseCodec(config, Parameter("conv.weight", {4096})).has_fp16());
  EXPECT_TRUE(ChooseCodec(config, Parameter("conv.bias", {4096})).has_onebit());
  EXPECT_TRUE(ChooseCodec(config, Parameter("fc1.bias", {10})).has_none());
}

TEST(SendsSingleElements, AlsoIfACandidateDoes) {
  CodecConfig codec;
  codec.mutable_qsgd();
  EXPECT_FALSE(SendsSingleElements(codec));
  codec.mutable_dgc();
  EXPECT_TRUE(SendsSingleElements(codec));
  codec.mutable_auto_()->add_codecs()->mutable_int8();
  EXPECT_FALSE(SendsSingleElements(codec));
  codec.mutable_auto_()->add_codecs()->mutable_topk();
  EXPECT_TRUE(SendsSingleElements(codec));
}

}  // namespace
}  // namespace psgd
