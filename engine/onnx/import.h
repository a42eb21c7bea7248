// Networks from ONNX files: `model: {onnx: model.onnx}`. docs/engine.md says what is taken.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/graph/builder.h"
#include "proto/config.pb.h"

namespace psgd {

// The network of config.onnx(), forward only, with softmax cross-entropy over its last output.
// Parameters have the names and layouts of the file and start from its values. The error names
// every node that cannot be imported.
absl::StatusOr<ModelGraph> ImportOnnx(const ModelConfig& config, const InputShape& shape, int batch,
                                      Mode mode);

// A line for people on what stays as the file of config.onnx() has it though the output depends on
// it: real values of more than one element that nothing trains, but for statistics and what
// config.frozen() names. Empty where there is nothing of the kind, or no file.
absl::StatusOr<std::string> HeldFixedText(const ModelConfig& config);

// Every value of a file that a parameter may start from, by name.
absl::StatusOr<std::map<std::string, std::vector<float>>> ReadOnnxWeights(const std::string& path);

}  // namespace psgd
