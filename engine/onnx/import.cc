#include "engine/onnx/import.h"

#include "engine/onnx/importer.h"

namespace psgd {

absl::StatusOr<ModelGraph> ImportOnnx(const ModelConfig& config, const SampleShape& shape,
                                      int batch, Mode mode) {
  PSGD_ASSIGN_OR_RETURN(const onnx::OnnxFile file, onnx::OnnxFile::Read(config.onnx()));
  return onnx::Importer(file, {.mode = mode, .batch = batch, .shape = shape, .config = config})
      .Run();
}

absl::StatusOr<std::map<std::string, std::vector<float>>> ReadOnnxWeights(const std::string& path) {
  PSGD_ASSIGN_OR_RETURN(const onnx::OnnxFile file, onnx::OnnxFile::Read(path));
  std::map<std::string, std::vector<float>> weights;
  for (const auto& [name, array] : file.initializers()) {
    if (array->real()) weights[name] = array->reals;
  }
  return weights;
}

}  // namespace psgd
