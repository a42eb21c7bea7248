#include "engine/cudnn/divisor.h"

#include <gtest/gtest.h>

namespace psgd::cudnn {
namespace {

// Numbers at both sides of every power of two.
std::vector<int64_t> Edges() {
  std::vector<int64_t> edges = {0, 3, 5, 6, 7, 10, 641, 65537, 1000000007};
  for (int bit = 0; bit < 62; ++bit) {
    for (const int64_t step : {-1, 0, 1}) edges.push_back((int64_t{1} << bit) + step);
  }
  return edges;
}

TEST(Divisor, DividesAsTheProcessorDoes) {
  for (const int64_t by : Edges()) {
    if (by == 0) continue;
    const Divisor divisor(by);
    EXPECT_EQ(divisor.value(), by);
    const auto check = [&](int64_t n) {
      ASSERT_EQ(divisor.Quotient(n), n / by) << n << " by " << by;
      int64_t quotient = n;
      ASSERT_EQ(divisor.Split(&quotient), n % by) << n << " by " << by;
      ASSERT_EQ(quotient, n / by);
    };
    for (const int64_t n : Edges()) {
      check(n);
      // Quotients change at multiples of the divisor.
      const int64_t multiple = n / by * by;
      check(multiple);
      if (multiple > 0) check(multiple - 1);
    }
  }
}

TEST(Divisor, DividesAllSmallNumbers) {
  for (int64_t by = 1; by < 300; ++by) {
    const Divisor divisor(by);
    for (int64_t n = 0; n < 2000; ++n) ASSERT_EQ(divisor.Quotient(n), n / by) << n << " by " << by;
  }
}

// 2^31 elements and more need 64 bits, without which these numbers would wrap around.
TEST(Divisor, DividesIndicesOfTensorsThatAreLargerThan32Bits) {
  for (const int64_t n : {int64_t{INT32_MAX}, int64_t{INT32_MAX} + 1, int64_t{UINT32_MAX},
                          int64_t{UINT32_MAX} + 1, int64_t{1} << 40, INT64_MAX}) {
    for (const int64_t by : {int64_t{1}, int64_t{3}, int64_t{INT32_MAX}, int64_t{UINT32_MAX} + 2}) {
      EXPECT_EQ(Divisor(by).Quotient(n), n / by) << n << " by " << by;
    }
  }
}

}  // namespace
}  // namespace psgd::cudnn
