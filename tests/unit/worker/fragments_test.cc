#include "worker/fragments.h"

#include <gtest/gtest.h>

#include <vector>

namespace psgd {
namespace {

Placement PlacementOf(const std::vector<uint32_t>& counts) {
  Placement placement;
  for (const uint32_t count : counts) placement.add_slices()->set_count(count);
  return placement;
}

TEST(Fragments, CarryEverySliceOnceInARound) {
  const Placement placement = PlacementOf({1000, 10, 1000, 10, 1000, 10, 1000, 10, 500, 500});
  for (const uint32_t count : {1u, 2u, 3u, 10u}) {
    const Fragments fragments(placement, count);
    std::vector<uint64_t> elements(count);
    for (uint32_t slice = 0; slice < 10; ++slice) {
      int times = 0;
      for (uint64_t clock = 7; clock < 7 + count; ++clock) {
        if (!fragments.Carries(clock, slice)) continue;
        ++times;
        elements[clock % count] += placement.slices(static_cast<int>(slice)).count();
      }
      EXPECT_EQ(times, 1);
    }
    for (const uint64_t sum : elements) EXPECT_GT(sum, 0u) << count;
    if (count == 2) {
      EXPECT_EQ(elements, (std::vector<uint64_t>{2520, 2520}));
    }
  }
}

}  // namespace
}  // namespace psgd
