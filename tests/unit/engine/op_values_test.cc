// PyTorch's results, computed by hand, where a formula could be read in several ways.
#include <cmath>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/rules.h"
#include "engine/reference/backend.h"
#include "tests/unit/engine/graph_runner.h"

namespace psgd {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;

struct Computed {
  Shape shape;
  std::vector<double> values;
};

using MakeOp = std::function<absl::StatusOr<TensorId>(Graph*, TensorId)>;

Computed Compute(const Shape& shape, const std::vector<double>& values, const MakeOp& make) {
  Graph graph;
  const TensorId x = graph.AddTensor({.name = "x", .shape = shape, .external = true});
  const absl::StatusOr<TensorId> y = make(&graph, x);
  EXPECT_TRUE(y.ok()) << y.status();
  if (!y.ok()) return {};
  graph.tensors[*y].external = true;
  testing::GraphRunner<double> runner(graph, MakeReferenceBackend<double>({}));
  runner.Set(x, values);
  runner.Run();
  return {graph.shape(*y), runner.Get(*y)};
}

std::string ErrorOf(const Shape& shape, const MakeOp& make) {
  Graph graph;
  const TensorId x = graph.AddTensor({.name = "x", .shape = shape, .external = true});
  const absl::Status status = make(&graph, x).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

// A step that diverged must not look sound.
TEST(OpValuesTest, NanGoesThroughReluAndMaxPool) {
  const double nan = std::nan("");
  const auto relu = [](Graph* g, TensorId x) { return AddRelu(g, "relu", x); };
  EXPECT_THAT(Compute({1, 4}, {-1, nan, 2, -0.0}, relu).values, ElementsAre(0, IsNan(), 2, 0));
  const auto pool = [](Graph* g, TensorId x) {
    return AddPool(g, "pool", {Pool::Kind::kMax, {{1, 3}, {1, 3}}}, x);
  };
  EXPECT_THAT(Compute({1, 1, 1, 12}, {1, nan, 2, nan, 3, 4, 5, 6, nan, 9, 8, 7}, pool).values,
              ElementsAre(IsNan(), IsNan(), IsNan(), 9));
}

// NaN passes a maximum, but not a choice that leaves it out.
TEST(OpValuesTest, WhatSelectLeavesOutLeavesNoTrace) {
  const double nan = std::nan(""), inf = INFINITY;
  const auto select = [](const Select& op) {
    return [=](Graph* g, TensorId x) -> absl::StatusOr<TensorId> {
      const TensorId condition = *AddSlice(g, "condition", {0, 0}, 1, x);
      const TensorId a = *AddSlice(g, "a", {0, 1}, 1, x);
      return AddSelect(g, "select", op, condition, a, *AddSlice(g, "b", {0, 2}, 1, x));
    };
  };
  // Rows: the condition, a, b.
  EXPECT_THAT(Compute({3, 5},
                      {1, 0, -2, nan, nan,    //
                       5, nan, -inf, 3, nan,  //
                       nan, 6, 7, inf, 4},
                      select({}))
                  .values,
              ElementsAre(5, 6, 7, inf, IsNan()));
  EXPECT_THAT(Compute({3, 2}, {1, -1, nan, nan, nan, 2}, select({.a = -inf})).values,
              ElementsAre(-inf, 2));
  EXPECT_THAT(
      ErrorOf(
          {3, 2},
          [](Graph* g, TensorId x) {
            return AddSelect(g, "s", {.b = 0.0f}, x, *AddSlice(g, "a", {0, 0}, 1, x), kNoTensor);
          }),
      HasSubstr("s: cannot choose elements of 1x2 by a condition of 3x2"));
}

TEST(OpValuesTest, CeilAddsAWindowForWhatIsLeftUnlessItWouldBeginInThePadding) {
  const auto pool = [](const Window& window) {
    return [=](Graph* g, TensorId x) {
      return AddPool(g, "pool", {Pool::Kind::kMax, window, /*ceil=*/true}, x);
    };
  };
  const Computed row = Compute({1, 1, 1, 6}, {1, 2, 3, 4, 5, 6}, pool({{1, 3}, {1, 2}}));
  EXPECT_EQ(row.shape, (Shape{1, 1, 1, 3}));
  EXPECT_THAT(row.values, ElementsAre(3, 5, 6));
  // A third window would begin at 4 - 1 = 3, in the padding after three elements.
  EXPECT_EQ(Compute({1, 1, 1, 3}, {1, 2, 3}, pool({{1, 2}, {1, 2}, {0, 1}})).shape,
            (Shape{1, 1, 1, 2}));
  EXPECT_THAT(Compute({1, 1, 1, 2}, {-7, -8}, pool({{1, 3}, {1, 2}})).values, ElementsAre(-7));
  EXPECT_THAT(ErrorOf({1, 1, 1, 1}, pool({{1, 3}, {1, 2}})),
              HasSubstr("1x3 kernel does not fit a 1x1 image"));
}

TEST(OpValuesTest, AverageCountsThePadding) {
  const Computed y = Compute({1, 1, 1, 2}, {6, 9}, [](Graph* g, TensorId x) {
    return AddPool(g, "pool", {Pool::Kind::kAverage, {{1, 3}, 1, {0, 1}}}, x);
  });
  EXPECT_THAT(y.values, ElementsAre(DoubleEq(5), DoubleEq(5)));
}

TEST(OpValuesTest, AdaptiveWindowsOverlapWhereSizesDoNotDivide) {
  const auto pool = [](int width) {
    return [=](Graph* g, TensorId x) { return AddAdaptiveAveragePool(g, "pool", {1, width}, x); };
  };
  // [0, 2), [1, 4), [3, 5)
  EXPECT_THAT(Compute({1, 1, 1, 5}, {1, 3, 5, 10, 20}, pool(3)).values,
              ElementsAre(DoubleEq(2), DoubleEq(6), DoubleEq(15)));
  EXPECT_THAT(Compute({1, 1, 1, 2}, {1, 3}, pool(3)).values,
              ElementsAre(DoubleEq(1), DoubleEq(2), DoubleEq(3)));
}

TEST(OpValuesTest, LocalResponseNormDividesAlphaByTheSize) {
  const Computed y = Compute({1, 3, 1, 1}, {1, 2, 3}, [](Graph* g, TensorId x) {
    return AddLocalResponseNorm(g, "lrn", {.size = 3, .alpha = 3, .beta = 1, .k = 1}, x);
  });
  EXPECT_THAT(y.values, ElementsAre(DoubleEq(1.0 / 6), DoubleEq(2.0 / 15), DoubleEq(3.0 / 14)));
  EXPECT_THAT(
      ErrorOf({1, 3, 1, 1},
              [](Graph* g, TensorId x) { return AddLocalResponseNorm(g, "lrn", {.size = 4}, x); }),
      HasSubstr("odd"));
}

TEST(OpValuesTest, ActivationsAtKnownPoints) {
  const auto at = [](Activation::Kind kind, double x) {
    return Compute({1}, {x},
                   [&](Graph* g, TensorId in) {
                     return AddActivation(g, "act", {.kind = kind, .alpha = 0.25f}, in);
                   })
        .values[0];
  };
  EXPECT_EQ(at(Activation::Kind::kLeakyRelu, -2), -0.5);
  EXPECT_EQ(at(Activation::Kind::kLeakyRelu, 2), 2);
  EXPECT_EQ(at(Activation::Kind::kSigmoid, 0), 0.5);
  EXPECT_THAT(at(Activation::Kind::kTanh, 1), DoubleNear(0.76159415595, 1e-10));
  // gelu by erf; the tanh approximation gives 0.8411919906.
  EXPECT_THAT(at(Activation::Kind::kGelu, 1), DoubleNear(0.8413447461, 1e-10));
}

TEST(OpValuesTest, TransposedConvolutionSpreadsEachPixel) {
  const auto up = [](int output_pad) {
    return [=](Graph* g, TensorId x) {
      const TensorId w = *AddConcat(g, "w", {0}, {x, x, x});  // 3 1 1 2, used as 1 3 1 2
      const auto weight = AddReshape(g, "weight", w, {1, 3, 1, 2});
      return AddConvTranspose2d(g, "up", {{{1, 2}, {1, 3}}}, {0, output_pad}, x, *weight,
                                kNoTensor);
    };
  };
  const Computed y = Compute({1, 1, 1, 2}, {2, 5}, up(1));
  EXPECT_EQ(y.shape, (Shape{1, 3, 1, 6}));
  EXPECT_EQ(std::vector<double>(y.values.begin(), y.values.begin() + 6),
            (std::vector<double>{4, 10, 0, 10, 25, 0}));
  EXPECT_THAT(ErrorOf({1, 1, 1, 2}, up(3)), HasSubstr("output padding is below the stride"));
}

TEST(OpValuesTest, PadPutsTheValueWhereNothingIs) {
  const Computed y = Compute({1, 2}, {1, 2}, [](Graph* g, TensorId x) {
    return AddPad(g, "pad", {.before = {0, 1}, .value = 9}, {1, 0}, x);
  });
  EXPECT_THAT(y.values, ElementsAre(9, 1, 2, 9, 9, 9));
}

TEST(OpValuesTest, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(ErrorOf({2, 3},
                      [](Graph* g, TensorId x) {
                        return AddSlice(g, "s", {1, 2}, 2, x);
                      }),
              HasSubstr("2x3 has no 2 elements from 2 on along axis 1"));
  EXPECT_THAT(ErrorOf({2, 3},
                      [](Graph* g, TensorId x) {
                        return AddConcat(g, "c", {1}, {x, g->AddTensor("other", {3, 3})});
                      }),
              HasSubstr("cannot concatenate 2x3 and 3x3 along axis 1"));
  EXPECT_THAT(ErrorOf({2, 3},
                      [](Graph* g, TensorId x) {
                        return AddPad(g, "p", {.before = {0, -1}}, {0, 0}, x);
                      }),
              HasSubstr("cannot pad 2x3"));
}

}  // namespace
}  // namespace psgd
