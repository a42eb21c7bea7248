#include "server/shard/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/philox.h"

namespace psgd {
namespace {

ModelSpec ModelOf(const std::vector<std::vector<int64_t>>& shapes) {
  ModelSpec model;
  for (const auto& shape : shapes) {
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name(absl::StrCat("p", model.parameters_size()));
    parameter->mutable_shape()->Add(shape.begin(), shape.end());
  }
  return model;
}

ModelSpec Lenet5() {
  return ModelOf({{20, 1, 5, 5}, {20}, {50, 20, 5, 5}, {50}, {500, 800}, {500}, {10, 500}, {10}});
}

std::vector<uint64_t> Loads(const Placement& placement, int shards) {
  std::vector<uint64_t> loads(shards);
  for (const SliceSpec& slice : placement.slices()) loads.at(slice.shard()) += slice.count();
  return loads;
}

// Checks a rule for every placement: slices in model order cover each parameter exactly once.
void ExpectSound(const ModelSpec& model, const Placement& placement, int shards, uint64_t limit) {
  uint32_t parameter = 0;
  uint64_t offset = 0;
  for (const SliceSpec& slice : placement.slices()) {
    if (offset == ElementsOf(model.parameters(static_cast<int>(parameter)))) {
      ++parameter;
      offset = 0;
    }
    ASSERT_EQ(slice.parameter(), parameter);
    ASSERT_EQ(slice.offset(), offset);
    ASSERT_GT(slice.count(), 0u);
    ASSERT_LE(slice.count(), limit);
    ASSERT_LT(slice.shard(), static_cast<uint32_t>(shards));
    offset += slice.count();
  }
  ASSERT_EQ(parameter + 1, static_cast<uint32_t>(model.parameters_size()));
  ASSERT_EQ(offset, ElementsOf(model.parameters(model.parameters_size() - 1)));
}

// Largest-first dealing: no two shards differ by more than the largest slice.
void ExpectBalanced(const Placement& placement, int shards) {
  const auto loads = Loads(placement, shards);
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
  uint64_t largest = 0;
  for (const SliceSpec& slice : placement.slices()) {
    largest = std::max<uint64_t>(largest, slice.count());
  }
  EXPECT_LE(*most - *least, largest);
}

TEST(PlacementTest, SpreadsLenet5Evenly) {
  const ModelSpec model = Lenet5();
  for (int shards : {1, 4, 7}) {
    const Placement placement = PlaceSlices(model, shards, 0);
    ExpectSound(model, placement, shards, kMaxSliceElements);
    ExpectBalanced(placement, shards);
    const auto loads = Loads(placement, shards);
    const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
    EXPECT_LT(static_cast<double>(*most) / static_cast<double>(*least), 1.25) << shards;
  }
}

TEST(PlacementTest, IsTheSameEveryTime) {
  const ModelSpec model = Lenet5();
  EXPECT_EQ(PlaceSlices(model, 7, 0).SerializeAsString(),
            PlaceSlices(model, 7, 0).SerializeAsString());
}

TEST(PlacementTest, KeepsToTheSliceSizeAskedFor) {
  const ModelSpec model = ModelOf({{1000, 1000}, {10}});
  const Placement placement = PlaceSlices(model, 2, 400000);
  ExpectSound(model, placement, 2, 100000);
  EXPECT_EQ(placement.slices_size(), 11);
  const Placement whole = PlaceSlices(ModelOf({{3 << 20}}), 1, 1 << 30);
  EXPECT_EQ(whole.slices_size(), 3) << "a slice never exceeds 1 Mi elements";
}

int SlicesOf(const ModelSpec& model, const std::function<void(Config*)>& set) {
  Config config;
  config.mutable_cluster()->set_shards(1);
  set(&config);
  return PlaceSlices(model, config).slices_size();
}

// A slice is what travels while others are computed, what powersgd makes matrices of, and what lars
// takes the norm of.
TEST(PlacementTest, SlicesAreSmallExceptOfHugeModelsAndWhereLargeOnesAreBetter) {
  const ModelSpec model = ModelOf({{8 << 20}});
  EXPECT_EQ(SlicesOf(model, [](Config*) {}), 32);
  EXPECT_EQ(SlicesOf(model,
                     [](Config* config) {
                       config->mutable_compression()->mutable_push()->mutable_powersgd();
                     }),
            8);
  EXPECT_EQ(
      SlicesOf(model,
               [](Config* config) {
                 config->mutable_compression()->add_rules()->mutable_push()->mutable_powersgd();
               }),
      8);
  EXPECT_EQ(SlicesOf(model, [](Config* config) { config->mutable_optimizer()->mutable_lars(); }),
            8);
  EXPECT_EQ(SlicesOf(ModelOf({{512 << 10, 1 << 10}}), [](Config*) {}), 1024);
  EXPECT_EQ(SlicesOf(ModelOf({{2 << 20, 1 << 10}}), [](Config*) {}), 2048);
}

TEST(PlacementTest, CutsAreAsEqualAsCanBe) {
  const Placement placement = PlaceSlices(ModelOf({{100003}}), 1, 4 * 10000);
  ASSERT_EQ(placement.slices_size(), 11);
  for (const SliceSpec& slice : placement.slices()) {
    EXPECT_TRUE(slice.count() == 9091 || slice.count() == 9092) << slice.count();
  }
}

TEST(PlacementTest, LeavesShardsEmptyWhenThereAreFewSlices) {
  const ModelSpec model = ModelOf({{10}, {20}, {}});
  const Placement placement = PlaceSlices(model, 7, 0);
  ExpectSound(model, placement, 7, kMaxSliceElements);
  EXPECT_EQ(placement.slices_size(), 3);
  const auto loads = Loads(placement, 7);
  EXPECT_EQ(std::count(loads.begin(), loads.end(), 0u), 4);
}

TEST(PlacementTest, ATinySliceSizeDoesNotMakeCountlessSlices) {
  const Placement placement = PlaceSlices(ModelOf({{1 << 15, 1 << 15}}), 4, 1);
  EXPECT_LE(placement.slices_size(), 1 << 18);
}

TEST(PlacementTest, RandomModelsAreCoveredAndBalanced) {
  RandomStream random(MakeKey(1, RandomPurpose::kSynthetic), 0);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::vector<int64_t>> shapes(1 + random.NextBelow(40));
    for (auto& shape : shapes) {
      shape.resize(random.NextBelow(4));
      for (int64_t& size : shape) size = 1 + random.NextBelow(round % 3 == 0 ? 300 : 60);
    }
    const ModelSpec model = ModelOf(shapes);
    const int shards = 1 + static_cast<int>(random.NextBelow(12));
    const int64_t bytes = round % 2 == 0 ? 0 : 4096 + random.NextBelow(1 << 20);
    const Placement placement = PlaceSlices(model, shards, bytes);
    ExpectSound(model, placement, shards, kMaxSliceElements);
    ExpectBalanced(placement, shards);
  }
}

}  // namespace
}  // namespace psgd
