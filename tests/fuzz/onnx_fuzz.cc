// Any bytes as an ONNX model: refused, or a graph of a few nodes with its values.
#include "engine/graph.h"
#include "engine/onnx/import.h"
#include "tests/fuzz/memory_file.h"

namespace psgd::fuzz {
namespace {

// Of a picture, of a sequence of tokens, and of rows of numbers: what the models of the corpus take.
InputShape Picture() {
  InputShape shape;
  shape.channels = 3;
  shape.height = shape.width = 32;
  shape.classes = 10;
  return shape;
}
InputShape Sequence() {
  InputShape shape;
  shape.classes = shape.vocabulary = 40;
  shape.length = 12;
  return shape;
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace psgd::fuzz;
  static MemoryFile file;
  file.Set({data, size});
  const auto weights = psgd::ReadOnnxWeights(file.path());
  psgd::ModelConfig config;
  config.set_onnx(file.path());
  for (const psgd::InputShape& shape : {Picture(), Sequence()}) {
    for (const psgd::Mode mode : {psgd::Mode::kTrain, psgd::Mode::kEvaluate}) {
      const auto graph = psgd::ImportOnnx(config, shape, 2, mode);
      Require(graph.ok() || !graph.status().message().empty(), "it was refused without a reason");
      Require(!graph.ok() || weights.ok(), "there is a graph, but no weights");
    }
  }
  return 0;
}
