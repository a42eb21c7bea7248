// Values of imported nodes, where a formula could be read in several ways.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/reference/backend.h"
#include "tests/unit/engine/graph_runner.h"
#include "tests/unit/engine/onnx_maker.h"
#include "tests/unit/engine/op_cases.h"

namespace psgd {
namespace {

using onnx::GraphProto;
using onnx::NodeProto;
using testing::AddNode;
using testing::AddWeights;
using ::testing::DoubleEq;
using testing::SetInts;
using testing::SetText;

struct Made {
  Shape shape;
  std::vector<double> values;
};

// Evaluates the value "m" of random images of 4 x 2 x 4 x 4 and random weights.
Made Evaluate(const std::function<void(GraphProto*)>& add, int64_t features) {
  auto model = testing::AroundNode(add, features);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  Graph& graph = model->graph;
  TensorId made = kNoTensor;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].name == "m") made = static_cast<TensorId>(i);
  }
  EXPECT_NE(made, kNoTensor);
  if (made == kNoTensor) return {};
  graph.tensors[made].external = true;
  testing::GraphRunner<double> runner(graph, MakeReferenceBackend<double>({}));
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    if (!graph.tensors[i].external) continue;
    const bool real = graph.tensors[i].element == Element::kReal;
    runner.Set(id, real ? testing::RandomValues(graph, id, 3)
                        : std::vector<double>(ElementCount(graph.shape(id))));
  }
  runner.Run();
  return {graph.shape(made), runner.Get(made)};
}

using Change = std::function<void(NodeProto*)>;

// The tanh of a transposed convolution of one channel, in strides of 2 and 3.
Made UpBy(const Change& change, int64_t height, int64_t width, bool bias = true) {
  return Evaluate(
      [&](GraphProto* g) {
        AddWeights(g, "w", {2, 1, 3, 4});
        AddWeights(g, "b", {1});
        const std::vector<std::string> inputs = {"x", "w", "b"};
        NodeProto* node =
            AddNode(g, "ConvTranspose", {inputs.begin(), inputs.begin() + (bias ? 3 : 2)}, "up");
        SetInts(node, "strides", {2, 3});
        change(node);
        AddNode(g, "Tanh", {"up"}, "m");
      },
      height * width);
}

constexpr int64_t kHigh = 9, kWide = 13;  // what 4x4 becomes without padding

// Checks that the outputs are those of no padding from a row and a column on.
void ExpectPart(const Made& made, int64_t row, int64_t column, const Shape& shape) {
  const Made whole = UpBy([](NodeProto*) {}, kHigh, kWide);
  ASSERT_EQ(whole.shape, (Shape{4, 1, kHigh, kWide}));
  ASSERT_EQ(made.shape, shape);
  for (int64_t i = 0; i < ElementCount(shape); ++i) {
    const int64_t x = i % shape[3] + column, y = i / shape[3] % shape[2] + row;
    const int64_t image = i / (shape[2] * shape[3]);
    EXPECT_THAT(made.values[i], DoubleEq(whole.values[(image * kHigh + y) * kWide + x])) << i;
  }
}

TEST(OnnxValues, TransposedConvolutionsLeaveOutWhatThePaddingSays) {
  const auto automatic = [](const char* how) {
    return [=](NodeProto* node) { SetText(node, "auto_pad", how); };
  };
  // 9 rows become 8 and 13 columns 12. SAME_UPPER leaves out the odd one at the end.
  ExpectPart(UpBy(automatic("SAME_UPPER"), 8, 12), 0, 0, {4, 1, 8, 12});
  ExpectPart(UpBy(automatic("SAME_LOWER"), 8, 12), 1, 1, {4, 1, 8, 12});
  ExpectPart(UpBy(automatic("VALID"), kHigh, kWide), 0, 0, {4, 1, kHigh, kWide});
  const auto pads = [](NodeProto* node) { SetInts(node, "pads", {1, 2, 0, 3}); };
  ExpectPart(UpBy(pads, 8, 8), 1, 2, {4, 1, 8, 8});
  const auto sized = [](NodeProto* node) { SetInts(node, "output_shape", {7, 10}); };
  ExpectPart(UpBy(sized, 7, 10), 1, 2, {4, 1, 7, 10});
  const auto upper = [](NodeProto* node) {
    SetText(node, "auto_pad", "SAME_UPPER");
    SetInts(node, "output_shape", {6, 10});
  };
  ExpectPart(UpBy(upper, 6, 10), 1, 1, {4, 1, 6, 10});
}

// Outputs behind the last window have the bias alone.
TEST(OnnxValues, TransposedConvolutionsGrowAtTheEnd) {
  const Made made = UpBy([](NodeProto* node) { SetInts(node, "output_shape", {11, 12}); }, 11, 12);
  ASSERT_EQ(made.shape, (Shape{4, 1, 11, 12}));
  const Made whole = UpBy([](NodeProto*) {}, kHigh, kWide);
  const double bias = made.values[9 * 12];
  EXPECT_NE(bias, 0);
  for (int64_t i = 0; i < ElementCount(made.shape); ++i) {
    const int64_t x = i % 12 + 1, y = i / 12 % 11, image = i / 132;
    const double wanted = y < kHigh ? whole.values[(image * kHigh + y) * kWide + x] : bias;
    EXPECT_THAT(made.values[i], DoubleEq(wanted)) << i;
  }
  const Made plain = UpBy(
      [](NodeProto* node) {
        SetInts(node, "output_shape", {11, 12});
      },
      11, 12, false);
  EXPECT_EQ(plain.values[9 * 12], 0);
}

TEST(OnnxValues, TransposedConvolutionsOfRows) {
  const Made made = Evaluate(
      [](GraphProto* g) {
        testing::AddInts(g, "rows", {0, 2, 16});
        AddNode(g, "Reshape", {"x", "rows"}, "row");
        AddWeights(g, "w", {2, 3, 5});
        NodeProto* node = AddNode(g, "ConvTranspose", {"row", "w"}, "up");
        SetInts(node, "strides", {2});
        SetInts(node, "output_shape", {32});
        AddNode(g, "Neg", {"up"}, "less");
        AddNode(g, "Relu", {"less"}, "m");
      },
      96);
  EXPECT_EQ(made.shape, (Shape{4, 3, 32}));
}

// What is not chosen may be infinite or NaN.
TEST(OnnxValues, WhereLeavesNoTraceOfTheOtherBranch) {
  const Made made = Evaluate(
      [](GraphProto* g) {
        AddWeights(g, "limit", {}, 0.5f);
        AddNode(g, "Greater", {"x", "limit"}, "large");
        AddNode(g, "Log", {"x"}, "log");  // NaN below zero
        AddNode(g, "Where", {"large", "log", "x"}, "m");
      },
      32);
  const Made x = Evaluate([](GraphProto* g) { AddNode(g, "Abs", {"x"}, "m"); }, 32);
  for (size_t i = 0; i < made.values.size(); ++i) {
    if (made.values[i] > 0.5 || made.values[i] < -1) ADD_FAILURE() << made.values[i];
    if (made.values[i] <= 0.5 && x.values[i] <= 0.5) {
      EXPECT_EQ(std::fabs(made.values[i]), x.values[i]);
    }
  }
}

// The larger of two numbers is one of them, to the bit.
TEST(OnnxValues, MaximumKeepsBits) {
  for (const char* op : {"Max", "Min"}) {
    const Made made = Evaluate(
        [&](GraphProto* g) {
          AddWeights(g, "factor", {}, 1e30f);
          AddNode(g, "Mul", {"x", "factor"}, "huge");
          AddNode(g, "Sigmoid", {"x"}, "share");
          AddNode(g, op, {"huge", "share"}, "m");
        },
        32);
    const Made share = Evaluate([](GraphProto* g) { AddNode(g, "Sigmoid", {"x"}, "m"); }, 32);
    int kept = 0;
    for (size_t i = 0; i < made.values.size(); ++i) kept += made.values[i] == share.values[i];
    // The shares beside huge numbers of the other sign.
    EXPECT_GT(kept, 40) << op;
    EXPECT_LT(kept, 90) << op;
  }
}

TEST(OnnxValues, CeluAndSignOfTheirFormulas) {
  const Made x = Evaluate(
      [](GraphProto* g) {
        AddWeights(g, "half", {}, 0.5f);
        AddNode(g, "Mul", {"x", "half"}, "half_of_x");
        AddNode(g, "Add", {"half_of_x", "half_of_x"}, "m");
      },
      32);
  const Made sign = Evaluate([](GraphProto* g) { AddNode(g, "Sign", {"x"}, "m"); }, 32);
  for (const float alpha : {1.0f, 0.25f}) {
    const Made celu = Evaluate(
        [&](GraphProto* g) {
          onnx::AttributeProto* attribute = AddNode(g, "Celu", {"x"}, "m")->add_attribute();
          attribute->set_name("alpha");
          attribute->set_type(onnx::AttributeProto::FLOAT);
          attribute->set_f(alpha);
        },
        32);
    ASSERT_EQ(celu.values.size(), x.values.size());
    for (size_t i = 0; i < x.values.size(); ++i) {
      const double of = x.values[i];
      EXPECT_NEAR(celu.values[i], of > 0 ? of : alpha * std::expm1(of / alpha), 1e-12);
      EXPECT_EQ(sign.values[i], of > 0 ? 1 : of < 0 ? -1 : 0);
    }
  }
}

}  // namespace
}  // namespace psgd
