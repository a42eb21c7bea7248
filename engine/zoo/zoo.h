// Networks that a config names: `model: {zoo: lenet5}`, or takes from a file: `model: {onnx:
// FILE}`.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "engine/graph/builder.h"
#include "engine/graph/input_shape.h"
#include "proto/config.pb.h"

namespace psgd {

std::vector<std::string> ZooNames();

// What a network is called: the name in the zoo, or that of its file.
std::string ModelName(const ModelConfig& config);

// The network that `config` asks for, forward only. Errors name the layer that does not fit the
// data, or the name that was probably meant.
absl::StatusOr<ModelGraph> BuildModel(const ModelConfig& config, const InputShape& shape, int batch,
                                      Mode mode);

}  // namespace psgd
