// The mean of many draws of a stochastic codec is the codec's input.
#include <gtest/gtest.h>

#include "tests/unit/compression/tensors.h"

namespace psgd {
namespace {

struct Case {
  const char* name;
  CodecConfig config;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> StochasticCodecs() {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> CodecConfig& {
    return cases.emplace_back(Case{name, {}}).config;
  };
  add("int8").mutable_int8();
  add("qsgd").mutable_qsgd();
  add("qsgd_2").mutable_qsgd()->set_bits(2);
  add("qsgd_l2").mutable_qsgd()->set_norm(QsgdCodec::L2);
  add("natural").mutable_natural();
  add("ternary").mutable_ternary()->set_clip(0);
  add("randomk").mutable_randomk()->set_density(0.11);
  return cases;
}

class Unbiased : public testing::TestWithParam<Case> {};

TEST_P(Unbiased, MeanOfManyDrawsIsTheGradient) {
  constexpr size_t kElements = 300;
  constexpr int kDraws = 4000;
  const auto codec = MakeCodec(GetParam().config).value();
  const std::vector<float> gradient = Gaussian(kElements, 1);
  const auto encoder = codec->NewEncoder(ShapeOf(kElements));
  std::vector<double> sum(kElements), squares(kElements);
  for (int step = 0; step < kDraws; ++step) {
    std::vector<std::byte> payload;
    encoder->Encode({gradient, {}, MakeKey(7, RandomPurpose::kCodec), static_cast<uint64_t>(step)},
                    &payload);
    const std::vector<float> values = Decoded(*codec, payload, ShapeOf(kElements));
    for (size_t i = 0; i < kElements; ++i) {
      sum[i] += values[i];
      squares[i] += static_cast<double>(values[i]) * values[i];
    }
  }
  // Of 300 means one beyond 4.5 standard errors has probability 0.002; their chi-square is 300 +-
  // 24 if all of them vary.
  double chi_square = 0;
  int varying = 0;
  for (size_t i = 0; i < kElements; ++i) {
    const double mean = sum[i] / kDraws;
    const double variance = (squares[i] / kDraws - mean * mean) / kDraws;
    const double error = mean - gradient[i];
    if (variance < 1e-12) {
      EXPECT_NEAR(error, 0, 1e-3 * std::fabs(gradient[i]) + 1e-6) << i;
      continue;
    }
    EXPECT_LT(std::fabs(error), 4.5 * std::sqrt(variance)) << i;
    chi_square += error * error / variance;
    ++varying;
  }
  EXPECT_GT(varying, 250);
  EXPECT_NEAR(chi_square, varying, 5 * std::sqrt(2.0 * varying));
}

INSTANTIATE_TEST_SUITE_P(Codecs, Unbiased, testing::ValuesIn(StochasticCodecs()),
                         [](const auto& info) { return info.param.name; });

// Horvath et al., Theorem 5: the variance is at most 1/8 of the squared length.
TEST(Natural, VarianceIsAtMostAnEighth) {
  const auto codec = MakeCodec([] {
                       CodecConfig config;
                       config.mutable_natural();
                       return config;
                     }())
                         .value();
  const std::vector<float> gradient = Gaussian(50000, 2);
  std::vector<float> residual(gradient.size());
  std::vector<std::byte> payload;
  codec->NewEncoder(ShapeOf(gradient.size()))->Encode({gradient, residual, {}, 0}, &payload);
  EXPECT_LT(SquaredNorm(residual), SquaredNorm(gradient) / 8);
  EXPECT_GT(SquaredNorm(residual), SquaredNorm(gradient) / 16);
}

}  // namespace
}  // namespace psgd
