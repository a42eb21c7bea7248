// The GPU engine plans networks with the real cuDNN, for devices that are not there. So these tests
// see what cuDNN accepts and which engines it prefers, but run nothing.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/plugin.h"
#include "engine/ops/rules.h"
#include "engine/runtime/planned_network.h"
#include "engine/runtime/plugin.h"
#include "engine/zoo/zoo.h"
#include "tests/fakes/emulated_cuda/settings.h"
#include "tests/fakes/planned_cuda/plans.h"
#include "tests/folders.h"
#include "tests/unit/engine/case_builder.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using planned::Planned;
using testing::CaseBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::OpCase;
using ::testing::StartsWith;
using testing::ZooModel;

// How the engine computes the convolutions of a graph. Each pass counts.
struct Convolutions {
  int channels_last = 0;
  int on_tensor_cores = 0;              // of these
  std::vector<std::string> transposed;  // nodes for which cuDNN wants NCHW
  std::vector<std::string> direct;      // nodes that psgd's own kernel computes
};

bool IsConvolution(const Node& node) {
  return std::holds_alternative<Conv2d>(node.op) ||
         std::holds_alternative<Conv2dBackwardData>(node.op) ||
         std::holds_alternative<Conv2dBackwardWeights>(node.op);
}

bool IsConvolution(const planned::Graph& graph) {
  const auto type = graph.operations.front();
  return graph.operations.size() == 1 &&
         (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
          type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
          type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
}

bool IsChannelsLast(const planned::Graph& graph) {
  return std::ranges::all_of(graph.tensors, [](const planned::Tensor& tensor) {
    return tensor.strides[1] == 1 && tensor.strides[3] == tensor.sizes[1];
  });
}

// The parameter is the device's compute capability, as 90.
class PlannedTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const auto find = [](const char* name) {
      return FindInPlugin("cudnn", FakeDir("planned_cuda"), name);
    };
    const auto planned = find("psgd_planned"), settings = find("psgd_emulated_settings");
    ASSERT_TRUE(planned.ok()) << planned.status();
    ASSERT_TRUE(settings.ok()) << settings.status();
    planned_ = reinterpret_cast<planned::PlannedFunction>(*planned)();
    if (!planned_->missing.empty()) GTEST_SKIP() << planned_->missing;
    const auto get_settings = reinterpret_cast<emulated::SettingsFunction>(*settings);
    get_settings()->capability = GetParam();
  }

  // Plans the graph. Passes what the engine asked of cuDNN to `check` while the plans live.
  template <typename Check>
  void Plan(const Graph& graph, const std::string& precision, Check check, bool plan_only = true) {
    planned_->graphs.clear();
    const auto backend =
        LoadBackend("cudnn", FakeDir("planned_cuda"),
                    {.precision = PrecisionNamed(precision).value(), .plan_only = plan_only});
    ASSERT_TRUE(backend.ok()) << backend.status();
    const auto executor = Executor::Create(graph, backend->get());
    ASSERT_TRUE(executor.ok()) << executor.status();
    note_ = (*executor)->note();
    check(planned_->graphs);
  }

  Convolutions PlanConvolutions(const Graph& graph, const std::string& precision) {
    Convolutions found;
    Plan(graph, precision, [&](std::vector<planned::Graph> asked) {
      std::erase_if(asked, [](const planned::Graph& of) { return !IsConvolution(of); });
      size_t next = 0;
      for (const Node& node : graph.nodes) {
        if (!IsConvolution(node)) continue;
        // The engine asks for NCHW only if it has no plan for channels-last tensors.
        ASSERT_LT(next, asked.size());
        const planned::Graph& first = asked[next++];
        EXPECT_TRUE(IsChannelsLast(first)) << node.name;
        if (first.plans > 0) {
          ++found.channels_last;
          found.on_tensor_cores += first.tensor_cores;
          continue;
        }
        ASSERT_LT(next, asked.size());
        (asked[next++].plans > 0 ? found.transposed : found.direct).push_back(node.name);
      }
      EXPECT_EQ(next, asked.size());
    });
    return found;
  }

  // The plans that the engine holds for the graph, all attentions. They are compiled. cuDNN refuses
  // none from 8.0 on.
  int PlanAttentions(const Graph& graph, const std::string& precision) {
    int planned = 0;
    Plan(
        graph, precision,
        [&](const std::vector<planned::Graph>& asked) {
          for (const planned::Graph& of : asked) planned += of.plans > 0;
          if (!HasBf16()) return;
          EXPECT_EQ(static_cast<size_t>(planned), asked.size());
        },
        /*plan_only=*/false);
    return planned;
  }

  static bool HasBf16() { return GetParam() >= 80; }

  Planned* planned_ = nullptr;
  std::string note_;  // of the last graph
};

struct ZooCase {
  const char* model;
  SampleShape shape;
  int batch;
};

// Their windows have 1 to 11 pixels a side, some are not square, and some convolutions are
// transposed.
const ZooCase kNetworks[] = {
    {"resnet50", {3, 224, 224, 1000}, 256},
    {"vgg16", {3, 224, 224, 1000}, 64},
    {"inception_v3", {3, 299, 299, 1000}, 32},
    {"alexnet", {3, 224, 224, 1000}, 128},
    {"unet", {1, 256, 256, 2}, 8},
    {"cnn", {3, 32, 32, 10}, 128},
    {"lenet5", {1, 28, 28, 10}, 128},
};

TEST_P(PlannedTest, NetworksNeedNoTransposesAndNoKernelsOfOurs) {
  for (const ZooCase& test : kNetworks) {
    const auto train = BuildTrainingGraph(ZooModel(test.model), test.shape, test.batch);
    ASSERT_TRUE(train.ok()) << train.status();
    for (const std::string precision : {"fp32", "tf32", "bf16", "fp16"}) {
      if (precision == "bf16" && !HasBf16()) continue;
      SCOPED_TRACE(absl::StrCat(test.model, " ", precision));
      const Convolutions found = PlanConvolutions(train->graph, precision);
      std::cout << test.model << " " << precision << ": " << found.channels_last
                << " convolutions are channels-last, " << found.on_tensor_cores
                << " of them on tensor cores; " << found.transposed.size() << " are transposed, "
                << found.direct.size() << " direct\n";
      EXPECT_THAT(found.transposed, IsEmpty());
      EXPECT_THAT(found.direct, IsEmpty());
      // A few convolutions of few channels are faster without tensor cores. If there were many,
      // formats or padded channels would not suit cuDNN's fast engines.
      const bool has_tensor_cores = precision == "tf32" ? HasBf16() : precision != "fp32";
      if (!has_tensor_cores) {
        EXPECT_EQ(found.on_tensor_cores, 0);
      } else {
        EXPECT_GE(found.on_tensor_cores, 0.75 * found.channels_last);
      }
    }
  }
}

OpCase ConvolutionCase(const char* name, Shape x, int64_t outputs, const Window& window,
                       int groups) {
  CaseBuilder b(name, 0);
  const TensorId in = b.Input(x);
  const TensorId filters =
      b.Input({outputs, x[1] / groups, window.kernel.height, window.kernel.width});
  return b.Finish(AddConv2d(b.graph(), "conv", {window, groups}, in, filters, kNoTensor));
}

// The zoo has no groups and no dilations. cuDNN compiles engines for some 16-bit convolutions,
// which takes a second each, so bf16 is planned for one device.
TEST_P(PlannedTest, ConvolutionsNeedNoTransposesAndNoKernelsOfOurs) {
  std::vector<OpCase> cases = testing::AllOpCases();
  std::erase_if(cases, [](const OpCase& test) {
    return std::ranges::none_of(test.graph.nodes, [](const Node& of) { return IsConvolution(of); });
  });
  EXPECT_GT(cases.size(), 20);
  cases.push_back(ConvolutionCase("GroupsOfResnext", {32, 128, 56, 56}, 128, {3, 1, 1}, 32));
  cases.push_back(ConvolutionCase("DepthwiseOfMobilenet", {32, 144, 56, 56}, 144, {3, 1, 1}, 144));
  cases.push_back(ConvolutionCase("DilatedOfDeeplab", {8, 256, 28, 28}, 256, {3, 1, 2, 2}, 1));
  std::vector<std::string> precisions = {"fp32"};
  if (GetParam() == 90) precisions.push_back("bf16");
  for (const OpCase& test : cases) {
    for (const std::string& precision : precisions) {
      SCOPED_TRACE(absl::StrCat(test.name, " ", precision));
      const Convolutions found = PlanConvolutions(test.graph, precision);
      EXPECT_GT(found.channels_last, 0);
      EXPECT_THAT(found.transposed, IsEmpty());
      EXPECT_THAT(found.direct, IsEmpty());
    }
  }
}

// cuDNN has no engine for most convolutions in bf16 on devices that cannot multiply bf16.
class OldDeviceTest : public PlannedTest {};

TEST_P(OldDeviceTest, HasNoBf16) {
  const auto backend = LoadBackend("cudnn", FakeDir("planned_cuda"),
                                   {.precision = Precision::kBf16, .plan_only = true});
  EXPECT_THAT(backend.status().ToString(), HasSubstr("use --precision fp16"));
}

// cuDNN has kernels for attention in 16 bits, and compiles them.
TEST_P(PlannedTest, AttentionIsOneKernelAPass) {
  ModelConfig model = ZooModel("gpt");
  model.set_layers(2);
  model.set_width(512);
  model.set_heads(8);
  for (const int length : {1024, 100}) {
    const SampleShape shape = {.classes = 1000, .length = length, .vocabulary = 1000};
    const auto train = BuildTrainingGraph(model, shape, 16);
    const auto evaluate = BuildModel(model, shape, 16, Mode::kEvaluate);
    ASSERT_TRUE(train.ok() && evaluate.ok()) << train.status();
    // The engine does not ask for gradients from 10.0 on.
    const bool fuses = HasBf16(), fuses_gradients = fuses && GetParam() < 100;
    for (const char* precision : {"bf16", "fp16"}) {
      if (!fuses && precision == std::string("bf16")) continue;
      SCOPED_TRACE(absl::StrCat(length, " ", precision));
      // Layers share them.
      EXPECT_EQ(PlanAttentions(train->graph, precision), fuses_gradients ? 2 : 0);
      EXPECT_EQ(PlanAttentions(evaluate->graph, precision), fuses ? 1 : 0);
    }
    EXPECT_EQ(PlanAttentions(train->graph, "fp32"), 0);
    EXPECT_EQ(note_,
              "attention: 0 of 2 as one cuDNN plan a pass; 2 by products and softmax: cuDNN has "
              "attention in bf16 and fp16 only");
  }
}

// As files write attention with torch.bmm.
TEST_P(PlannedTest, AttentionOfThreeAxesIsOneKernelAPass) {
  const std::vector<OpCase> cases = testing::AllOpCases();
  const auto batched = std::ranges::find(cases, "AttentionHeadsBatched", &OpCase::name);
  ASSERT_NE(batched, cases.end());
  EXPECT_EQ(PlanAttentions(batched->graph, "fp16"), HasBf16() && GetParam() < 100 ? 2 : 0);
}

// The encoder's attention takes lengths, so does the decoder's of the source, which has another
// number of places, and the decoder's of itself is causal.
TEST_P(PlannedTest, AttentionTakesLengths) {
  ModelConfig model = ZooModel("transformer");
  model.set_layers(1);
  model.set_width(512);
  const SampleShape shape = {.classes = 1000, .length = 300, .source = 170, .vocabulary = 1000};
  for (const auto& [heads, precision] :
       {std::pair(16, "bf16"), std::pair(8, "fp16"), std::pair(4, "bf16")}) {
    if (!HasBf16() && precision == std::string("bf16")) continue;
    SCOPED_TRACE(absl::StrCat(heads, " heads, ", precision));
    model.set_heads(heads);
    const auto train = BuildTrainingGraph(model, shape, 16);
    const auto evaluate = BuildModel(model, shape, 16, Mode::kEvaluate);
    ASSERT_TRUE(train.ok() && evaluate.ok()) << train.status();
    const bool fuses_gradients = HasBf16() && GetParam() < 100;
    EXPECT_EQ(PlanAttentions(train->graph, precision), fuses_gradients ? 6 : 0);
    EXPECT_THAT(note_, StartsWith(fuses_gradients ? "attention: 3 of 3" : "attention: 0 of 3"));
    if (!fuses_gradients) {
      EXPECT_THAT(note_, HasSubstr("; 3 by products and softmax: cuDNN"));
      EXPECT_EQ(PlanAttentions(evaluate->graph, precision), HasBf16() ? 3 : 0);
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<int>& info) {
  return absl::StrCat(info.param / 10, "_", info.param % 10);
}

INSTANTIATE_TEST_SUITE_P(Devices, PlannedTest, ::testing::Values(75, 80, 90, 100, 120), NameOf);
INSTANTIATE_TEST_SUITE_P(Devices, OldDeviceTest, ::testing::Values(75), NameOf);

}  // namespace
}  // namespace psgd
