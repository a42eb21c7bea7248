// Networks from ONNX files: `model: {onnx: model.onnx}`. docs/engine.md lists what is supported.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/graph/builder.h"
#include "proto/config.pb.h"

namespace psgd {

// In the error of a file whose table lacks rows for tokens of the data, before the largest of them.
inline constexpr char kTokensBeyondTable[] = ", but those of the data go up to ";

// The network of config.onnx(), forward only, with the config's loss of its last output. Parameters
// have names, layouts and initial values of the file. The error names every node that cannot be
// imported.
absl::StatusOr<ModelGraph> ImportOnnx(const ModelConfig& config, const SampleShape& shape,
                                      int batch, Mode mode);

// All values of a file that may be initial values of a parameter, by name.
absl::StatusOr<std::map<std::string, std::vector<float>>> ReadOnnxWeights(const std::string& path);

}  // namespace psgd
