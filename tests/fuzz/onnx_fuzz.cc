// Any bytes as an ONNX model: refused, or a graph of a few nodes with its values. --onnx=small,
// images or tokens chooses the samples.
#include "engine/graph/graph.h"
#include "engine/onnx/import.h"
#include "tests/fuzz/memory_file.h"

namespace psgd::fuzz {
namespace {

// The inputs of the models in the corpus and in tests/golden/onnx.
SampleShape ShapeFor(const std::string& kind) {
  SampleShape shape;
  if (kind == "small") shape = {.channels = 2, .height = 4, .width = 4, .classes = 3};
  if (kind == "images") shape = {.channels = 3, .height = 16, .width = 16, .classes = 10};
  if (kind == "tokens") shape = {.classes = 40, .length = 12, .vocabulary = 40};
  Require(shape.classes > 0, "say what samples are, as --onnx=images");
  return shape;
}

const SampleShape* shape = nullptr;

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace psgd::fuzz;
  shape = new psgd::SampleShape(ShapeFor(Variant("onnx", *argc, *argv)));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace psgd::fuzz;
  static MemoryFile file;
  file.Set({data, size});
  const auto weights = psgd::ReadOnnxWeights(file.path());
  psgd::ModelConfig config;
  config.set_onnx(file.path());
  for (const psgd::Mode mode : {psgd::Mode::kTrain, psgd::Mode::kEvaluate}) {
    const auto graph = psgd::ImportOnnx(config, *shape, 2, mode);
    Require(graph.ok() || !graph.status().message().empty(), "it was refused without a reason");
    Require(!graph.ok() || weights.ok(), "there is a graph, but no weights");
  }
  return 0;
}
