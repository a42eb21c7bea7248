// Checks every key of the schema sections that a twin resets, so that no key is missed.
#include "experiment/plan/dense_twin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiment/config/config_yaml.h"
#include "experiment/config/flat_config.h"
#include "experiment/plan/expand.h"

namespace psgd {
namespace {

// For each key of `section`, a setting that is not the default.
std::vector<std::string> OtherSettings(const std::string& section,
                                       const google::protobuf::Descriptor& type) {
  std::vector<std::string> settings;
  for (int i = 0; i < type.field_count(); ++i) {
    const auto& field = *type.field(i);
    const std::string key = section + "." + field.name();
    if (field.is_repeated()) {
      settings.push_back(key + "=[{match: \"*\", push: fp16}]");
    } else if (field.message_type() != nullptr) {
      for (int k = 0; k < field.message_type()->field_count(); ++k) {
        const std::string& way = field.message_type()->field(k)->name();
        if (way != "none")
          settings.push_back(key + "=" + (way == "delta" ? "{delta: {codec: fp16}}" : way));
      }
    } else if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL) {
      settings.push_back(key + (field.default_value_bool() ? "=false" : "=true"));
    } else if (field.enum_type() != nullptr) {
      settings.push_back(key + "=" + (field.name() == "reduction" ? "sum" : "scale"));
    } else {
      settings.push_back(key + (field.name() == "residual_decay" ? "=0.5"
                                : field.name() == "grace"        ? "=7ms"
                                                                 : "=7"));
    }
  }
  return settings;
}

// These keys have no effect without compression and at staleness 0, or belong to the task.
constexpr const char* kWithoutEffect[] = {
    "compression.dense_below=7",      "compression.error_feedback=false",
    "compression.residual_decay=0.5", "consistency.compensation=scale",
    "consistency.delay_lambda=7",     "consistency.reduction=sum",
    "consistency.grace=7ms"};

TEST(DenseTwin, DoesWithoutWhateverHasAnEffect) {
  std::vector<std::string> settings =
      OtherSettings("compression", *CompressionConfig::descriptor());
  for (const std::string& setting :
       OtherSettings("consistency", *ConsistencyConfig::descriptor())) {
    settings.push_back(setting);
  }
  EXPECT_GT(settings.size(), 20u);
  for (const std::string& setting : settings) {
    Config config;
    ASSERT_TRUE(ApplySet(setting, &config).ok()) << setting << ": " << ApplySet(setting, &config);
    config = ResolveDefaults(config);
    const bool nothing =
        std::count(std::begin(kWithoutEffect), std::end(kWithoutEffect), setting) > 0;
    EXPECT_EQ(IsDenseSynchronous(config), nothing) << setting;
    EXPECT_TRUE(IsDenseSynchronous(DenseTwin(config))) << setting;
    if (nothing) continue;
    EXPECT_TRUE(IsAboutUpdates(setting.substr(0, setting.find('=')))) << setting;
    EXPECT_EQ(Flatten(DenseTwin(config), /*with_defaults=*/false),
              Flatten(DenseTwin(ResolveDefaults(Config())), /*with_defaults=*/false))
        << setting;
  }
}

// What a worker does between two exchanges, its twin does in every step.
TEST(DenseTwin, OfLocalStepsHasTheirOptimizer) {
  Config config;
  for (const char* setting :
       {"local={steps: 30, optimizer: {adamw: {learning_rate: 0.01}}, schedule: {cosine: {}}}",
        "optimizer={sgd: {learning_rate: 0.7}}"}) {
    ASSERT_TRUE(ApplySet(setting, &config).ok()) << setting;
  }
  config = ResolveDefaults(config);
  EXPECT_FALSE(IsDenseSynchronous(config));
  const Config twin = DenseTwin(config);
  EXPECT_TRUE(IsDenseSynchronous(twin));
  EXPECT_EQ(twin.optimizer().adamw().learning_rate(), 0.01);
  EXPECT_TRUE(twin.schedule().has_cosine());
  EXPECT_TRUE(ValidateConfig(twin).message().find("local") == absl::string_view::npos);
  EXPECT_TRUE(IsAboutUpdates("local.steps"));
}

// Shards have no whole matrices, which muon needs.
TEST(DenseTwin, OfMuonHasAdamw) {
  Config config;
  ASSERT_TRUE(
      ApplySet("local={steps: 30, optimizer: {muon: {learning_rate: 0.01, weight_decay: 0.1, "
               "beta1: 0.8, beta2: 0.95, epsilon: 1e-7}, groups: [{match: wte.weight, rate: 2}]}}",
               &config)
          .ok());
  const Config twin = DenseTwin(ResolveDefaults(config));
  EXPECT_EQ(twin.optimizer().adamw().learning_rate(), 0.01);
  EXPECT_EQ(twin.optimizer().adamw().weight_decay(), 0.1);
  EXPECT_EQ(twin.optimizer().adamw().beta1(), 0.8);
  EXPECT_EQ(twin.optimizer().adamw().beta2(), 0.95);
  EXPECT_EQ(twin.optimizer().adamw().epsilon(), 1e-7);
  EXPECT_EQ(twin.optimizer().groups_size(), 1);
}

}  // namespace
}  // namespace psgd
