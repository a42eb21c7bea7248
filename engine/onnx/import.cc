#include "engine/onnx/import.h"

#include "absl/strings/str_cat.h"
#include "engine/onnx/importer.h"

namespace psgd {

absl::StatusOr<ModelGraph> ImportOnnx(const ModelConfig& config, const SampleShape& shape,
                                      int batch, Mode mode) {
  PSGD_ASSIGN_OR_RETURN(const onnx::OnnxFile file, onnx::OnnxFile::Read(config.onnx()));
  return onnx::Importer(file, {.mode = mode, .batch = batch, .shape = shape, .config = config})
      .Run();
}

absl::StatusOr<std::vector<std::string>> OnnxNotes(const ModelConfig& config, size_t most) {
  if (!config.has_onnx()) return std::vector<std::string>();
  PSGD_ASSIGN_OR_RETURN(const onnx::OnnxFile file, onnx::OnnxFile::Read(config.onnx()));
  onnx::Importer importer(file, {.config = config});
  PSGD_RETURN_IF_ERROR(importer.ChooseTrained());
  std::vector<std::string> notes = importer.Notes(most);
  for (std::string& note : notes) note = absl::StrCat(config.onnx(), ": ", note);
  return notes;
}

absl::Status CheckOnnxTrained(const ModelConfig& config) {
  if (!config.has_onnx()) return absl::OkStatus();
  PSGD_ASSIGN_OR_RETURN(const onnx::OnnxFile file, onnx::OnnxFile::Read(config.onnx()));
  onnx::Importer importer(file, {.config = config});
  PSGD_RETURN_IF_ERROR(importer.ChooseTrained());
  return importer.CheckLost();
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
