#include "engine/onnx/import.h"

#include "engine/onnx/importer.h"

namespace psgd {

absl::StatusOr<ModelGraph> ImportOnnx(const ModelConfig& config, const InputShape& shape, int batch,
                                      Mode mode) {
  if (shape.source > 0) {
    return absl::InvalidArgumentError(
        "a model from a file takes images or sequences, and data.format translation gives pairs of "
        "sequences; use model.zoo: transformer, or data.format: text");
  }
  if (shape.IsSparse()) {
    return absl::InvalidArgumentError(
        "a model from a file takes images or sequences, and samples are sparse vectors; use "
        "model.zoo: logistic_regression or ncf, or another data.format");
  }
  PSGD_ASSIGN_OR_RETURN(const onnx::OnnxFile file, onnx::OnnxFile::Read(config.onnx()));
  return onnx::Importer(file, {.mode = mode, .batch = batch, .shape = shape, .config = config}).Run();
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
