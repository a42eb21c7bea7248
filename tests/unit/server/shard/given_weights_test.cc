// Parameters that start from the model's file: size and checksum are checked, slices are cut.
#include "server/shard/given_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "common/bytes.h"
#include "server/shard/slice_state.h"

namespace psgd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const GivenWeights kGiven = {{"w", {1, 2, 3, 4, 5, 6}}, {"unused", {7}}};

ModelSpec Model(const std::vector<float>& values) {
  ModelSpec model;
  ParameterSpec* w = model.add_parameters();
  w->set_name("w");
  w->add_shape(2);
  w->add_shape(3);
  w->mutable_initializer()->mutable_given()->set_checksum(
      ChecksumOf(std::as_bytes(std::span(values))));
  model.add_parameters()->set_name("seeded");
  return model;
}

TEST(GivenWeights, TheSameValuesAreTaken) {
  EXPECT_TRUE(CheckGiven(Model(kGiven.at("w")), kGiven).ok());
  EXPECT_TRUE(CheckGiven(ModelSpec(), {}).ok());
}

TEST(GivenWeights, OthersAreRefused) {
  EXPECT_THAT(std::string(CheckGiven(Model({1, 2, 3, 4, 5, 7}), kGiven).message()),
              AllOf(HasSubstr("w from other values"), HasSubstr("the same file")));
  EXPECT_THAT(std::string(CheckGiven(Model(kGiven.at("w")), {}).message()), HasSubstr("lacks"));
  ModelSpec larger = Model(kGiven.at("w"));
  larger.mutable_parameters(0)->set_shape(0, 3);
  EXPECT_FALSE(CheckGiven(larger, kGiven).ok());
}

TEST(GivenWeights, ASliceHasItsPart) {
  SliceUpdater updater((Config()));
  SliceSpec spec;
  spec.set_offset(2);
  spec.set_count(3);
  const auto slice = updater.Make(0, spec, Model(kGiven.at("w")), 1, nullptr, &kGiven);
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_THAT(std::vector<float>(slice->weights.read().begin(), slice->weights.read().end()),
              ElementsAre(3, 4, 5));
}

}  // namespace
}  // namespace psgd
