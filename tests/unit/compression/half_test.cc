#include "compression/dense/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace psgd {
namespace {

TEST(Half, KnownNumbers) {
  EXPECT_EQ(HalfFromFloat(0.0f), 0x0000);
  EXPECT_EQ(HalfFromFloat(-0.0f), 0x8000);
  EXPECT_EQ(HalfFromFloat(1.0f), 0x3C00);
  EXPECT_EQ(HalfFromFloat(-2.0f), 0xC000);
  EXPECT_EQ(HalfFromFloat(0.1f), 0x2E66);
  EXPECT_EQ(HalfFromFloat(65504.0f), 0x7BFF);
  EXPECT_EQ(HalfFromFloat(std::ldexp(1.0f, -24)), 0x0001);
  EXPECT_EQ(HalfFromFloat(std::ldexp(1.0f, -25)), 0x0000);  // a tie, to even
  EXPECT_EQ(FloatFromHalf(0x3555), 0.333251953125f);
}

TEST(Half, BeyondTheLargestSaturates) {
  EXPECT_EQ(HalfFromFloat(65519.0f), 0x7BFF);
  EXPECT_EQ(HalfFromFloat(65520.0f), 0x7BFF);
  EXPECT_EQ(HalfFromFloat(-3e38f), 0xFBFF);
  EXPECT_TRUE(std::isnan(FloatFromHalf(HalfFromFloat(NAN))));
}

TEST(Half, EveryFiniteHalfComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    if ((half & 0x7C00) == 0x7C00) continue;
    ASSERT_EQ(HalfFromFloat(FloatFromHalf(half)), half);
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  for (uint16_t half = 0; half < 0x7BFF; ++half) {
    const float low = FloatFromHalf(half);
    const float high = FloatFromHalf(static_cast<uint16_t>(half + 1));
    const float middle = low + (high - low) / 2;  // exact
    ASSERT_EQ(HalfFromFloat(middle), half % 2 == 0 ? half : half + 1);
    ASSERT_EQ(HalfFromFloat(std::nextafter(middle, 0.0f)), half);
    ASSERT_EQ(HalfFromFloat(std::nextafter(middle, INFINITY)), half + 1);
    ASSERT_EQ(HalfFromFloat(-std::nextafter(middle, INFINITY)), 0x8000 + half + 1);
  }
}

}  // namespace
}  // namespace psgd
