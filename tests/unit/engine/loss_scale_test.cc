#include "engine/runtime/loss_scale.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

TEST(LossScaleTest, HalvesUntilItIsNotToBlame) {
  LossScale scale;
  const float first = scale.value();
  EXPECT_TRUE(scale.Overflowed());
  EXPECT_EQ(scale.value(), first / 2);
  int halved = 1;
  while (scale.Overflowed()) ++halved;
  EXPECT_EQ(scale.value(), 1);
  EXPECT_EQ(halved, 16);
}

TEST(LossScaleTest, DoublesAfterManySoundStepsInARow) {
  LossScale scale;
  const float first = scale.value();
  for (int i = 1; i < LossScale::kStepsToGrow; ++i) scale.Finite();
  EXPECT_EQ(scale.value(), first);
  scale.Finite();
  EXPECT_EQ(scale.value(), 2 * first);
  for (int i = 1; i < LossScale::kStepsToGrow; ++i) scale.Finite();
  EXPECT_TRUE(scale.Overflowed());
  EXPECT_EQ(scale.value(), first);
  scale.Finite();  // starts a new count
  EXPECT_EQ(scale.value(), first);
}

TEST(LossScaleTest, DoesNotGrowWithoutEnd) {
  LossScale scale;
  for (int i = 0; i < 100 * LossScale::kStepsToGrow; ++i) scale.Finite();
  EXPECT_EQ(scale.value(), LossScale::kLargest);
}

}  // namespace
}  // namespace psgd
