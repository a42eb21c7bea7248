#include "train/local_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <tuple>
#include <vector>

namespace psgd {
namespace {

using testing::ElementsAre;
using Values = std::vector<float>;

// A model of two slices of a trained parameter, and a statistic.
class LocalStepsTest : public testing::Test {
 protected:
  LocalStepsTest() {
    ParameterSpec* trained = model_.add_parameters();
    trained->set_decay(true);
    model_.add_parameters()->set_role(ParameterSpec::STATISTIC);
    const auto slice = [&](uint32_t parameter, uint64_t offset, uint32_t count) {
      SliceSpec* spec = placement_.add_slices();
      spec->set_parameter(parameter);
      spec->set_offset(offset);
      spec->set_count(count);
    };
    slice(0, 0, 2);
    slice(0, 2, 2);
    slice(1, 0, 1);
    config_.mutable_local()->set_steps(4);
    config_.mutable_local()->mutable_optimizer()->mutable_sgd()->set_learning_rate(0.5);
  }
  std::unique_ptr<LocalSteps> Make() {
    fragments_.emplace(placement_, static_cast<uint32_t>(config_.local().fragments()));
    return std::make_unique<LocalSteps>(LocalSteps::Options{
        .config = config_,
        .model = model_,
        .placement = placement_,
        .fragments = *fragments_,
        .matrices = matrices_,
        .weights = [this](int p) { return std::span(own_[p]); },
        .wrote = [] {},
        .gradient = [this](int p,
                           std::vector<float>*) { return std::span<const float>(gradient_[p]); },
        .threads = 2});
  }
  static void Arrive(LocalSteps& local, const Values& trained, const Values& statistic) {
    std::ranges::copy(trained, local.shards(0).begin());
    std::ranges::copy(statistic, local.shards(1).begin());
  }
  static Values Of(std::span<const float> values) { return {values.begin(), values.end()}; }

  Config config_;
  std::vector<bool> matrices_ = {false, false};
  ModelSpec model_;
  Placement placement_;
  std::optional<Fragments> fragments_;
  std::vector<Values> own_ = {{0, 0, 0, 0}, {0}};
  std::vector<Values> gradient_ = {{1, 2, 3, 4}, {0.25f}};
};

TEST_F(LocalStepsTest, PushesTheWeightChange) {
  const auto local = Make();
  EXPECT_FALSE(local->begun());
  Arrive(*local, {1, 1, 1, 1}, {2});
  EXPECT_TRUE(local->Take(0).ok());
  EXPECT_TRUE(local->begun());
  EXPECT_THAT(own_[0], ElementsAre(1, 1, 1, 1));
  EXPECT_TRUE(local->Step({}).ok());
  EXPECT_TRUE(local->Step({}).ok());
  EXPECT_THAT(own_[0], ElementsAre(0, -1, -2, -3));
  EXPECT_THAT(own_[1], ElementsAre(2.5f));
  EXPECT_THAT(Of(local->Change(0)), ElementsAre(1, 2, 3, 4));  // to be subtracted
  EXPECT_THAT(Of(local->Change(1)), ElementsAre(0.5f));        // to be added
}

TEST_F(LocalStepsTest, WeightDecayIsTheWorkers) {
  config_.mutable_local()->mutable_optimizer()->mutable_sgd()->set_weight_decay(0.5);
  const auto local = Make();
  Arrive(*local, {4, 4, 4, 4}, {4});
  EXPECT_TRUE(local->Take(0).ok());
  EXPECT_TRUE(local->Step({}).ok());
  EXPECT_THAT(own_[0], ElementsAre(4 - 0.5f * 3, 4 - 0.5f * 4, 4 - 0.5f * 5, 4 - 0.5f * 6));
  EXPECT_THAT(own_[1], ElementsAre(4.25f));
}

TEST_F(LocalStepsTest, AGroupHasRatesOfItsOwn) {
  model_.mutable_parameters(0)->set_name("fc.weight");
  config_.mutable_local()->mutable_optimizer()->mutable_sgd()->set_weight_decay(1);
  ParameterGroup* group = config_.mutable_local()->mutable_optimizer()->add_groups();
  group->set_match("fc.*");
  group->set_rate(0.5);
  group->set_weight_decay(0.5);
  const auto local = Make();
  Arrive(*local, {4, 4, 4, 4}, {4});
  EXPECT_TRUE(local->Take(0).ok());
  EXPECT_TRUE(local->Step({}).ok());
  EXPECT_THAT(own_[0], ElementsAre(4 - 0.25f * 3, 4 - 0.25f * 4, 4 - 0.25f * 5, 4 - 0.25f * 6));
}

TEST_F(LocalStepsTest, TheScheduleIsOfItsOwnSteps) {
  config_.mutable_local()->mutable_schedule()->mutable_warmup()->set_steps(4);
  const auto local = Make();
  EXPECT_TRUE(local->Take(0).ok());
  EXPECT_TRUE(local->Step({.step = 1}).ok());
  EXPECT_THAT(own_[0], ElementsAre(-0.25f, -0.5f, -0.75f, -1));
}

TEST_F(LocalStepsTest, MixesTheShardsWeightsWithItsOwn) {
  config_.mutable_local()->set_mix(0.25);
  const auto local = Make();
  Arrive(*local, {8, 8, 8, 8}, {8});
  EXPECT_TRUE(local->Take(0).ok());  // nothing to mix with yet
  EXPECT_THAT(own_[0], ElementsAre(8, 8, 8, 8));
  Arrive(*local, {4, 8, 12, 16}, {8});
  EXPECT_TRUE(local->Take(1).ok());
  EXPECT_THAT(own_[0], ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(Of(local->Change(0)), ElementsAre(-3, 0, 3, 6));
}

// An evaluation brings all weights; those of other fragments must not enter the next difference.
TEST_F(LocalStepsTest, AFragmentMovesFromTheWeightsThatWereTaken) {
  config_.mutable_local()->set_fragments(2);
  const auto local = Make();
  Arrive(*local, {1, 1, 1, 1}, {1});
  EXPECT_TRUE(local->Take(0).ok());
  EXPECT_TRUE(local->Step({}).ok());
  Arrive(*local, {9, 9, 9, 9}, {9});
  EXPECT_TRUE(local->Exchange(1).ok());
  EXPECT_TRUE(local->Take(1).ok());
  int taken = 0;
  for (uint32_t slice = 0; slice < 2; ++slice) {
    const float own = own_[0][slice * 2];
    const Values moved = Of(local->Change(0));
    if (fragments_->Carries(1, slice)) {
      EXPECT_EQ(own, 9);
      EXPECT_EQ(moved[slice * 2], 0);
      ++taken;
    } else {
      EXPECT_EQ(own, 1 - 0.5f * gradient_[0][slice * 2]);
      EXPECT_EQ(moved[slice * 2], 0.5f * gradient_[0][slice * 2]);
    }
  }
  EXPECT_EQ(taken, 1);
}

// An epoch's last clock may have no batch for this worker, which then pushes nothing.
TEST_F(LocalStepsTest, AFragmentThatWasNotPushedKeepsItsChange) {
  config_.mutable_local()->set_fragments(2);
  const auto local = Make();
  Arrive(*local, {1, 1, 1, 1}, {1});
  EXPECT_TRUE(local->Take(0).ok());
  EXPECT_TRUE(local->Step({}).ok());
  const Values before = Of(local->Change(0));
  Arrive(*local, {9, 9, 9, 9}, {9});
  EXPECT_TRUE(local->Take(1).ok());
  EXPECT_EQ(Of(local->Change(0)), before);
}

TEST_F(LocalStepsTest, WeightsOfAnotherWorkerOrClockAreGivenUp) {
  config_.mutable_local()->set_mix(0.5);
  config_.mutable_local()->mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
  const auto local = Make();
  EXPECT_TRUE(local->Take(0).ok());
  EXPECT_TRUE(local->Step({}).ok());
  const Bytes saved = local->Save(3, 4).value();
  for (const auto& [worker, clock, kept] :
       {std::tuple(3u, 4u, true), {2u, 4u, false}, {3u, 5u, false}}) {
    const auto other = Make();
    ASSERT_TRUE(other->Restore(saved.span(), worker).value());
    other->Begin(clock);
    EXPECT_EQ(other->begun(), kept) << worker << " " << clock;
    Arrive(*other, {0, 0, 0, 0}, {0});
    EXPECT_TRUE(other->Take(clock).ok());
    EXPECT_TRUE(other->Step({}).ok());
    // The momentum is there in each case.
    const float own = kept ? -0.25f : 0;
    EXPECT_FLOAT_EQ(own_[0][0], own - 0.5f * 1.5f);
  }
}

TEST_F(LocalStepsTest, AnEvaluationSeesTheShardsWeights) {
  config_.mutable_local()->set_mix(0.5);
  const auto local = Make();
  Arrive(*local, {1, 1, 1, 1}, {1});
  EXPECT_TRUE(local->Take(0).ok());
  EXPECT_TRUE(local->Step({}).ok());
  const std::vector<Values> own = own_;
  EXPECT_TRUE(local->ShowShards().ok());
  EXPECT_THAT(own_[0], ElementsAre(1, 1, 1, 1));
  local->ShowOwn();
  EXPECT_EQ(own_, own);
}

TEST_F(LocalStepsTest, GoesOnFromASavedStateToTheBit) {
  config_.mutable_local()->set_mix(0.5);
  config_.mutable_local()->set_fragments(2);
  config_.mutable_local()->mutable_optimizer()->mutable_adamw()->set_learning_rate(0.1);
  const auto local = Make();
  Arrive(*local, {1, 2, 3, 4}, {1});
  EXPECT_TRUE(local->Take(0).ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(local->Step({}).ok());
  EXPECT_TRUE(local->Exchange(4).ok());
  const Bytes saved = local->Save(3, 4).value();
  const std::vector<Values> weights = own_;

  const auto go_on = [&](LocalSteps& steps) {
    Arrive(steps, {5, 6, 7, 8}, {2});
    EXPECT_TRUE(steps.Take(4).ok());
    EXPECT_TRUE(steps.Step({}).ok());
    return std::pair(own_, Of(steps.Change(0)));
  };
  const auto wanted = go_on(*local);
  own_ = {{0, 0, 0, 0}, {0}};
  const auto other = Make();
  ASSERT_TRUE(other->Restore(saved.span(), 3).value());
  EXPECT_EQ(own_, weights);
  EXPECT_EQ(go_on(*other), wanted);

  EXPECT_FALSE(other->Restore(saved.span().first(saved.size() - 4), 3).value());
  EXPECT_FALSE(other->Restore({}, 3).value());
  config_.mutable_local()->mutable_optimizer()->mutable_sgd();
  EXPECT_FALSE(Make()->Restore(saved.span(), 3).value());
}

TEST_F(LocalStepsTest, MuonForgetsAStateOfOtherMatrices) {
  config_.mutable_local()->mutable_optimizer()->mutable_muon();
  model_.mutable_parameters(0)->add_shape(2);
  model_.mutable_parameters(0)->add_shape(2);
  matrices_[0] = true;
  const auto local = Make();
  Arrive(*local, {1, 2, 3, 4}, {1});
  EXPECT_TRUE(local->Take(0).ok());
  EXPECT_TRUE(local->Step({}).ok());
  const Bytes saved = local->Save(3, 1).value();
  EXPECT_TRUE(Make()->Restore(saved.span(), 3).value());
  matrices_[0] = false;
  EXPECT_FALSE(Make()->Restore(saved.span(), 3).value());
}

}  // namespace
}  // namespace psgd
