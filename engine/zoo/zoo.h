// Networks that a config names: `model: {zoo: lenet5}`.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "engine/builder.h"
#include "engine/input_shape.h"
#include "proto/config.pb.h"

namespace psgd {

std::vector<std::string> ZooNames();

// The network that `config` asks for, forward only. Errors name the layer that does not fit the
// data, or the name that was probably meant.
absl::StatusOr<ModelGraph> BuildModel(const ModelConfig& config, const InputShape& shape, int batch,
                                      Mode mode);

}  // namespace psgd
