#include "proto/parameter_groups.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

ParameterSpec Parameter(const char* name, bool decay) {
  ParameterSpec parameter;
  parameter.set_name(name);
  parameter.set_decay(decay);
  return parameter;
}

// fc1.bias is in the first group, the other biases in the second.
OptimizerConfig Groups() {
  OptimizerConfig optimizer;
  ParameterGroup* first = optimizer.add_groups();
  first->set_match("fc1.*");
  first->set_rate(0.1);
  ParameterGroup* second = optimizer.add_groups();
  second->set_match("*.bias");
  second->set_weight_decay(0.5);
  return optimizer;
}

TEST(ParameterGroups, TheFirstThatMatchesCounts) {
  const ParameterRates first = RatesOf(Groups(), Parameter("fc1.bias", false));
  EXPECT_EQ(first.rate, 0.1);
  EXPECT_FALSE(first.weight_decay);
  const ParameterRates second = RatesOf(Groups(), Parameter("fc2.bias", false));
  EXPECT_EQ(second.rate, 1);
  EXPECT_EQ(second.weight_decay, 0.5);
  const ParameterRates none = RatesOf(Groups(), Parameter("fc2.weight", true));
  EXPECT_EQ(none.rate, 1);
  EXPECT_FALSE(none.weight_decay);
}

TEST(ParameterGroups, ADecayOfAGroupIsAlsoOfBiases) {
  EXPECT_EQ(RatesOf(Groups(), Parameter("fc2.bias", false)).DecayOf(false, 0.1), 0.5);
  EXPECT_EQ(RatesOf(Groups(), Parameter("fc1.bias", false)).DecayOf(false, 0.1), 0);
  EXPECT_EQ(RatesOf(Groups(), Parameter("fc1.weight", true)).DecayOf(true, 0.1), 0.1);
}

TEST(ParameterGroups, StatisticsAreInNone) {
  ParameterSpec statistic = Parameter("fc1.running_mean", false);
  statistic.set_role(ParameterSpec::STATISTIC);
  EXPECT_EQ(RatesOf(Groups(), statistic).rate, 1);
  ModelSpec model;
  *model.add_parameters() = Parameter("fc1.weight", true);
  *model.add_parameters() = statistic;
  OptimizerConfig optimizer;
  optimizer.add_groups()->set_match("*.running_mean");
  EXPECT_FALSE(CheckGroups("optimizer.groups", optimizer, model).ok());
}

TEST(ParameterGroups, APatternThatFitsNothingIsAnErrorWithANearName) {
  ModelSpec model;
  model.set_name("mlp");
  *model.add_parameters() = Parameter("fc1.weight", true);
  *model.add_parameters() = Parameter("fc1.bias", false);
  EXPECT_TRUE(CheckGroups("optimizer.groups", Groups(), model).ok());
  OptimizerConfig wrong = Groups();
  wrong.mutable_groups(1)->set_match("fc1.bais");
  EXPECT_EQ(CheckGroups("optimizer.groups", wrong, model).message(),
            "optimizer.groups[1].match \"fc1.bais\" fits no parameter of mlp, whose first is "
            "fc1.weight; did you mean \"fc1.bias\"?");
}

}  // namespace
}  // namespace psgd
