// Initial weights that come from the file of the model instead of from the seed: read by whoever
// starts the server, checked against what the workers built from their copies of the file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/model.pb.h"

namespace psgd {

using GivenWeights = std::map<std::string, std::vector<float>>;  // by parameter

// Every parameter that starts from given values finds them in `given`, of its size and checksum.
absl::Status CheckGiven(const ModelSpec& model, const GivenWeights& given);

}  // namespace psgd
