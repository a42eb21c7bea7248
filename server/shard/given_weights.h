// Initial weights from the model's file, not from the seed. The starter of the server reads them.
// They are checked against the models that workers built from their copies of the file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/model.pb.h"

namespace psgd {

using GivenWeights = std::map<std::string, std::vector<float>>;  // by parameter

// Checks that `given` has values of the right size and checksum for each parameter that needs them.
absl::Status CheckGiven(const ModelSpec& model, const GivenWeights& given);

}  // namespace psgd
