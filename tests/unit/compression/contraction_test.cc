// The residual of a codec under error feedback is shorter than the codec's input.
#include <gtest/gtest.h>

#include "tests/unit/compression/tensors.h"

namespace psgd {
namespace {

// Returns the squared length of one step's residual, as a share of the input's.
double ShareLeft(const CodecConfig& config, const std::vector<float>& gradient,
                 const SliceShape& shape) {
  const auto codec = MakeCodec(config).value();
  std::vector<float> residual(gradient.size());
  std::vector<std::byte> payload;
  codec->NewEncoder(shape)->Encode({gradient, residual, MakeKey(1, RandomPurpose::kCodec), 0},
                                   &payload);
  return SquaredNorm(residual) / SquaredNorm(gradient);
}

struct Case {
  const char* name;
  CodecConfig config;
  double gaussian_share;  // share that is left of Gaussian elements, by theory
  double tolerance;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* name, double share, double tolerance) -> CodecConfig& {
    return cases.emplace_back(Case{name, {}, share, tolerance}).config;
  };
  // The means have 2 / pi of the energy.
  add("onebit", 1 - 2 / M_PI, 0.02).mutable_onebit();
  add("sign", 1 - 2 / M_PI, 0.02).mutable_sign();
  add("ternary", 0.5, 0.02).mutable_ternary();
  // Rounding to nearest leaves a uniform part of a step, so step^2 / 12; random rounding leaves
  // twice that. A step is the maximum of a block (2.7 for 128 elements) divided by the levels.
  add("qsgd_4_nearest", std::pow(2.7 / 7, 2) / 12, 0.003)
      .mutable_qsgd()
      ->set_rounding(Rounding::NEAREST);
  add("qsgd_4", std::pow(2.7 / 7, 2) / 6, 0.006).mutable_qsgd();
  add("bf16", 0, 1e-5).mutable_bf16();
  add("int8", 0, 2e-4).mutable_int8();
  // 1 - k / n for any elements.
  add("randomk", 0.95, 0.01).mutable_randomk()->set_density(0.05);
  // The largest 5 % of Gaussian elements have 2 (z phi(z) + 0.025) of the energy, z = 1.96.
  add("topk", 1 - 2 * (1.96 * 0.05845 + 0.025), 0.02).mutable_topk()->set_density(0.05);
  add("topk_sampled", 1 - 2 * (1.96 * 0.05845 + 0.025), 0.04).mutable_topk()->set_density(0.05);
  cases.back().config.mutable_topk()->set_select(TopkCodec::SAMPLED);
  add("topk_half", 1 - 2 * (1.96 * 0.05845 + 0.025), 0.02).mutable_topk()->set_density(0.05);
  cases.back().config.mutable_topk()->set_values(TopkCodec::FP16);
  // These largest 5 % have one magnitude, their mean 2 phi(z) / 0.05.
  add("topk_ternary", 1 - 0.05 * std::pow(2 * 0.05845 / 0.05, 2), 0.02)
      .mutable_topk()
      ->set_density(0.05);
  cases.back().config.mutable_topk()->set_values(TopkCodec::TERNARY);
  // Two levels of these lose 1 % of their energy.
  add("chunked", 1 - 2 * (1.96 * 0.05845 + 0.025) * 0.99, 0.02).mutable_chunked()->set_keep(205);
  // The energy of a block of 256 has a spread of sqrt(2 / 256), and the largest 5 % lie 2.06 above.
  add("blocks", 1 - 0.05 * (1 + 2.06 * std::sqrt(2 / 256.0)), 0.01)
      .mutable_blocks()
      ->set_density(0.05);
  // The energy of elements below 1 in magnitude, and of the part beyond 1 of the others.
  add("threshold", 0.1987 + 0.1507, 0.02).mutable_threshold()->set_tau(1);
  // The mean of (a - 1) (2 - a) 4^e over Gaussian numbers a 2^e, a in [1, 2).
  add("natural", 0.0817, 0.003).mutable_natural();
  add("fp16", 0, 1e-6).mutable_fp16();
  return cases;
}

class Contraction : public testing::TestWithParam<Case> {};

TEST_P(Contraction, LeavesTheShareThatTheorySays) {
  const std::vector<float> gradient = Gaussian(50000, 3);
  EXPECT_NEAR(ShareLeft(GetParam().config, gradient, ShapeOf(gradient.size())),
              GetParam().gaussian_share, GetParam().tolerance);
}

TEST_P(Contraction, HoldsForAnySpreadOfMagnitudes) {
  std::vector<float> gradient = Gaussian(5000, 4);
  for (float& g : gradient) g = std::pow(g, 9.0f);
  EXPECT_LT(ShareLeft(GetParam().config, gradient, ShapeOf(gradient.size())), 1);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Contraction, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Blocks, SendTheBlocksOfLargestNorm) {
  std::vector<float> gradient(1000, 0.1f);
  for (size_t i = 300; i < 400; ++i) gradient[i] = 1;
  CodecConfig config;
  config.mutable_blocks()->set_block(100);
  config.mutable_blocks()->set_density(0.1);
  EXPECT_NEAR(ShareLeft(config, gradient, ShapeOf(1000)), 9 / 109.0, 1e-4);
}

// One element of a block is 1. The others have the size that rounding hurts most: in blocks of more
// than 8 s^2 elements the error is longer than the input.
TEST(Qsgd, RoundsToNearestWhereRandomRoundingPilesUp) {
  constexpr double kLevels = 7;
  for (int block : {384, 448, 1024}) {
    const double size = 1 / std::sqrt(block);
    std::vector<float> gradient(static_cast<size_t>(block) * 500, static_cast<float>(size));
    for (size_t i = 0; i < gradient.size(); i += static_cast<size_t>(block)) gradient[i] = 1;
    CodecConfig config;
    config.mutable_qsgd()->set_block(block);
    const double theory = (block - 1) * size * (1 / kLevels - size) / (2 - size * size);
    const double left = ShareLeft(config, gradient, ShapeOf(gradient.size()));
    EXPECT_NEAR(left, theory, 0.03 * theory) << block;
    config.mutable_qsgd()->set_rounding(Rounding::NEAREST);
    EXPECT_LT(ShareLeft(config, gradient, ShapeOf(gradient.size())), 1);
  }
  // At the worst size, the error exceeds the input for a block of 1024, but not for one of 384.
  const auto worst = [](int block) {
    double most = 0;
    for (float size = 0.01f; size < 0.14f; size += 0.01f) {
      std::vector<float> gradient(static_cast<size_t>(block) * 200, size);
      for (size_t i = 0; i < gradient.size(); i += static_cast<size_t>(block)) gradient[i] = 1;
      CodecConfig config;
      config.mutable_qsgd()->set_block(block);
      most = std::max(most, ShareLeft(config, gradient, ShapeOf(gradient.size())));
    }
    return most;
  };
  EXPECT_LT(worst(384), 1);
  EXPECT_GT(worst(1024), 1);
}

// Singular values are 1, 1/2, 1/3, ...: the best matrix of rank r leaves the squares of the others.
TEST(Powersgd, FindsTheBestLowRankMatrixWithWarmStarts) {
  constexpr size_t kRows = 40, kColumns = 50;
  std::vector<float> matrix(kRows * kColumns);
  double best = 0;
  for (size_t i = 0; i < kRows; ++i) {
    const float value = 1 / static_cast<float>(i + 1);
    matrix[i * kColumns + (i * 7) % kColumns] = value;
    if (i >= 4) best += value * value;
  }
  CodecConfig config;
  config.mutable_powersgd();
  const auto codec = MakeCodec(config).value();
  const SliceShape shape = MatrixShape(kRows, kColumns);
  const auto encoder = codec->NewEncoder(shape);
  double first = 0, left = 0;
  for (uint64_t step = 0; step < 60; ++step) {
    std::vector<std::byte> payload;
    encoder->Encode({matrix, {}, MakeKey(1, RandomPurpose::kCodec), step}, &payload);
    EXPECT_EQ(payload.size(), 4 + 4 * 4 * (kRows + kColumns));
    std::vector<float> error = Decoded(*codec, payload, shape);
    for (size_t i = 0; i < error.size(); ++i) error[i] -= matrix[i];
    left = SquaredNorm(error);
    if (step == 0) first = left;
    EXPECT_GE(left, best * 0.999);
  }
  EXPECT_LT(left, best * 1.01);
  EXPECT_GT(first, best * 1.05);
}

TEST(Powersgd, SendsAMatrixOfItsRankWhole) {
  constexpr size_t kRows = 30, kColumns = 64;
  const std::vector<float> left = Gaussian(2 * kRows, 6), right = Gaussian(2 * kColumns, 7);
  std::vector<float> matrix(kRows * kColumns);
  for (size_t i = 0; i < matrix.size(); ++i) {
    const size_t row = i / kColumns, column = i % kColumns;
    matrix[i] = left[row] * right[column] + left[kRows + row] * right[kColumns + column];
  }
  CodecConfig config;
  config.mutable_powersgd();
  EXPECT_LT(ShareLeft(config, matrix, MatrixShape(kRows, kColumns)), 1e-10);
  // Rank 1 keeps at least the larger part.
  config.mutable_powersgd()->set_rank(1);
  EXPECT_GT(ShareLeft(config, matrix, MatrixShape(kRows, kColumns)), 0.01);
  EXPECT_LT(ShareLeft(config, matrix, MatrixShape(kRows, kColumns)), 1);
}

}  // namespace
}  // namespace psgd
