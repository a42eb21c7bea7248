// The shard's slices: which they are, updates of one or several workers, residuals of a checkpoint.
#include "server/shard/slice_set.h"

#include "common/program_state.h"
#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

constexpr uint32_t kShard = 1;
constexpr UpdateRates kRates = {.learning_rate = 1};

Config SgdConfig(ConsistencyConfig::Reduction reduction) {
  Config config;
  config.mutable_consistency()->set_reduction(reduction);
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  return config;
}

// Three slices of two zeros. The middle slice is on another shard.
InstallModel ThreeSlices() {
  auto model = std::make_shared<ModelSpec>();
  auto placement = std::make_shared<Placement>();
  for (uint32_t i = 0; i < 3; ++i) {
    ParameterSpec* parameter = model->add_parameters();
    parameter->set_name(absl::StrCat("p", i));
    parameter->add_shape(2);
    SliceSpec* slice = placement->add_slices();
    slice->set_parameter(i);
    slice->set_count(2);
    slice->set_shard(i == 1 ? 0 : kShard);
  }
  return {model, placement, nullptr, {}};
}

Values WeightsOf(const SliceSet& slices, size_t local) {
  const auto weights = slices[local].weights.read();
  return {weights.begin(), weights.end()};
}

TEST(SliceSet, HasTheSlicesOfItsShard) {
  const Config config = SgdConfig(ConsistencyConfig::SUM);
  SliceSet slices(kShard, config, kMostUnpacked);
  EXPECT_FALSE(slices.has_model());
  EXPECT_EQ(slices.Local(0), std::nullopt);
  ASSERT_TRUE(slices.Install(ThreeSlices()).ok());
  EXPECT_TRUE(slices.has_model());
  EXPECT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices.Local(0), 0u);
  EXPECT_EQ(slices.Local(1), std::nullopt);
  EXPECT_EQ(slices.Local(2), 1u);
  EXPECT_EQ(slices.Local(3), std::nullopt);
  EXPECT_EQ(slices.weight_bytes(), 4 * sizeof(float));
}

TEST(SliceSet, OnePushIsAnUpdateOfItsOwn) {
  const Config config = SgdConfig(ConsistencyConfig::MEAN);
  SliceSet slices(kShard, config, kMostUnpacked);
  ASSERT_TRUE(slices.Install(ThreeSlices()).ok());
  Message push = ShardFixture::PushOf(0, 1, 1, {{2, {4, 8}}});
  const auto opened = slices.Open(&push);
  ASSERT_TRUE(opened.ok()) << opened.status();
  slices.Apply(push.header.push(), *opened, 0.25f, 0, {}, kRates);
  EXPECT_EQ(WeightsOf(slices, 0), (Values{0, 0}));
  EXPECT_EQ(WeightsOf(slices, 1), (Values{-1, -2}));
  EXPECT_EQ(slices[1].version, 1u);
}

TEST(SliceSet, PushesTogetherAreOneUpdateByThoseThatPushedTheSlice) {
  const Config config = SgdConfig(ConsistencyConfig::MEAN);
  SliceSet slices(kShard, config, kMostUnpacked);
  ASSERT_TRUE(slices.Install(ThreeSlices()).ok());
  Message first = ShardFixture::PushOf(0, 1, 1, {{0, {2, 4}}, {2, {8, 8}}});
  Message second = ShardFixture::PushOf(1, 1, 1, {{0, {4, 4}}});
  ASSERT_TRUE(slices.Open(&first).ok());
  ASSERT_TRUE(slices.Open(&second).ok());
  std::vector<WaitingPayload> payloads;
  for (const Message* message : {&first, &second}) {
    for (SharedPayload& shared : slices.Payloads(message->header.push()))
      payloads.push_back({message, std::move(shared)});
  }
  slices.ApplyTogether(std::move(payloads), {}, kRates);
  EXPECT_EQ(WeightsOf(slices, 0), (Values{-3, -4}));
  EXPECT_EQ(WeightsOf(slices, 1), (Values{-8, -8}));
  EXPECT_EQ(slices[0].steps, 1u);
}

// Tells when it is read, and when what it has unpacked is gone.
class NotingReader final : public PayloadReader {
 public:
  NotingReader(std::string tensor, std::vector<std::string>* events)
      : PayloadReader(2), tensor_(std::move(tensor)), events_(*events) {}
  ~NotingReader() override { events_.push_back("closes " + tensor_); }
  void AddBlock(float, std::span<float>) override { events_.push_back("reads " + tensor_); }
  float Largest() const override { return 0; }

 private:
  const std::string tensor_;
  std::vector<std::string>& events_;
};

// The factors of a few bytes may take many megabytes. Those of all tensors at once would be more
// than the shard may open.
TEST(SliceSet, WhatIsUnpackedOfATensorGoesBeforeTheNextTensorIsRead) {
  const Config config = SgdConfig(ConsistencyConfig::SUM);
  SliceSet slices(kShard, config, kMostUnpacked);
  ASSERT_TRUE(slices.Install(ThreeSlices()).ok());
  const Message push = ShardFixture::PushOf(0, 1, 1, {{0, {1, 1}}, {2, {1, 1}}});
  std::vector<std::string> events;
  std::vector<WaitingPayload> payloads;
  for (SharedPayload& shared : slices.Payloads(push.header.push())) {
    shared.opened.push_back(
        {std::make_unique<NotingReader>(slices[shared.slices[0]].parameter, &events), {}});
    payloads.push_back({&push, std::move(shared)});
  }
  slices.ApplyTogether(std::move(payloads), {}, kRates);
  EXPECT_THAT(events, testing::ElementsAre("reads p0", "closes p0", "reads p2", "closes p2"));
}

TEST(SliceSet, KeepsResidualsUntilTheirWorkersPushThem) {
  const Config config = SgdConfig(ConsistencyConfig::SUM);
  SliceSet fresh(kShard, config, kMostUnpacked);
  ASSERT_TRUE(fresh.Install(ThreeSlices()).ok());
  ShardImage image;
  fresh.Save(&image);
  image.arrays.residuals[3] = {{0, BytesOf({1, 2})}, {2, BytesOf({3, 4})}};
  image.arrays.residuals[5] = {{2, BytesOf({5, 6})}, {kProgramState + 1, BytesOf({7})}};

  SliceSet slices(kShard, config, kMostUnpacked);
  ASSERT_TRUE(slices.Restore(image).ok());
  const auto residuals = slices.StatesOf(3);
  ASSERT_EQ(residuals.size(), 2u);
  EXPECT_EQ(residuals[1].first, 2u);
  EXPECT_EQ(Floats(residuals[1].second)[0], 3);

  ShardSnapshot without;
  slices.AddStates({3}, &without);
  EXPECT_FALSE(without.residuals.contains(3));
  ASSERT_EQ(without.residuals[5].size(), 2u);
  EXPECT_EQ(without.residuals[5][1].first, kProgramState + 1);

  slices.DropStates(3);
  EXPECT_TRUE(slices.StatesOf(3).empty());
  ShardImage again;
  slices.Save(&again);
  EXPECT_FALSE(again.arrays.residuals.contains(3));
  EXPECT_EQ(again.arrays.slices.size(), 2u);

  slices.KeepProgramPart(5, kProgramState, BytesOf({8}));
  const auto program = slices.StatesOf(5);
  ASSERT_EQ(program.size(), 3u);
  EXPECT_EQ(program[1].first, kProgramState);
  slices.DropStates(5);
  EXPECT_TRUE(slices.StatesOf(5).empty());
}

TEST(SliceSet, RefusesAnImageWithASliceThatIsNotPlaced) {
  const Config config = SgdConfig(ConsistencyConfig::SUM);
  SliceSet fresh(kShard, config, kMostUnpacked);
  ASSERT_TRUE(fresh.Install(ThreeSlices()).ok());
  ShardImage image;
  fresh.Save(&image);
  image.arrays.slices[1].id = 3;
  SliceSet slices(kShard, config, kMostUnpacked);
  EXPECT_TRUE(absl::IsDataLoss(slices.Restore(image)));
}

}  // namespace
}  // namespace psgd
