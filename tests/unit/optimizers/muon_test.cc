// What muon does to matrices. optimizer_test.cc has its updates of other parameters.
#include <gtest/gtest.h>

#include <hwy/highway.h>
#include <cmath>
#include <tuple>
#include <vector>

#include "common/philox.h"
#include "optimizers/kernels.h"
#include "optimizers/optimizer.h"

namespace psgd {
namespace {

using Doubles = std::vector<double>;

std::vector<float> Random(uint32_t seed, size_t size) {
  RandomStream random(MakeKey(seed, RandomPurpose::kSynthetic), 0);
  std::vector<float> values(size);
  for (float& value : values) value = random.NextUnit() - 0.5f;
  return values;
}

// a b of row-major matrices; `turned`: a b'.
Doubles Times(const Doubles& a, const Doubles& b, size_t rows, size_t inner, size_t columns,
              bool turned = false) {
  Doubles out(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      for (size_t k = 0; k < inner; ++k) {
        out[i * columns + j] += a[i * inner + k] * (turned ? b[j * inner + k] : b[k * columns + j]);
      }
    }
  }
  return out;
}

// The iteration of muon.cc in double, on x as it is: (b y + c y y) x with y = x x'.
Doubles Orthogonal(Doubles x, size_t rows, size_t columns) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  for (double& value : x) value /= std::sqrt(squares) + 1e-7;
  for (int round = 0; round < 5; ++round) {
    const Doubles y = Times(x, x, rows, columns, rows, /*turned=*/true);
    Doubles polynomial = Times(y, y, rows, rows, rows);
    for (size_t i = 0; i < y.size(); ++i) {
      polynomial[i] = 2.0315 * polynomial[i] - 4.7750 * y[i];
    }
    const Doubles more = Times(polynomial, x, rows, rows, columns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + more[i];
  }
  return x;
}

struct Trained {
  std::vector<float> weights, momentum, second;
};

// Updates with the gradients of seeds 1, 2, ...
Trained Train(size_t rows, size_t columns, int steps) {
  OptimizerConfig config;
  config.mutable_muon()->set_momentum(0.9);
  const auto optimizer = MakeOptimizer(config);
  Trained t = {Random(99, rows * columns), std::vector<float>(rows * columns),
               std::vector<float>(rows * columns)};
  for (int step = 1; step <= steps; ++step) {
    const auto gradient = Random(static_cast<uint32_t>(step), rows * columns);
    OptimizerBlock block;
    block.size = gradient.size();
    block.gradient = gradient.data();
    block.weights_in = block.weights_out = t.weights.data();
    block.state_in = {t.momentum.data(), t.second.data()};
    block.state_out = {t.momentum.data(), t.second.data()};
    optimizer->ApplyBlock({.learning_rate = 0.02,
                           .weight_decay = 0.1,
                           .step = static_cast<uint64_t>(step),
                           .rows = rows,
                           .columns = columns},
                          block);
  }
  return t;
}

class MuonTest : public testing::TestWithParam<std::tuple<size_t, size_t>> {};

TEST_P(MuonTest, MovesByTheOrthogonalizedMomentum) {
  const auto [rows, columns] = GetParam();
  const Trained got = Train(rows, columns, 3);
  const std::vector<float> start = Random(99, rows * columns);
  Doubles weights(start.begin(), start.end()), momentum(start.size());
  for (int step = 1; step <= 3; ++step) {
    const auto gradient = Random(static_cast<uint32_t>(step), rows * columns);
    Doubles ahead(gradient.size());
    for (size_t i = 0; i < ahead.size(); ++i) {
      momentum[i] = 0.9 * momentum[i] + gradient[i];
      ahead[i] = gradient[i] + 0.9 * momentum[i];
    }
    const Doubles update = Orthogonal(ahead, rows, columns);
    const double rate = 0.02 * 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    for (size_t i = 0; i < update.size(); ++i) {
      weights[i] = weights[i] * (1 - 0.02 * 0.1) - rate * update[i];
    }
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    ASSERT_NEAR(got.weights[i], weights[i], 1e-5) << i;
    ASSERT_NEAR(got.momentum[i], momentum[i], 1e-5) << i;
    ASSERT_EQ(got.second[i], 0) << i;
  }
}

// Only the rounding of products differs.
TEST_P(MuonTest, AgreesOnEveryInstructionSet) {
  const auto [rows, columns] = GetParam();
  const Trained expected = Train(rows, columns, 2);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    const Trained got = Train(rows, columns, 2);
    EXPECT_EQ(got.momentum, expected.momentum) << hwy::TargetName(target);
    for (size_t i = 0; i < got.weights.size(); ++i) {
      ASSERT_NEAR(got.weights[i], expected.weights[i], 1e-5) << hwy::TargetName(target);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MuonTest,
                         testing::Values(std::tuple{1, 1}, std::tuple{1, 40}, std::tuple{7, 1},
                                         std::tuple{6, 32}, std::tuple{13, 70}, std::tuple{45, 45},
                                         std::tuple{90, 20}));

// Each singular value of an update comes close to 1, whatever it was: here 1, 0.1 and 0.03.
TEST(Muon, EqualizesSingularValues) {
  OptimizerConfig config;
  config.mutable_muon()->set_momentum(0);
  const auto optimizer = MakeOptimizer(config);
  const std::vector<float> gradient = {1, 0, 0, 0, 0.1f, 0, 0, 0, 0.03f};
  std::vector<float> weights(9), first(9), second(9);
  OptimizerBlock block;
  block.size = 9;
  block.gradient = gradient.data();
  block.weights_in = block.weights_out = weights.data();
  block.state_in = {first.data(), second.data()};
  block.state_out = {first.data(), second.data()};
  optimizer->ApplyBlock({.learning_rate = 1, .rows = 3, .columns = 3}, block);
  for (int i = 0; i < 9; ++i) {
    const float update = -weights[i] / (0.2f * std::sqrt(3.0f));
    if (i % 4 == 0) {
      EXPECT_GT(update, 0.6) << i;
      EXPECT_LT(update, 1.3) << i;
    } else {
      EXPECT_EQ(update, 0) << i;
    }
  }
}

// Products by Loops().multiply against sums in double.
TEST(Muon, ScalesAndKeepsOldValues) {
  const size_t rows = 9, columns = 37, inner = 5;
  const auto a = Random(1, rows * inner), b = Random(2, inner * columns),
             old = Random(3, rows * columns);
  std::vector<float> out(rows * columns), panel(inner * kPanel);
  Loops().multiply({rows, columns, inner, 2, a.data(), b.data(), -3, old.data(), out.data()},
                   panel.data());
  const Doubles product = Times({a.begin(), a.end()}, {b.begin(), b.end()}, rows, inner, columns);
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], 2 * product[i] - 3 * old[i], 1e-5) << i;
  }
}

TEST(Muon, ASymmetricProductEqualsItsMirror) {
  const size_t rows = 71, inner = 5;
  const auto a = Random(1, rows * inner);
  std::vector<float> turned(a.size()), whole(rows * rows), half(rows * rows), panel(inner * kPanel);
  for (size_t i = 0; i < a.size(); ++i) turned[i % inner * rows + i / inner] = a[i];
  MatrixProduct product = {rows, rows, inner, 1, a.data(), turned.data(), 0, nullptr, whole.data()};
  Loops().multiply(product, panel.data());
  product.out = half.data();
  product.is_symmetric = true;
  Loops().multiply(product, panel.data());
  EXPECT_EQ(half, whole);
}

}  // namespace
}  // namespace psgd
