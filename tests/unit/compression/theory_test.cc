// Properties of codecs that their papers promise.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compression/error_feedback.h"
#include "tests/unit/compression/tensors.h"

namespace psgd {
namespace {

CodecConfig Config(CodecId id) {
  CodecConfig config;
  if (id == CODEC_TOPK) config.mutable_topk()->set_density(0.05);
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

}  // namespace
}  // namespace psgd
