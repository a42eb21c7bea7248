#include "proto/initialize.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace psgd {
namespace {

std::vector<float> Fill(const ParameterSpec& spec, uint64_t seed, uint32_t index, uint64_t offset,
                        size_t count) {
  std::vector<float> out(count, NAN);
  FillInitial(spec, seed, index, offset, out);
  return out;
}

ParameterSpec Uniform() {
  ParameterSpec spec;
  spec.mutable_initializer()->mutable_uniform()->set_low(-0.5);
  spec.mutable_initializer()->mutable_uniform()->set_high(0.25);
  return spec;
}

ParameterSpec Normal() {
  ParameterSpec spec;
  spec.mutable_initializer()->mutable_normal()->set_mean(3);
  spec.mutable_initializer()->mutable_normal()->set_stddev(2);
  return spec;
}

TEST(InitializeTest, AnyRangeHasTheSameBits) {
  for (const ParameterSpec& spec : {Uniform(), Normal()}) {
    const std::vector<float> whole = Fill(spec, 1, 4, 0, 101);
    for (size_t offset = 0; offset < 9; ++offset) {
      for (size_t count : {0, 1, 2, 3, 4, 5, 50}) {
        EXPECT_EQ(Fill(spec, 1, 4, offset, count),
                  std::vector<float>(whole.begin() + offset, whole.begin() + offset + count));
      }
    }
  }
}

TEST(InitializeTest, DependsOnSeedAndParameter) {
  EXPECT_NE(Fill(Uniform(), 1, 0, 0, 8), Fill(Uniform(), 2, 0, 0, 8));
  EXPECT_NE(Fill(Uniform(), 1, 0, 0, 8), Fill(Uniform(), 1, 1, 0, 8));
}

TEST(InitializeTest, HasTheMomentsAskedFor) {
  constexpr size_t kCount = 200000;
  for (const auto& [spec, mean, stddev] :
       {std::tuple{Uniform(), -0.125, 0.75 / std::sqrt(12.0)}, std::tuple{Normal(), 3.0, 2.0}}) {
    double sum = 0, squares = 0;
    for (float value : Fill(spec, 9, 0, uint64_t{1} << 33, kCount)) {
      sum += value;
      squares += (value - mean) * (value - mean);
    }
    EXPECT_NEAR(sum / kCount, mean, 5 * stddev / std::sqrt(double{kCount}));
    EXPECT_NEAR(std::sqrt(squares / kCount), stddev, 0.01 * stddev);
  }
  for (float value : Fill(Uniform(), 9, 0, 0, kCount)) {
    ASSERT_GE(value, -0.5f);
    ASSERT_LT(value, 0.25f);
  }
}

TEST(InitializeTest, ConstantsAndNothingAtAll) {
  ParameterSpec spec;
  EXPECT_EQ(Fill(spec, 1, 0, 0, 2), (std::vector<float>{0, 0}));
  spec.mutable_initializer()->mutable_constant()->set_value(1.5);
  EXPECT_EQ(Fill(spec, 1, 0, 3, 2), (std::vector<float>{1.5, 1.5}));
}

}  // namespace
}  // namespace psgd
