#include "engine/onnx/import.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/onnx/importer.h"

namespace psgd {

absl::StatusOr<ModelGraph> ImportOnnx(const ModelConfig& config, const SampleShape& shape,
                                      int batch, Mode mode) {
  PSGD_ASSIGN_OR_RETURN(const onnx::OnnxFile file, onnx::OnnxFile::Read(config.onnx()));
  return onnx::Importer(file, {.mode = mode, .batch = batch, .shape = shape, .config = config})
      .Run();
}

absl::StatusOr<std::string> HeldFixedText(const ModelConfig& config) {
  if (!config.has_onnx()) return std::string();
  PSGD_ASSIGN_OR_RETURN(const onnx::OnnxFile file, onnx::OnnxFile::Read(config.onnx()));
  PSGD_ASSIGN_OR_RETURN(std::vector<std::string> held,
                        onnx::Importer(file, {.config = config}).HeldFixed());
  if (held.empty()) return std::string();
  constexpr size_t kMost = 20;  // values to name
  if (held.size() > kMost) {
    const size_t more = held.size() - kMost;
    held.resize(kMost);
    held.push_back(absl::StrCat("and ", more, " more"));
  }
  return absl::StrCat("not trained, but kept as the file has them: ", absl::StrJoin(held, ", "));
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
