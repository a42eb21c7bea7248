// Writes networks as ONNX files, for other frameworks and for ImportOnnx: opset 17, the evaluation
// graph, a batch of any size.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/sample_shape.h"
#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

// Returns the values of parameter `index`.
using ParameterValues = std::function<std::span<const float>(int index)>;

// Returns the file's bytes. `model` describes `values`. It is an error if `config` builds another
// model.
absl::StatusOr<std::string> ExportOnnx(const ModelConfig& config, const SampleShape& shape,
                                       const ModelSpec& model, const ParameterValues& values);

}  // namespace psgd
