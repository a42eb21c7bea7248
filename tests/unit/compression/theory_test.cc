// What the papers promise of their codecs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compression/error_feedback.h"

namespace psgd {
namespace {

SliceShape ShapeOf(size_t elements) {
  SliceShape shape;
  shape.elements = static_cast<uint32_t>(elements);
  return shape;
}

// Roughly Gaussian.
std::vector<float> Gaussian(size_t count, uint64_t stream) {
  RandomStream random(MakeKey(1, RandomPurpose::kSynthetic), stream);
  std::vector<float> values(count);
  for (float& v : values) {
    v = -6;
    for (int i = 0; i < 12; ++i) v += random.NextUnit();
  }
  return values;
}

double SquaredNorm(std::span<const float> values) {
  double sum = 0;
  for (float v : values) sum += static_cast<double>(v) * v;
  return sum;
}

CodecConfig Config(CodecId id) {
  CodecConfig config;
  if (id == CODEC_NONE) config.mutable_none();
  if (id == CODEC_TOPK) config.mutable_topk()->set_density(0.05);
  if (id == CODEC_ONEBIT) config.mutable_onebit();
  if (id == CODEC_TERNARY) config.mutable_ternary();
  return config;
}

TEST(Ternary, WithoutAResidualIsUnbiasedForTheClippedGradient) {
  constexpr size_t kElements = 400;
  constexpr int kDraws = 4000;
  const auto codec = MakeCodec(Config(CODEC_TERNARY)).value();
  const std::vector<float> gradient = Gaussian(kElements, 1);
  const auto encoder = codec->NewEncoder(ShapeOf(kElements));
  std::vector<float> sum(kElements);
  float limit = 0;
  for (int step = 0; step < kDraws; ++step) {
    std::vector<std::byte> payload;
    encoder->Encode({gradient, {}, MakeKey(7, RandomPurpose::kCodec), static_cast<uint64_t>(step)},
                    &payload);
    std::memcpy(&limit, payload.data(), sizeof(limit));
    codec->Open(payload, ShapeOf(kElements)).value()->AddBlock(1, sum);
  }
  EXPECT_NEAR(limit, 2.5 * std::sqrt(SquaredNorm(gradient) / kElements), 0.02);
  // One draw of c is +-limit with probability |c| / limit: variance |c| (limit - |c|). Of 400 means
  // one beyond 4.5 standard errors has probability 0.003; their chi-square is 400 +- 28.
  double chi_square = 0;
  for (size_t i = 0; i < kElements; ++i) {
    const double clipped = std::fmin(std::fabs(gradient[i]), limit);
    const double error = sum[i] / kDraws - std::copysign(clipped, gradient[i]);
    const double variance = clipped * (limit - clipped) / kDraws;
    if (variance < 1e-12) {
      EXPECT_NEAR(error, 0, 1e-3);
      continue;
    }
    EXPECT_LT(std::fabs(error), 4.5 * std::sqrt(variance)) << i;
    chi_square += error * error / variance;
  }
  EXPECT_NEAR(chi_square, kElements, 5 * 28);
}

TEST(Topk, LeavesAtMostTheShareThatItDidNotSend) {
  const auto codec = MakeCodec(Config(CODEC_TOPK)).value();
  for (size_t elements : {1000, 30000}) {
    const std::vector<float> gradient = Gaussian(elements, 2);
    std::vector<float> residual(elements);
    std::vector<std::byte> payload;
    codec->NewEncoder(ShapeOf(elements))->Encode({gradient, residual, {}, 0}, &payload);
    EXPECT_LE(SquaredNorm(residual), (1 - 0.05) * SquaredNorm(gradient));
  }
}

// With values fitted to what was sent, a residual is shorter than what it came from: by the energy
// of the means for onebit (1 - 2 / pi of a Gaussian is left), by half for ternary at clip 2.5.
TEST(Contraction, OnebitAndTernaryWithAResidual) {
  constexpr size_t kElements = 50000;
  const std::vector<float> gradient = Gaussian(kElements, 3);
  for (CodecId id : {CODEC_ONEBIT, CODEC_TERNARY}) {
    const auto codec = MakeCodec(Config(id)).value();
    std::vector<float> residual(kElements);
    std::vector<std::byte> payload;
    codec->NewEncoder(ShapeOf(kElements))
        ->Encode({gradient, residual, MakeKey(1, RandomPurpose::kCodec), 0}, &payload);
    const double left = SquaredNorm(residual) / SquaredNorm(gradient);
    EXPECT_NEAR(left, id == CODEC_ONEBIT ? 1 - 2 / M_PI : 0.5, 0.02) << codec->name();
  }
}

TEST(Contraction, HoldsForAnySpreadOfMagnitudes) {
  for (CodecId id : {CODEC_ONEBIT, CODEC_TERNARY, CODEC_TOPK}) {
    const auto codec = MakeCodec(Config(id)).value();
    std::vector<float> gradient = Gaussian(5000, 4);
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = std::pow(gradient[i], 9.0f);
    std::vector<float> residual(gradient.size());
    std::vector<std::byte> payload;
    codec->NewEncoder(ShapeOf(gradient.size()))->Encode({gradient, residual, {}, 0}, &payload);
    EXPECT_LT(SquaredNorm(residual), SquaredNorm(gradient)) << codec->name();
  }
}

// Gradient descent on sum of h[i] / 2 * (x[i] - x*[i])^2, each step's gradient coded. Returns the
// distance to the optimum, relative to that of the start.
double DistanceAfter(const CodecConfig& config, bool accumulate, int steps) {
  constexpr size_t kElements = 256;
  const auto codec = MakeCodec(config).value();
  ErrorFeedbackOptions options;
  options.accumulate = accumulate;
  ErrorFeedback feedback(*codec, ShapeOf(kElements), options);
  const std::vector<float> optimum = Gaussian(kElements, 5);
  std::vector<float> x(kElements), gradient(kElements);
  for (int step = 0; step < steps; ++step) {
    for (size_t i = 0; i < kElements; ++i) {
      const float curvature = i % 16 == 0 ? 1.0f : 0.1f;
      gradient[i] = curvature * (x[i] - optimum[i]);
    }
    std::vector<std::byte> payload;
    feedback.Encode(gradient, MakeKey(1, RandomPurpose::kCodec), static_cast<uint64_t>(step),
                    &payload);
    codec->Open(payload, ShapeOf(kElements)).value()->AddBlock(-0.05f, x);
  }
  double distance = 0;
  for (size_t i = 0; i < kElements; ++i) distance += std::pow(x[i] - optimum[i], 2);
  return std::sqrt(distance / SquaredNorm(optimum));
}

TEST(Convergence, WithErrorFeedbackEveryCodecReachesTheOptimum) {
  for (CodecId id : {CODEC_NONE, CODEC_TOPK, CODEC_ONEBIT, CODEC_TERNARY}) {
    EXPECT_LT(DistanceAfter(Config(id), true, 4000), 1e-3) << CodecId_Name(id);
  }
}

TEST(Convergence, WithoutErrorFeedbackOnebitDoesNot) {
  EXPECT_GT(DistanceAfter(Config(CODEC_ONEBIT), false, 4000), 1e-2);
}

}  // namespace
}  // namespace psgd
