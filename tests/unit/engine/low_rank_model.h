// An ONNX model of a dense layer with weights W + B A. W's gradient is also that of the product, so
// kernels that come after its own read it, and make the gradients of B and A of it.
#pragma once

#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "common/files.h"
#include "common/philox.h"
#include "engine/runtime/replicas.h"
#include "tests/unit/engine/onnx_maker.h"

namespace psgd::testing {

// W has 1 MiB. It is the last parameter, so a group adds up its gradient first, alone.
inline constexpr SampleShape kLowRankShape = {1, 16, 16, 1024};

// The caller removes the file.
inline ModelConfig WriteLowRankModel() {
  const int64_t inputs = int64_t{kLowRankShape.height} * kLowRankShape.width;
  const int64_t outputs = kLowRankShape.classes;
  onnx::ModelProto model =
      EmptyModel({0, kLowRankShape.channels, kLowRankShape.height, kLowRankShape.width});
  onnx::GraphProto* graph = model.mutable_graph();
  AddWeights(graph, "b", {outputs, 2});
  AddWeights(graph, "a", {2, inputs});
  AddWeights(graph, "w", {outputs, inputs});
  AddNode(graph, "MatMul", {"b", "a"}, "product");
  AddNode(graph, "Add", {"w", "product"}, "weights");
  AddNode(graph, "Flatten", {"x"}, "flat");
  SetInt(AddNode(graph, "Gemm", {"flat", "weights"}, "y"), "transB", 1);
  SetOutput(graph, "y");
  ModelConfig config;
  config.set_onnx(::testing::TempDir() + "/low_rank-" + std::to_string(getpid()) + ".onnx");
  const absl::Status written = WriteFileAtomically(config.onnx(), model.SerializeAsString());
  EXPECT_TRUE(written.ok()) << written;
  return config;
}

// FillInitial leaves weights of a file at zero, where B and A have no gradients.
inline void FillLowRankModel(Replicas* replicas) {
  ASSERT_EQ(replicas->spec().parameters_size(), 3);
  ASSERT_EQ(replicas->spec().parameters(2).name(), "w");
  for (int i = 0; i < 3; ++i) {
    RandomStream random(MakeKey(5, RandomPurpose::kInitialWeights), static_cast<uint64_t>(i));
    for (float& value : replicas->parameter(i)) value = random.NextUnit() - 0.5f;
  }
  replicas->InvalidateParameters();
}

}  // namespace psgd::testing
