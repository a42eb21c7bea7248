// Values of imported nodes, where a formula could be read in several ways.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/cudnn/attention_pattern.h"
#include "engine/reference/backend.h"
#include "tests/unit/engine/graph_runner.h"
#include "tests/unit/engine/onnx_maker.h"
#include "tests/unit/engine/op_cases.h"

namespace psgd {
namespace {

using onnx::GraphProto;
using onnx::NodeProto;
using testing::AddInts;
using testing::AddNode;
using testing::AddWeights;
using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::Pointwise;
using testing::SetInt;
using testing::SetInts;
using testing::SetText;
using ::testing::SizeIs;

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

// How a file writes attention.
struct AttentionForm {
  const char* keys = "transposed";  // or "reshaped", "batched", "einsum"
  const char* mask = "added";       // or "spread", "replaced"
  bool scales_factors = false;      // by roots, and not the scores
  size_t nodes = 7;                 // of one attention: two products, a softmax, and transposes
};

// Causal attention of four places in two heads, which makes "m". Queries, keys and values differ.
void AddAttentionNodes(GraphProto* g, const AttentionForm& form) {
  const std::string keys = form.keys, mask = form.mask;
  const bool batched = keys == "batched", einsum = keys == "einsum";
  const auto add = [&](const char* op, const std::vector<std::string>& inputs, const char* output) {
    return AddNode(g, op, inputs, output)->output(0);
  };
  const auto shape = [&](const std::string& x, const std::vector<int64_t>& to,
                         const std::string& y) {
    AddInts(g, y + ".shape", to);
    return add("Reshape", {x, y + ".shape"}, y.c_str());
  };
  const auto transpose = [&](const std::string& x, const std::vector<int64_t>& order,
                             const std::string& y) {
    SetInts(AddNode(g, "Transpose", {x}, y), "perm", order);
    return y;
  };
  const auto product = [&](const std::string& x, const std::string& y, const char* equation,
                           const char* made) {
    if (!einsum) return add("MatMul", {x, y}, made);
    SetText(AddNode(g, "Einsum", {x, y}, made), "equation", equation);
    return std::string(made);
  };
  // N H T D, or of the batched products N*H T D.
  const auto heads = [&](std::string x, bool exchanged) {
    if (einsum) return x;
    if (batched) {
      x = shape(transpose(x, {1, 0, 2, 3}, x + ".first"), {4, -1, 4}, x + ".joined");
      return transpose(x, exchanged ? Shape{1, 2, 0} : Shape{1, 0, 2}, x + ".heads");
    }
    if (!exchanged) return transpose(x, {0, 2, 1, 3}, x + ".heads");
    if (keys == "transposed") return transpose(x, {0, 2, 3, 1}, x + ".heads");
    x = shape(transpose(x, {0, 2, 1, 3}, x + ".heads"), {-1, 4, 4}, x + ".three");
    return shape(transpose(x, {0, 2, 1}, x + ".turned"), {-1, 2, 4, 4}, x + ".four");
  };
  AddWeights(g, "two", {}, 2);
  AddWeights(g, "root", {}, std::sqrt(0.5f));
  AddWeights(g, "zero", {1}, 0);
  AddWeights(g, "least", {1}, mask == "replaced" ? -1e9f : -INFINITY);
  const std::string x = shape("x", {-1, 4, 2, 4}, "places");
  std::string q = heads(x, false), k = heads(add("Tanh", {x}, "k"), true);
  const std::string v = heads(add("Exp", {x}, "v"), false);
  if (form.scales_factors) {
    q = add("Mul", {q, "root"}, "q.scaled");
    k = add("Mul", {"root", k}, "k.scaled");
  }
  std::string scores = product(q, k, "nthd,nshd->nhts", "scores");
  if (!form.scales_factors) scores = add("Div", {scores, "two"}, "scores.scaled");
  AddInts(g, "triangle", {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1});
  SetInt(AddNode(g, "Cast", {shape("triangle", {1, 4, 4}, "square")}, "open"), "to",
         onnx::TensorProto::BOOL);
  if (mask == "replaced") {
    scores = add("Where", {"open", scores, "least"}, "masked");
  } else {
    std::string added = add("Where", {"open", "zero", "least"}, "mask");
    AddInts(g, "samples", {4, 1, 4, 4});
    if (mask == "spread") added = add("Expand", {added, "samples"}, "mask.spread");
    scores = add("Add", {scores, added}, "masked");
    AddInts(g, "row", {1, 4});
    scores = add("Add", {scores, add("ConstantOfShape", {"row"}, "no_mask")}, "masked.again");
  }
  std::string y = product(add("Softmax", {scores}, "weights"), v, "nhts,nshd->nthd", "values");
  if (batched) {
    y = shape(transpose(y, {1, 0, 2}, "values.first"), {4, -1, 2, 4}, "values.parted");
    y = transpose(y, {1, 0, 2, 3}, "values.places");
  } else if (!einsum) {
    y = transpose(y, {0, 2, 1, 3}, "values.places");
  }
  shape(y, {-1, 4, 8}, "m");
}

// Exporters write it in many ways. Each way becomes the one that the cuDNN backend knows.
TEST(OnnxValues, AttentionInAllItsForms) {
  const auto adding = [](const AttentionForm& form) {
    return [form](GraphProto* g) { AddAttentionNodes(g, form); };
  };
  const Made expected = Evaluate(adding({}), 32);
  ASSERT_EQ(expected.shape, (Shape{4, 4, 8}));
  for (const AttentionForm& form :
       {AttentionForm{}, AttentionForm{.scales_factors = true}, AttentionForm{.mask = "spread"},
        AttentionForm{.mask = "replaced"},
        // The transpose of these keys, with their reshapes, is no part of the attention.
        AttentionForm{.keys = "reshaped", .scales_factors = true, .nodes = 6},
        AttentionForm{.keys = "batched", .scales_factors = true},
        AttentionForm{.keys = "batched", .mask = "replaced"}, AttentionForm{.keys = "einsum"}}) {
    SCOPED_TRACE(std::string(form.keys) + ", mask " + form.mask);
    const Made made = Evaluate(adding(form), 32);
    EXPECT_THAT(made.values, Pointwise(DoubleNear(1e-6), expected.values));
    const auto model = testing::AroundNode(adding(form), 32);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto found = cudnn::FindAttentions(model->graph);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_TRUE(found[0].causal);
    EXPECT_NEAR(found[0].scale, 0.5, 1e-6);
    EXPECT_THAT(found[0].forward, SizeIs(form.nodes));
  }
}

}  // namespace
}  // namespace psgd
