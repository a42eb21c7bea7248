// Networks by name, `model: {zoo: lenet5}`, or from a file, `model: {onnx: FILE}`.
#pragma once

#include <string>
#include <vector>

#include "common/sample_shape.h"
#include "common/status.h"
#include "engine/graph/builder.h"
#include "proto/config.pb.h"

namespace psgd {

std::vector<std::string> ZooNames();

// The network's name in the zoo, or of its file.
std::string ModelName(const ModelConfig& config);

struct ModelInput {
  bool tokens = false;  // samples are sequences of tokens
  bool grey = false;    // samples are images of one channel, and of no other number
  bool ends = false;    // a sequence ends before its first token 0
};
// What a network takes, as far as its name or its file, which is read, say so.
absl::StatusOr<ModelInput> InputOf(const ModelConfig& config);

// The network of `config`, forward only. An error names the layer that does not fit the data, or
// suggests the name that was probably meant.
absl::StatusOr<ModelGraph> BuildModel(const ModelConfig& config, const SampleShape& shape,
                                      int batch, Mode mode);

}  // namespace psgd
