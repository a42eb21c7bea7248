// What the workers of a run must have alike. coordinator_join_test.cc and brought_model_test.cc
// have the errors that workers see.
#include "server/coordinator/agreed_model.h"

#include <gmock/gmock.h>

#include "tests/unit/server/coordinator/coordinator_fixture.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RegisterRequest RegistrationOf(int64_t elements) {
  RegisterRequest request;
  ParameterSpec* const parameter = request.mutable_model()->add_parameters();
  parameter->set_name("w");
  parameter->add_shape(elements);
  parameter->mutable_initializer();
  request.set_batches_per_epoch(8);
  request.set_train_samples(800);
  return request;
}

Config ConfigWithClient() {
  Config config = CoordinatorConfig(2, 5, 8);
  config.mutable_model()->mutable_client();
  config.mutable_optimizer()->mutable_worker();
  return config;
}

TEST(AgreedModel, IsNotFixedByAModelThatIsRefused) {
  AgreedModel model(CoordinatorConfig(2, 1, 8), {.memory = 1000});
  EXPECT_TRUE(absl::IsResourceExhausted(model.Fix(RegistrationOf(251), {}).status()));
  EXPECT_EQ(model.model(), nullptr);
  EXPECT_EQ(model.placement(), nullptr);
  const auto install = model.Fix(RegistrationOf(250), {"a", "b"});
  ASSERT_TRUE(install.ok()) << install.status();
  EXPECT_EQ(install->placement, model.placement());
  EXPECT_EQ(model.batches_per_epoch(), 8u);
  EXPECT_EQ(model.train_samples(), 0u) << "CompareModel takes them";
  EXPECT_TRUE(model.CompareModel(RegistrationOf(250), "worker 0").ok());
  EXPECT_EQ(model.train_samples(), 800u);
  EXPECT_TRUE(model.CompareData(RegistrationOf(250), "worker 0").ok());
}

// Others may still read the placement from before the move.
TEST(AgreedModel, AMoveOfShardsLeavesTheEarlierPlacementAsItIs) {
  AgreedModel model(CoordinatorConfig(2, 1, 8), {});
  ASSERT_TRUE(model.Fix(RegistrationOf(100), {"a", "b"}).ok());
  const auto before = model.placement();
  model.MoveShards({"a", "c"});
  EXPECT_THAT(before->endpoints(), ElementsAre("a", "b"));
  EXPECT_THAT(model.placement()->endpoints(), ElementsAre("a", "c"));
  EXPECT_EQ(model.placement()->slices_size(), before->slices_size());
}

TEST(AgreedModel, AModelOfARunThatGoesOnIsThatOfItsCheckpoint) {
  for (const bool from_file : {false, true}) {
    Config config = CoordinatorConfig(2, 1, 8);
    if (from_file) config.mutable_model()->set_onnx("net.onnx");
    AgreedModel model(config, {.resumes = true});
    ASSERT_TRUE(model.Fix(RegistrationOf(100), {}).ok());
    const std::string keep = "; the run goes on from a checkpoint: keep the ";
    EXPECT_THAT(std::string(model.CompareModel(RegistrationOf(99), "worker 1").message()),
                HasSubstr(keep + (from_file ? "file, model.frozen and data" : "model and data")));
    RegisterRequest other = RegistrationOf(100);
    *other.mutable_model()->add_parameters() = other.model().parameters(0);
    other.mutable_model()->mutable_parameters(1)->set_name("more");
    const std::string more(model.CompareModel(other, "worker 1").message());
    EXPECT_EQ(more.find("'model.frozen=[NAME]'") != std::string::npos, from_file) << more;
    other.mutable_model()->clear_parameters();
    const std::string fewer(model.CompareModel(other, "worker 1").message());
    EXPECT_EQ(fewer.find("go on with that version") != std::string::npos, from_file) << fewer;
  }
}

TEST(AgreedModel, TheFirstProgramThatNamesEpochsSetsThem) {
  AgreedModel model(ConfigWithClient(), {});
  EXPECT_FALSE(model.TakeEpochs(0)) << "the program leaves them to the run";
  EXPECT_TRUE(model.TakeEpochs(3));
  EXPECT_EQ(model.config().train().epochs(), 3);
  EXPECT_FALSE(model.TakeEpochs(4));
  EXPECT_EQ(model.config().train().epochs(), 3);
  AgreedModel own(CoordinatorConfig(2, 5, 8), {});
  EXPECT_FALSE(own.TakeEpochs(3)) << "the config's network has the config's epochs";
}

TEST(AgreedModel, GoesOnFromItsRecord) {
  AgreedModel model(ConfigWithClient(), {});
  ASSERT_TRUE(model.Fix(RegistrationOf(100), {"a"}).ok());
  ASSERT_TRUE(model.CompareModel(RegistrationOf(100), "worker 0").ok());
  EXPECT_TRUE(model.TakeEpochs(3));
  CoordinatorRecord record;
  model.Save(&record);
  *record.mutable_model() = *model.model();
  *record.mutable_placement() = *model.placement();
  AgreedModel again(ConfigWithClient(), {});
  again.Restore(record);
  EXPECT_EQ(again.config().train().epochs(), 3);
  RegisterRequest request = RegistrationOf(100);
  EXPECT_TRUE(again.CompareModel(request, "worker 1").ok());
  EXPECT_TRUE(again.CompareData(request, "worker 1").ok());
  request.set_train_samples(801);
  EXPECT_TRUE(absl::IsFailedPrecondition(again.CompareData(request, "worker 1")));
}

}  // namespace
}  // namespace psgd
