#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiment/config/config_yaml.h"
#include "simulate/model_yaml.h"
#include "tests/folders.h"

namespace psgd::sim {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const auto model = ParseModel(text, "m.yaml");
  return model.ok() ? "" : std::string(model.status().message());
}

TEST(ModelYaml, ReadsUnitsAndDefaults) {
  const auto model =
      ParseModel("worker: {sample: 0.5ms, spread: 0.1}\nnetwork: {server_link: 10gbit}\n", "m");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_DOUBLE_EQ(model->worker().sample(), 0.5e-3);
  EXPECT_DOUBLE_EQ(model->worker().spread(), 0.1);
  EXPECT_DOUBLE_EQ(model->network().server_link(), 1.25e9);
  EXPECT_EQ(model->server().hosts(), 1);
}

TEST(ModelYaml, WritesWhatItReads) {
  SimModel model;
  model.mutable_worker()->set_sample(0.25e-3);
  model.mutable_worker()->set_weight(1.5e-9);
  model.mutable_server()->set_cores(2);
  model.mutable_network()->set_together(true);
  SimSite* site = model.mutable_network()->add_sites();
  site->set_link(12.5e6);
  site->set_latency(0.05);
  model.mutable_network()->add_sites()->set_link(1.25e8);
  model.mutable_measured()->set_run("runs/a b: #c");
  const std::string text = FormatModel(model);
  const auto again = ParseModel(text, "m");
  ASSERT_TRUE(again.ok()) << again.status() << text;
  EXPECT_EQ(FormatModel(*again), text);
  EXPECT_DOUBLE_EQ(again->worker().weight(), 1.5e-9);
  EXPECT_EQ(again->measured().run(), "runs/a b: #c");
}

TEST(ModelYaml, ErrorsSayWhere) {
  EXPECT_THAT(ErrorOf("worker:\n  sampel: 1ms\n"), HasSubstr("m.yaml:2:3"));
  EXPECT_THAT(ErrorOf("worker:\n  sampel: 1ms\n"), HasSubstr("did you mean \"sample\""));
  EXPECT_THAT(ErrorOf("worker:\n  sample: 12\n"),
              HasSubstr("m.yaml:2:11: worker.sample: expected a time"));
  EXPECT_THAT(ErrorOf("worker: {sample: -1ms}"), HasSubstr("out of range"));
  EXPECT_THAT(ErrorOf("worker: {overlap: 2}"), HasSubstr("must be 0 to 1"));
  EXPECT_THAT(ErrorOf("network: {worker_link: fast}"), HasSubstr("the speed of a link"));
  EXPECT_THAT(ErrorOf("server: {hosts: [1]}"), HasSubstr("m.yaml:1:"));
  EXPECT_THAT(ErrorOf("worker: {sample: [1ms]}"), HasSubstr("m.yaml:1:"));
}

TEST(ModelYaml, AMissingFileIsNamed) {
  const auto model = LoadModel("/nowhere/m.yaml");
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("/nowhere/m.yaml"));
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("--calibrate"));
}

TEST(ModelYaml, ShippedModelsLoad) {
  for (const std::string name : {"titan_x", "internet"}) {
    const auto model = LoadModel(SourceDir() + "/configs/sim/" + name + ".yaml");
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_GT(model->worker().sample(), 0);
  }
  for (const std::string name : {"alexnet", "gpt_1b", "gpt_10b"}) {
    const auto config = LoadConfig(SourceDir() + "/configs/sim/" + name + ".yaml");
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(ValidateConfig(ResolveDefaults(*config)), absl::OkStatus());
  }
}

}  // namespace
}  // namespace psgd::sim
