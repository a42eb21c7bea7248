// Writes networks as ONNX files, for other frameworks and for ImportOnnx: opset 17, the graph of
// evaluation, a batch of any size.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/status.h"
#include "engine/graph/input_shape.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

// The values of parameter `index` of `model`.
using ParameterValues = std::function<std::span<const float>(int index)>;

// The file's bytes. `model`: whose values they are; an error unless the config still builds it.
absl::StatusOr<std::string> ExportOnnx(const ModelConfig& config, const InputShape& shape,
                                       const ModelSpec& model, const ParameterValues& values);

}  // namespace psgd
