// Files that are damaged, cut short or malicious. Each is refused with a reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <limits>

#include "common/philox.h"
#include "tests/folders.h"
#include "tests/unit/engine/onnx_maker.h"

namespace psgd {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::TensorProto;
using testing::AddInts;
using testing::AddNode;
using testing::AddWeights;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Import;
using testing::ImportBytes;
using testing::SetInts;
using testing::SetOutput;
using testing::SmallModel;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TEST(OnnxHostile, TheValidOneImports) {
  ASSERT_TRUE(Import(SmallModel()).ok()) << Import(SmallModel()).status();
  ASSERT_TRUE(Import(SmallModel(1)).ok()) << Import(SmallModel(1)).status();
}

struct Spoilt {
  const char* name;
  std::function<void(ModelProto*)> spoil;
  const char* what;   // the reason in the error
  const char* where;  // the place in the error
};

TensorProto* TensorOf(ModelProto* model, int i) {
  return model->mutable_graph()->mutable_initializer(i);
}

std::vector<Spoilt> AllSpoilt() {
  const auto graph = [](ModelProto* m) { return m->mutable_graph(); };
  return {
      {"cycle", [=](ModelProto* m) { graph(m)->mutable_node(0)->set_input(0, "r"); }, "cycle",
       "Conv node c_node"},
      {"own output", [=](ModelProto* m) { graph(m)->mutable_node(1)->set_input(0, "r"); }, "cycle",
       "Relu node r_node"},
      {"unknown input", [=](ModelProto* m) { graph(m)->mutable_node(1)->set_input(0, "ghost"); },
       "nothing makes", "ghost"},
      {"made twice", [=](ModelProto* m) { graph(m)->mutable_node(1)->set_output(0, "c"); },
       "made once", "Relu"},
      {"made like a weight",
       [=](ModelProto* m) { graph(m)->mutable_node(1)->set_output(0, "fc.weight"); }, "made once",
       "fc.weight"},
      {"weights twice", [=](ModelProto* m) { TensorOf(m, 1)->set_name("conv.weight"); }, "twice",
       "conv.weight"},
      {"no name", [=](ModelProto* m) { TensorOf(m, 1)->clear_name(); }, "without a name",
       "small.onnx"},
      {"too few values", [](ModelProto* m) { TensorOf(m, 0)->mutable_float_data()->RemoveLast(); },
       "89 values where its shape has 90", "conv.weight"},
      {"raw bytes", [](ModelProto* m) { TensorOf(m, 0)->set_raw_data("abc"); }, "3 bytes",
       "conv.weight"},
      {"negative size", [](ModelProto* m) { TensorOf(m, 0)->set_dims(0, -5); }, "size -5",
       "conv.weight"},
      {"huge size", [](ModelProto* m) { TensorOf(m, 0)->set_dims(0, kHuge); }, "more than",
       "conv.weight"},
      {"sizes that overflow",
       [](ModelProto* m) {
         for (int i = 0; i < 4; ++i) TensorOf(m, 0)->set_dims(i, int64_t{1} << 32);
       },
       "more than", "conv.weight"},
      {"many axes",
       [](ModelProto* m) {
         for (int i = 0; i < 100; ++i) TensorOf(m, 0)->add_dims(1);
       },
       "104 axes", "conv.weight"},
      {"element type", [](ModelProto* m) { TensorOf(m, 0)->set_data_type(99); }, "element type 99",
       "conv.weight"},
      {"external data", [](ModelProto* m) { TensorOf(m, 0)->set_data_location(1); },
       "external data", "conv.weight"},
      {"external data listed",
       [](ModelProto* m) { TensorOf(m, 0)->add_external_data()->set_value("../../etc/passwd"); },
       "save the model as one file", "conv.weight"},
      {"no nodes", [=](ModelProto* m) { graph(m)->clear_node(); }, "no nodes", "small.onnx"},
      {"no output", [=](ModelProto* m) { graph(m)->clear_output(); }, "no output", "small.onnx"},
      {"output of nothing", [=](ModelProto* m) { SetOutput(graph(m), "ghost"); }, "no node makes",
       "ghost"},
      {"output without input", [=](ModelProto* m) { SetOutput(graph(m), "conv.bias"); },
       "does not depend", "small.onnx"},
      {"old opset", [](ModelProto* m) { m->mutable_opset_import(0)->set_version(6); }, "opset 6",
       "9 to 20"},
      {"new opset", [](ModelProto* m) { m->mutable_opset_import(0)->set_version(kHuge); }, "opset",
       "9 to 20"},
      {"other input size",
       [=](ModelProto* m) {
         graph(m)
             ->mutable_input(0)
             ->mutable_type()
             ->mutable_tensor_type()
             ->mutable_shape()
             ->mutable_dim(1)
             ->set_dim_value(3);
       },
       "nx3x4x4", "batch of samples is 4x2x4x4"},
      {"huge input",
       [=](ModelProto* m) {
         auto* shape =
             graph(m)->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
         for (int i = 1; i < 4; ++i) shape->mutable_dim(i)->set_dim_value(kHuge);
       },
       "its input x", "batch of samples"},
      {"huge batch",
       [=](ModelProto* m) {
         graph(m)
             ->mutable_input(0)
             ->mutable_type()
             ->mutable_tensor_type()
             ->mutable_shape()
             ->mutable_dim(0)
             ->set_dim_value(kHuge);
       },
       "batch of", "its input x"},
      {"bad reshape", [=](ModelProto* m) { TensorOf(m, 3)->set_int64_data(1, 21); },
       "cannot reshape", "Reshape node f_node"},
      {"two open axes", [=](ModelProto* m) { TensorOf(m, 3)->set_int64_data(1, -1); },
       "two axes open", "Reshape node f_node"},
      {"huge reshape", [=](ModelProto* m) { TensorOf(m, 3)->set_int64_data(1, kHuge); },
       "more than", "Reshape node f_node"},
      {"weights that do not fit",
       [=](ModelProto* m) {
         TensorOf(m, 2)->set_dims(0, 4);
         TensorOf(m, 2)->set_dims(1, 15);
       },
       "4x20", "Gemm node y_node"},
      {"huge pads",
       [=](ModelProto* m) {
         SetInts(graph(m)->mutable_node(0), "pads", {kHuge, kHuge, kHuge, kHuge});
       },
       "pads", "Conv node"},
      {"zero strides",
       [=](ModelProto* m) {
         SetInts(graph(m)->mutable_node(0), "strides", {0, 0});
       },
       "strides", "Conv node"},
      {"control characters",
       [=](ModelProto* m) { graph(m)->mutable_node(1)->set_op_type("Re\x1b[31mlu\n"); },
       "Re?[31mlu?", "not supported"},
      {"huge fill",
       [=](ModelProto* m) {
         AddInts(graph(m), "much", {kHuge, kHuge});
         AddNode(graph(m), "ConstantOfShape", {"much"}, "all");
         AddNode(graph(m), "Add", {"y", "all"}, "sum");
         SetOutput(graph(m), "sum");
       },
       "more than", "ConstantOfShape node all_node"},
  };
}

TEST(OnnxHostile, EachIsRefusedWithItsReason) {
  for (const Spoilt& test : AllSpoilt()) {
    ModelProto model = SmallModel();
    test.spoil(&model);
    const auto imported = Import(model);
    ASSERT_TRUE(absl::IsInvalidArgument(imported.status()))
        << test.name << ": " << imported.status();
    EXPECT_THAT(std::string(imported.status().message()),
                AllOf(HasSubstr(test.what), HasSubstr(test.where), HasSubstr("small.onnx")))
        << test.name;
  }
}

TEST(OnnxHostile, FilesCutShort) {
  const std::string bytes = SmallModel().SerializeAsString();
  for (size_t length = 0; length < bytes.size(); length += 3) {
    EXPECT_FALSE(ImportBytes(bytes.substr(0, length)).ok()) << length;
  }
  EXPECT_THAT(std::string(ImportBytes("not a model").status().message()),
              AllOf(HasSubstr("not an ONNX model"), HasSubstr("copy it whole")));
}

// A changed byte never causes a crash, a hang or a lack of memory. Many changed files still import.
TEST(OnnxHostile, FilesWithChangedBytes) {
  const std::string bytes = SmallModel(1).SerializeAsString();
  RandomStream random(MakeKey(3, RandomPurpose::kSynthetic), 9);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string spoilt = bytes;
    const int changes = 1 + round % 4;
    for (int i = 0; i < changes; ++i) {
      const size_t at = static_cast<size_t>(random.NextUnit() * static_cast<float>(bytes.size()));
      spoilt[std::min(at, bytes.size() - 1)] = static_cast<char>(random.NextUnit() * 256);
    }
    refused += ImportBytes(spoilt).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 300);
}

// Makes one change of meaning to a file that PyTorch exported: an op, an input, or a number.
class Spoiler {
 public:
  explicit Spoiler(ModelProto* model) : graph_(model->mutable_graph()) {}
  void Spoil(RandomStream& random) {
    const auto below = [&](int64_t n) {
      return std::min<int64_t>(static_cast<int64_t>(random.NextUnit() * static_cast<float>(n)),
                               n - 1);
    };
    constexpr int64_t kNumbers[] = {0,     1,         -1, 2, 3, 7, -2, 1 << 20, int64_t{1} << 40,
                                    kHuge, -kHuge - 1};
    const int64_t number = kNumbers[below(std::size(kNumbers))];
    onnx::NodeProto* node = graph_->mutable_node(static_cast<int>(below(graph_->node_size())));
    const onnx::NodeProto& other = graph_->node(static_cast<int>(below(graph_->node_size())));
    switch (below(5)) {
      case 0:
        node->set_op_type(other.op_type());
        return;
      case 1:
        if (node->input_size() > 0 && other.output_size() > 0) {
          node->set_input(static_cast<int>(below(node->input_size())), other.output(0));
        }
        return;
      case 2:
        if (node->input_size() > 1) node->mutable_input()->RemoveLast();
        return;
      case 3:
        for (onnx::AttributeProto& attribute : *node->mutable_attribute()) {
          attribute.set_i(number);
          if (attribute.ints_size() > 0) {
            attribute.set_ints(static_cast<int>(below(attribute.ints_size())), number);
          }
          TensorProto* tensor = attribute.mutable_t();
          const size_t at = tensor->raw_data().size() / 8;
          if (at > 0) {
            const size_t place = static_cast<size_t>(below(static_cast<int64_t>(at))) * 8;
            tensor->mutable_raw_data()->replace(place, 8, reinterpret_cast<const char*>(&number),
                                                8);
          }
        }
        return;
      default:
        TensorProto* tensor =
            graph_->mutable_initializer(static_cast<int>(below(graph_->initializer_size())));
        if (tensor->dims_size() > 1) tensor->mutable_dims()->SwapElements(0, 1);
    }
  }

 private:
  GraphProto* const graph_;
};

TEST(OnnxHostile, ChangedNetworksOfPyTorch) {
  RandomStream random(MakeKey(4, RandomPurpose::kSynthetic), 10);
  for (const char* name : {"resnet", "unet", "gpt", "gpt_fixed_batch", "encoder", "lstm", "gru"}) {
    std::ifstream file(GoldenFile(std::string("onnx/") + name + ".onnx"), std::ios::binary);
    ModelProto original;
    ASSERT_TRUE(original.ParseFromIstream(&file)) << name;
    const bool tokens =
        original.graph().input(0).type().tensor_type().elem_type() != TensorProto::FLOAT;
    const SampleShape shape = tokens ? SampleShape{.classes = 40, .length = 12, .vocabulary = 40}
                                     : SampleShape{3, 16, 16, 10};
    ASSERT_TRUE(Import(original, 4, Mode::kTrain, shape).ok()) << name;
    int refused = 0;
    for (int round = 0; round < 300; ++round) {
      ModelProto model = original;
      Spoiler spoiler(&model);
      for (int i = 0; i <= round % 3; ++i) spoiler.Spoil(random);
      refused += Import(model, 4, Mode::kTrain, shape).ok() ? 0 : 1;
    }
    EXPECT_GT(refused, 30) << name;
  }
}

TEST(OnnxHostile, AMissingFileIsNamed) {
  const absl::Status status = onnx::OnnxFile::Read("/nowhere/model.onnx").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/model.onnx"));
}

}  // namespace
}  // namespace psgd
