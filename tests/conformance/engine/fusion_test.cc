// Chains of ops that the cuDNN backend computes in one kernel need less memory and traffic. They
// have the bits of single kernels, except for attention and sums of products.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/graph/differentiate.h"
#include "engine/ops/rules.h"
#include "engine/reference/backend.h"
#include "engine/runtime/network.h"
#include "engine/runtime/planned_network.h"
#include "engine/runtime/plugin.h"
#include "engine/zoo/zoo.h"
#include "tests/folders.h"
#include "tests/unit/engine/graph_runner.h"
#include "tests/unit/engine/network_fixture.h"
#include "tests/unit/engine/op_cases.h"

namespace psgd {
namespace {

using ::testing::Contains;
using testing::GraphRunner;
using testing::MakePairProblem;
using testing::MakeTextProblem;
using ::testing::Not;
using testing::OpCase;
using testing::Problem;
using testing::ZooModel;

absl::StatusOr<std::unique_ptr<Backend>> Load(bool fuse, Precision precision,
                                              bool plan_only = false) {
  BackendOptions options = {.dropout = {.seed = 3, .worker = 2}, .precision = precision};
  options.plan_only = plan_only;
  options.fuse = fuse;
  return LoadBackend("cudnn", PluginDir(), options);
}

class FusionTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::map<std::string, Precision> precisions = {{"fp32", Precision::kFp32},
                                                         {"tf32", Precision::kTf32},
                                                         {"bf16", Precision::kBf16},
                                                         {"fp16", Precision::kFp16}};
    precision_ = precisions.at(GetParam());
    const auto backend = Load(true, precision_);
    if (!backend.ok()) GTEST_SKIP() << backend.status();
  }

  // The values of all external tensors after a run, from pseudo-random inputs.
  std::vector<std::vector<double>> Compute(const Graph& graph, bool fuse) {
    auto backend = Load(fuse, precision_);
    EXPECT_TRUE(backend.ok()) << backend.status();
    GraphRunner<float> runner(graph, *std::move(backend));
    std::vector<bool> made(graph.tensors.size());
    for (const Node& node : graph.nodes) {
      for (const TensorId output : node.outputs) made[output] = true;
    }
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      const TensorId id = static_cast<TensorId>(i);
      if (!graph.tensors[i].external || made[i]) continue;
      runner.Set(id, testing::RandomValues(graph, id, static_cast<uint32_t>(i)));
    }
    runner.Run(11);
    std::vector<std::vector<double>> values;
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      if (graph.tensors[i].external && made[i]) {
        values.push_back(runner.Get(static_cast<TensorId>(i)));
      }
    }
    return values;
  }

  void ExpectSameBits(const Graph& graph, const std::string& name) {
    const auto fused = Compute(graph, true), single = Compute(graph, false);
    ASSERT_EQ(fused.size(), single.size());
    for (size_t i = 0; i < fused.size(); ++i) {
      for (size_t k = 0; k < fused[i].size(); ++k) {
        ASSERT_EQ(std::bit_cast<uint64_t>(fused[i][k]), std::bit_cast<uint64_t>(single[i][k]))
            << name << ", result " << i << ", element " << k << ": " << fused[i][k] << " against "
            << single[i][k];
      }
    }
  }

  Precision precision_ = Precision::kFp32;
};

TEST_P(FusionTest, OpsHaveTheSameBits) {
  int cases = 0;
  for (const OpCase& test : testing::AllOpCases()) {
    if (test.name.find("Relu") == std::string::npos && test.name.find("Sum") == std::string::npos &&
        test.name != "ResidualBlock") {
      continue;
    }
    ExpectSameBits(test.graph, test.name);
    ++cases;
  }
  EXPECT_GT(cases, 20);
}

TEST_P(FusionTest, NetworksHaveTheSameBits) {
  // All whole numbers of RandomValues are labels of a class.
  const SampleShape image = {3, 16, 16, testing::kIndexLimit};
  ModelConfig model = ZooModel("resnet20");
  for (const int segments : {0, 3}) {
    model.set_recompute(segments);
    const auto train = BuildTrainingGraph(model, image, 2);
    ASSERT_TRUE(train.ok()) << train.status();
    ExpectSameBits(train->graph, absl::StrCat(segments, " segments"));
  }
  auto evaluate = BuildModel(model, image, 2, Mode::kEvaluate);
  ASSERT_TRUE(evaluate.ok()) << evaluate.status();
  for (Tensor& tensor : evaluate->graph.tensors) {
    if (tensor.name.ends_with("running_var")) tensor.name = "positive";
  }
  ExpectSameBits(evaluate->graph, "evaluation");
}

// A product that adds itself to a sum is rounded once, and elsewhere twice.
TEST_P(FusionTest, TransformersHaveTheSameNumbers) {
  // All whole numbers of RandomValues are tokens, and labels.
  const SampleShape pairs = {.classes = testing::kIndexLimit,
                             .length = 11,
                             .source = 5,
                             .vocabulary = testing::kIndexLimit};
  SampleShape tokens = pairs;
  tokens.source = 0;
  // tf32 and fp16 have three bits more than bf16.
  const double bound = precision_ == Precision::kFp32   ? 1e-5
                       : precision_ == Precision::kBf16 ? 0.05
                                                        : 0.02;
  for (const auto& [name, shape] : {std::pair{"gpt", tokens}, std::pair{"transformer", pairs}}) {
    const auto train = BuildTrainingGraph(testing::SequenceModel(name), shape, 3);
    ASSERT_TRUE(train.ok()) << train.status();
    const auto fused = Compute(train->graph, true), single = Compute(train->graph, false);
    ASSERT_EQ(fused.size(), single.size());
    for (size_t i = 0; i < fused.size(); ++i) {
      double largest = 0.01;  // gradients of keys' biases are zero, but for roundings
      for (const double value : single[i]) largest = std::max(largest, std::abs(value));
      for (size_t k = 0; k < fused[i].size(); ++k) {
        ASSERT_NEAR(fused[i][k], single[i][k], bound * largest) << name << ", result " << i;
      }
    }
  }
}

// The memory of a graph's run: the bytes, and the tensors that have a buffer.
struct Memory {
  size_t bytes = 0;
  std::vector<std::string> tensors;
};

absl::StatusOr<Memory> PlanMemory(const Graph& graph, bool fuse, Precision precision) {
  PSGD_ASSIGN_OR_RETURN(const auto backend, Load(fuse, precision, /*plan_only=*/true));
  PSGD_ASSIGN_OR_RETURN(const auto executor, Executor::Create(graph, backend.get()));
  Memory memory = {executor->plan().temporary_bytes(), {}};
  for (const Buffer& buffer : executor->plan().buffers()) {
    if (buffer.tensor != kNoTensor) memory.tensors.push_back(graph.tensors[buffer.tensor].name);
  }
  return memory;
}

// Fused nodes take less than `share` of the memory. What passes between them has none: the tensors
// with names that are inner.
void ExpectLessMemory(const Graph& graph, Precision precision, double share,
                      const std::function<bool(const std::string&)>& is_inner) {
  const auto single = PlanMemory(graph, false, precision);
  const auto fused = PlanMemory(graph, true, precision);
  ASSERT_TRUE(single.ok() && fused.ok()) << fused.status();
  for (const std::string& tensor : fused->tensors) EXPECT_FALSE(is_inner(tensor)) << tensor;
  EXPECT_LT(static_cast<double>(fused->bytes), share * static_cast<double>(single->bytes));
}

// What passes within a chain has no memory.
TEST(Fusion, ShrinksTheMemoryOfResnet18_cudnn) {
  if (const auto backend = Load(true, Precision::kFp32); !backend.ok()) {
    GTEST_SKIP() << backend.status();
  }
  const auto train = BuildTrainingGraph(ZooModel("resnet18"), {3, 64, 64, 10}, 8);
  ASSERT_TRUE(train.ok()) << train.status();
  ExpectLessMemory(train->graph, Precision::kFp32, 0.95, [](const std::string& tensor) {
    return tensor.ends_with(".bn1") || tensor.ends_with(".bn2");
  });
}

// The kernels of a training step: how many by op, the bytes by node, the operations by op.
struct Kernels {
  std::string note;
  std::map<std::string, int> ops;
  std::map<std::string, double> bytes, flops;
};

Kernels KernelsOf(const ModelConfig& model, const Problem& problem, Precision precision) {
  const auto network = testing::MakeNetwork(
      model, problem, {.backend = "cudnn", .precision = precision, .plugin_dir = PluginDir()});
  Kernels kernels;
  EXPECT_NE(network, nullptr);
  if (network == nullptr) return kernels;
  EXPECT_TRUE(network->TrainStep(problem.input(), problem.labels, 0, nullptr).ok());
  const auto times = network->TimeNodes(1);
  EXPECT_TRUE(times.ok()) << times.status();
  kernels.note = network->note();
  for (const Network::NodeTime& node : *times) {
    ++kernels.ops[node.op];
    kernels.bytes[node.name] = node.bytes;
    kernels.flops[node.op] = node.flops;
  }
  return kernels;
}

// The time of a chain is that of its last node, which has the traffic of the chain.
TEST(Fusion, IsTimedAsOneKernel_cudnn) {
  const Problem problem = testing::MakeProblem({3, 4, 4, 4}, 2);
  if (const auto backend = Load(true, Precision::kFp32); !backend.ok()) {
    GTEST_SKIP() << backend.status();
  }
  auto [note, ops, bytes, flops] = KernelsOf(ZooModel("resnet20"), problem, Precision::kFp32);
  EXPECT_EQ(ops["BatchNorm"], 19);  // their statistics
  EXPECT_EQ(ops["BatchNorm+Relu"], 10);
  EXPECT_EQ(ops["BatchNorm+Sum+Relu"], 9);
  EXPECT_EQ(ops["ReluBackward+BatchNormBackward"], 10);
  EXPECT_EQ(ops["Sum+ReluBackward"], 8);
  EXPECT_EQ(ops["Relu"], 0);
  EXPECT_EQ(ops["Sum"], 1);  // of gradients that go to the first batch norm
  // Images have 16 channels of 4 x 4 pixels. A kernel also reads up to six numbers a channel.
  constexpr double kImages = 4.0 * 2 * 16 * 4 * 4, kChannels = 4.0 * 16;
  EXPECT_EQ(bytes["bn1"], kImages + 6 * kChannels);  // x
}

// gpt adds a product to a residual twice a layer, and the gradients of queries, keys and values.
TEST(Fusion, ProductsAddThemselvesToSums_cudnn) {
  const Problem problem = testing::MakeTokenProblem(7, 11, 3);
  if (const auto backend = Load(true, Precision::kFp32); !backend.ok()) {
    GTEST_SKIP() << backend.status();
  }
  ModelConfig model = testing::SequenceModel("gpt");
  const auto train = BuildTrainingGraph(model, problem.shape, problem.batch);
  ASSERT_TRUE(train.ok()) << train.status();
  // Where the most memory is alive there is no sum.
  ExpectLessMemory(train->graph, Precision::kFp32, 1.01, [](const std::string& tensor) {
    return tensor.ends_with(".out_proj") || tensor.ends_with(".out_proj.out") ||
           tensor.ends_with(".c_proj") || tensor.ends_with(".c_proj.out") ||
           tensor.ends_with("q_proj.rows)") || tensor.ends_with("k_proj.rows)") ||
           tensor.ends_with("v_proj.rows)");
  });

  Kernels kernels = KernelsOf(model, problem, Precision::kFp32);
  const int layers = model.layers();
  EXPECT_EQ(kernels.ops["Dense+Sum"], 2 * layers);
  EXPECT_EQ(kernels.ops["DenseBackwardData+Sum"], 2 * layers);  // the third has nothing to add to
  // Of a residual and the gradient of a normalization, and of both uses of the table.
  EXPECT_EQ(kernels.ops["Sum"], 2 * layers + 1);
  constexpr double kWidth = 16, kElements = 7 * 3 * kWidth;
  EXPECT_EQ(kernels.bytes["h.0.attn.out_proj"], 4 * (3 * kElements + kWidth * kWidth + kWidth));
  // Reads the sum and writes it again.
  EXPECT_EQ(kernels.bytes["h.0.attn.k_proj.backward_data"], 4 * (3 * kElements + kWidth * kWidth));
  EXPECT_EQ(kernels.flops["DenseBackwardData+Sum"], 2 * kElements * kWidth);
}

TEST(Fusion, ProductsAreClamped_cudnn) {
  const Problem problem = testing::MakeProblem({1, 6, 6, 4}, 3);
  if (const auto backend = Load(true, Precision::kFp32); !backend.ok()) {
    GTEST_SKIP() << backend.status();
  }
  Kernels kernels = KernelsOf(ZooModel("mlp"), problem, Precision::kFp32);
  EXPECT_EQ(kernels.ops["Dense+Relu"], 1);
  EXPECT_EQ(kernels.ops["Relu"], 0);
  const auto train = BuildTrainingGraph(ZooModel("mlp"), problem.shape, problem.batch);
  ASSERT_TRUE(train.ok()) << train.status();
  // The most memory is alive elsewhere.
  ExpectLessMemory(train->graph, Precision::kFp32, 1.01,
                   [](const std::string& tensor) { return tensor == "fc1"; });
}

// In one kernel attention has other roundings than in several, and needs no memory for its inner
// matrices.
TEST(Fusion, AttentionIsOneKernelAPass_cudnn) {
  if (const auto backend = Load(true, Precision::kBf16); !backend.ok()) {
    GTEST_SKIP() << backend.status();
  }
  const Problem problem = testing::MakeTokenProblem(64, 13, 5);
  for (const auto& [name, shape] :
       {std::pair("gpt", problem.shape), std::pair("transformer", MakePairProblem(64).shape),
        std::pair("transformer_encoder", MakeTextProblem(64).shape)}) {
    for (const bool recompute : {false, true}) {
      ModelConfig trained = testing::SequenceModel(name);
      if (recompute) trained.set_recompute(2);
      const auto train = BuildTrainingGraph(trained, shape, problem.batch);
      ASSERT_TRUE(train.ok()) << train.status();
      ExpectLessMemory(train->graph, Precision::kBf16, 0.8, [](const std::string& tensor) {
        return tensor.find("attn.weights") != std::string::npos ||
               tensor.find("attn.scores") != std::string::npos ||
               tensor.find(".heads") != std::string::npos;
      });
    }
  }

  Kernels kernels = KernelsOf(testing::SequenceModel("gpt"), problem, Precision::kBf16);
  EXPECT_EQ(kernels.note, "attention: 2 of 2 as one cuDNN plan a pass");
  constexpr char kForward[] = "Transpose+Transpose+Transpose+MatMul+Softmax+MatMul+Transpose";
  auto& ops = kernels.ops;
  EXPECT_EQ(ops[kForward], 2);  // layers
  EXPECT_EQ(ops["Softmax"] + ops["SoftmaxBackward"] + ops["MatMul"], 0);
  // Two products of 64 queries, 64 keys and a width of 8, in 2 heads of 5 samples.
  EXPECT_EQ(kernels.flops[kForward], 2 * 2.0 * 64 * 64 * 8 * 2 * 5);
}

// Also attentions of files that PyTorch exported, with all their transposes: of four axes, of three
// (torch.bmm), and with keys that are turned by angles.
TEST(Fusion, AttentionOfFilesIsOneKernelAPass_cudnn) {
  if (const auto backend = Load(true, Precision::kBf16); !backend.ok()) {
    GTEST_SKIP() << backend.status();
  }
  const Problem problem = testing::MakeTokenProblem(12, 40, 3);
  for (const auto& [name, attentions, transposed] :
       {std::tuple("gpt", 2, true), std::tuple("encoder", 2, true),
        std::tuple("lm_multihead_time_first", 1, true), std::tuple("lm_rotary", 1, false)}) {
    SCOPED_TRACE(name);
    ModelConfig model;
    model.set_onnx(GoldenFile(absl::StrCat("onnx/", name, ".onnx")));
    Kernels kernels = KernelsOf(model, problem, Precision::kBf16);
    EXPECT_EQ(kernels.note, absl::StrCat("attention: ", attentions, " of ", attentions,
                                         " as one cuDNN plan a pass"));
    auto& ops = kernels.ops;
    EXPECT_EQ(ops["Transpose+Transpose+MatMul+Softmax+Transpose+MatMul+Transpose"],
              transposed ? attentions : 0);
    EXPECT_EQ(ops["Softmax"] + ops["SoftmaxBackward"], 0);
  }
}

// An attention of samples with these lengths, and its gradients.
struct PaddedAttention {
  static constexpr int64_t kKeys = 200, kHeads = 2, kWidth = 16;
  const std::vector<double> lengths = {0, 1, 7, 128, 130, kKeys, kKeys + 1};

  PaddedAttention(bool causal, bool places_first) : places_first(places_first) {
    const auto samples = static_cast<int64_t>(lengths.size());
    const auto heads = [&](const char* name, int64_t places) {
      const Shape shape = places_first ? Shape{samples, places, kHeads, kWidth}
                                       : Shape{samples, kHeads, places, kWidth};
      given.push_back(graph.AddTensor(
          {.name = name, .shape = shape, .wants_gradient = true, .external = true}));
      return HeadsFirst(absl::StrCat(name, ".heads"), given.back());
    };
    const TensorId q = heads("q", causal ? kKeys : 5), k = heads("k", kKeys);
    const TensorId v = heads("v", kKeys);
    of_lengths = graph.AddTensor(
        {.name = "lengths", .shape = {samples}, .element = Element::kInt32, .external = true});
    const TensorId y =
        HeadsFirst("y", AddAttention(&graph, "attention", {causal}, q, k, v, of_lengths).value());
    made.push_back(y);
    given.push_back(graph.AddTensor(
        {.name = "dy", .shape = Shape(graph.shape(y)), .wants_gradient = true, .external = true}));
    const std::vector<GradientSeed> seeds = {{y, given.back()}};
    const auto gradients = Differentiate(&graph, seeds).value();
    for (size_t i = 0; i < 3; ++i) made.push_back(gradients[given[i]]);
    for (const TensorId tensor : made) graph.tensors[tensor].external = true;
  }

  // Or the other way round.
  TensorId HeadsFirst(const std::string& name, TensorId x) {
    if (!places_first) return x;
    return AddTranspose(&graph, name, {{0, 2, 1, 3}}, x).value();
  }

  template <typename T>
  std::vector<std::vector<double>> Compute(std::unique_ptr<Backend> backend) const {
    GraphRunner<T> runner(graph, std::move(backend));
    for (const TensorId tensor : given) {
      const auto stream = static_cast<uint32_t>(tensor);
      runner.Set(tensor, testing::RandomValues(graph, tensor, stream, /*bf16=*/true));
    }
    runner.Set(of_lengths, lengths);
    runner.Run();
    std::vector<std::vector<double>> values;
    for (const TensorId tensor : made) values.push_back(runner.Get(tensor));
    return values;
  }

  const bool places_first;
  Graph graph;
  std::vector<TensorId> given, made;
  TensorId of_lengths = kNoTensor;
};

TEST(Fusion, AttentionTakesLengths_cudnn) {
  for (const bool causal : {false, true}) {
    for (const bool places_first : {false, true}) {
      SCOPED_TRACE(absl::StrCat("causal: ", causal, ", places first: ", places_first));
      const PaddedAttention attention(causal, places_first);
      const auto expected = attention.Compute<double>(MakeReferenceBackend<double>({}));
      for (const auto& [precision, bound] :
           {std::pair(Precision::kBf16, 0.008), std::pair(Precision::kFp16, 0.002)}) {
        auto backend = Load(true, precision);
        if (!backend.ok()) GTEST_SKIP() << backend.status();
        const auto memory = PlanMemory(attention.graph, true, precision);
        ASSERT_TRUE(memory.ok()) << memory.status();
        EXPECT_THAT(memory->tensors, Not(Contains("attention.weights")));
        const auto got = attention.Compute<float>(*std::move(backend));
        for (size_t r = 0; r < got.size(); ++r) {
          double largest = 0;
          for (const double value : expected[r]) largest = std::max(largest, std::abs(value));
          for (size_t i = 0; i < got[r].size(); ++i) {
            ASSERT_NEAR(got[r][i], expected[r][i], bound * largest)
                << "result " << r << ", element " << i;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, FusionTest, ::testing::Values("fp32", "tf32", "bf16", "fp16"),
                         [](const auto& info) { return "cudnn_" + info.param; });

}  // namespace
}  // namespace psgd
