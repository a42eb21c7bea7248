#include "train/gradient_clip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace psgd {
namespace {

using testing::FloatEq;
using testing::Pointwise;
using Values = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A matrix of 2 x 3, a bias, and a running statistic.
class GradientClipTest : public testing::Test {
 protected:
  GradientClipTest() {
    ParameterSpec* matrix = model_.add_parameters();
    matrix->add_shape(2);
    matrix->add_shape(3);
    model_.add_parameters()->add_shape(2);
    model_.add_parameters()->set_role(ParameterSpec::STATISTIC);
  }
  // All gradients of a step after clipping.
  std::vector<Values> Clipped(double norm, double value, std::vector<int64_t> rows = {0, 0, 0}) {
    ClipConfig config;
    config.set_norm(norm);
    config.set_value(value);
    GradientClip clip(config, model_, std::move(rows));
    for (int p = 2; p >= 0; --p) clip.Add(p, gradients_[p]);
    std::vector<Values> clipped;
    for (int p = 0; p < 3; ++p) {
      Values room;
      const auto gradient = clip.Clipped(p, gradients_[p], &room);
      clipped.emplace_back(gradient.begin(), gradient.end());
    }
    return clipped;
  }

  ModelSpec model_;
  std::vector<Values> gradients_ = {{3, -4, 0.5f, 0.25f, 12, -0.125f}, {-1, 2}, {100, 100}};
};

// Numbers of torch.nn.utils.clip_grad_norm_ and clip_grad_value_, PyTorch 1.13, on these gradients.
TEST_F(GradientClipTest, IsPyTorchs) {
  const auto norm = Clipped(2, 0);
  EXPECT_THAT(norm[0], Pointwise(FloatEq(), Values{0.4544305205f, -0.6059073806f, 0.0757384226f,
                                                   0.0378692113f, 1.8177220821f, -0.0189346056f}));
  EXPECT_THAT(norm[1], Pointwise(FloatEq(), Values{-0.1514768451f, 0.3029536903f}));
  const auto value = Clipped(0, 1.5);
  EXPECT_EQ(value[0], (Values{1.5f, -1.5f, 0.5f, 0.25f, 1.5f, -0.125f}));
  EXPECT_EQ(value[1], (Values{-1, 1.5f}));
  const auto both = Clipped(2, 1.5);  // clip_grad_value_, then clip_grad_norm_
  EXPECT_THAT(both[0], Pointwise(FloatEq(), Values{0.9334915280f, -0.9334915280f, 0.3111638427f,
                                                   0.1555819213f, 0.9334915280f, -0.0777909607f}));
  EXPECT_THAT(both[1], Pointwise(FloatEq(), Values{-0.6223276854f, 0.9334915280f}));
}

TEST_F(GradientClipTest, LeavesWhatIsWithinTheBoundsAndStatistics) {
  EXPECT_EQ(Clipped(13.3, 12), gradients_);
  EXPECT_EQ(Clipped(1, 0)[2], gradients_[2]);
}

TEST_F(GradientClipTest, EachStepHasItsOwnNorm) {
  ClipConfig config;
  config.set_norm(5);
  GradientClip clip(config, model_, {0, 0, 0});
  const Values gradient = {3, 4, 0, 0, 0, 0};
  for (int step = 0; step < 3; ++step) {
    clip.Add(0, gradient);
    Values room;
    EXPECT_NEAR(clip.Clipped(0, gradient, &room)[0], 3, 1e-5);
    clip.EndStep();
  }
}

// Shards refuse every part of it, as PyTorch's norm would make every element NaN.
TEST_F(GradientClipTest, AGradientThatIsNotFiniteIsRefusedAsAWhole) {
  for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    gradients_[1][0] = bad;
    for (const Values& gradient : {Clipped(2, 0)[0], Clipped(2, 1)[1]}) {
      EXPECT_TRUE(std::isnan(gradient[0]));
    }
    EXPECT_FALSE(std::isfinite(Clipped(0, 1)[1][0]));
    EXPECT_EQ(Clipped(0, 1)[0][0], 1);
  }
}

// Rows of a layer's input, then of its output's gradient: the norm is that of their product.
TEST_F(GradientClipTest, FactorsCountWithTheNormOfTheirProduct) {
  const Values x[] = {{1, 2, 3}, {-1, 0.5f, 2}};
  const Values dy[] = {{0.5f, -1}, {2, 4}};
  const auto product = [&](const Values& factors) {
    Values result(6);
    for (size_t n = 0; n < 2; ++n) {
      for (size_t o = 0; o < 2; ++o) {
        for (size_t i = 0; i < 3; ++i) {
          result[o * 3 + i] += factors[n * 5 + 3 + o] * factors[n * 5 + i];
        }
      }
    }
    return result;
  };
  Values factors;
  for (size_t n = 0; n < 2; ++n) {
    factors.insert(factors.end(), x[n].begin(), x[n].end());
    factors.insert(factors.end(), dy[n].begin(), dy[n].end());
  }
  gradients_[0] = product(factors);
  const auto whole = Clipped(2, 0);
  gradients_[0] = factors;
  const auto clipped = Clipped(2, 0, {2, 0, 0});
  EXPECT_THAT(product(clipped[0]), Pointwise(FloatEq(), whole[0]));
  EXPECT_THAT(clipped[1], Pointwise(FloatEq(), whole[1]));
}

}  // namespace
}  // namespace psgd
