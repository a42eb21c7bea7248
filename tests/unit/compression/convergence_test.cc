// Gradient descent on a strongly convex quadratic with each step's gradient encoded.
#include <gtest/gtest.h>

#include "compression/error_feedback.h"
#include "tests/unit/compression/tensors.h"

namespace psgd {
namespace {

// Minimizes the sum of h[i] / 2 * (x[i] - x*[i])^2 with h of 0.1 or 1. Returns the distance to the
// optimum, relative to the start's distance.
double DistanceAfter(const CodecConfig& config, bool accumulate, float rate = 0.05f) {
  constexpr size_t kElements = 256;
  constexpr int kSteps = 4000;
  const SliceShape shape = MatrixShape(16, 16);
  const auto codec = MakeCodec(config).value();
  ErrorFeedbackOptions options;
  options.accumulate = accumulate;
  ErrorFeedback feedback(*codec, shape, options);
  const std::vector<float> optimum = Gaussian(kElements, 5);
  std::vector<float> x(kElements), gradient(kElements);
  for (int step = 0; step < kSteps; ++step) {
    for (size_t i = 0; i < kElements; ++i) {
      const float curvature = i % 16 == 0 ? 1.0f : 0.1f;
      gradient[i] = curvature * (x[i] - optimum[i]);
    }
    std::vector<std::byte> payload;
    feedback.Encode(gradient, MakeKey(1, RandomPurpose::kCodec), static_cast<uint64_t>(step),
                    &payload);
    codec->Open(payload, shape).value()->AddBlock(-rate, x);
  }
  double distance = 0;
  for (size_t i = 0; i < kElements; ++i) distance += std::pow(x[i] - optimum[i], 2);
  return std::sqrt(distance / SquaredNorm(optimum));
}

struct Case {
  const char* name;
  CodecConfig config;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> WithFeedback() {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> CodecConfig& {
    return cases.emplace_back(Case{name, {}}).config;
  };
  add("none").mutable_none();
  add("fp16").mutable_fp16();
  add("bf16").mutable_bf16();
  add("int8").mutable_int8();
  add("qsgd").mutable_qsgd();
  add("qsgd_2_nearest").mutable_qsgd()->set_bits(2);
  cases.back().config.mutable_qsgd()->set_rounding(Rounding::NEAREST);
  add("natural").mutable_natural();
  add("ternary").mutable_ternary();
  add("onebit").mutable_onebit();
  add("sign").mutable_sign();
  add("topk").mutable_topk()->set_density(0.05);
  add("topk_half").mutable_topk()->set_density(0.05);
  cases.back().config.mutable_topk()->set_values(TopkCodec::FP16);
  add("topk_ternary").mutable_topk()->set_density(0.05);
  cases.back().config.mutable_topk()->set_values(TopkCodec::TERNARY);
  add("randomk").mutable_randomk()->set_density(0.1);
  add("blocks").mutable_blocks()->set_block(16);
  cases.back().config.mutable_blocks()->set_density(0.1);
  add("chunked").mutable_chunked()->set_chunk(64);
  cases.back().config.mutable_chunked()->set_keep(4);
  add("dgc").mutable_dgc()->set_density(0.05);
  cases.back().config.mutable_dgc()->set_momentum(0.5);
  add("powersgd").mutable_powersgd()->set_rank(1);
  return cases;
}

class Convergence : public testing::TestWithParam<Case> {};

TEST_P(Convergence, ReachesTheOptimumWithErrorFeedback) {
  EXPECT_LT(DistanceAfter(GetParam().config, true), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Convergence, testing::ValuesIn(WithFeedback()),
                         [](const auto& info) { return info.param.name; });

TEST(Convergence, WithoutErrorFeedbackSignsDoNot) {
  CodecConfig onebit, sign;
  onebit.mutable_onebit();
  sign.mutable_sign();
  EXPECT_GT(DistanceAfter(onebit, false), 1e-2);
  EXPECT_GT(DistanceAfter(sign, false), 1e-2);
}

// A step carries at most one tau of an element, so a small tau needs time. In 4000 steps of 0.05
// tau each, a tau of 0.1 reaches the optimum everywhere, and a tau of 0.01 does not.
TEST(Convergence, OfThresholdNeedsATauThatKeepsUp) {
  CodecConfig config;
  config.mutable_threshold()->set_tau(0.1);
  EXPECT_LT(DistanceAfter(config, true), 0.1);
  config.mutable_threshold()->set_tau(0.01);
  EXPECT_GT(DistanceAfter(config, true), 0.1);
}

// A weight moves by the rate in each step, so it ends within a few steps of the optimum.
TEST(Convergence, OfSignumEndsWithinAFewSteps) {
  CodecConfig config;
  config.mutable_signum();
  const double coarse = DistanceAfter(config, true, 0.01f);
  const double fine = DistanceAfter(config, true, 0.001f);
  EXPECT_LT(coarse, 0.2);
  EXPECT_LT(fine, 0.2 * coarse);
  EXPECT_GT(fine, 1e-4);
}

}  // namespace
}  // namespace psgd
