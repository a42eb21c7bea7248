#include "engine/ops/dropout.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace psgd {
namespace {

std::vector<uint8_t> Draw(const Dropout& op, const DropoutSource& source, uint64_t step,
                          size_t count) {
  std::vector<uint8_t> mask(count, 7);
  DrawDropoutMask(op, source, step, mask);
  return mask;
}

TEST(DropoutTest, KeepsTheShareAskedFor) {
  for (float rate : {0.0f, 0.1f, 0.5f, 0.9f}) {
    const std::vector<uint8_t> mask = Draw({.rate = rate}, {}, 3, 100001);
    const auto kept = std::count(mask.begin(), mask.end(), 1);
    EXPECT_EQ(kept + std::count(mask.begin(), mask.end(), 0), 100001);
    EXPECT_NEAR(kept / 100001.0, 1 - rate, 0.01) << rate;
  }
}

TEST(DropoutTest, AShorterMaskIsAPrefix) {
  const std::vector<uint8_t> whole = Draw({}, {}, 3, 64);
  const std::vector<uint8_t> part = Draw({}, {}, 3, 13);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()));
}

TEST(DropoutTest, EveryKeyPartMatters) {
  const std::vector<uint8_t> base = Draw({.layer = 1}, {1, 1}, 1, 64);
  EXPECT_NE(base, Draw({.layer = 2}, {1, 1}, 1, 64));
  EXPECT_NE(base, Draw({.layer = 1}, {2, 1}, 1, 64));
  EXPECT_NE(base, Draw({.layer = 1}, {1, 2}, 1, 64));
  EXPECT_NE(base, Draw({.layer = 1}, {1, 1}, 2, 64));
}

}  // namespace
}  // namespace psgd
