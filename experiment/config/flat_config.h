// A config as a list of keys with their values, for comparing and naming.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

using FlatConfig = std::vector<std::pair<std::string, std::string>>;

// "data.batch" -> "64", "compression.push" -> "topk", "compression.push.topk.density" -> "0.01", in
// the order of the schema. Without defaults, values that are what the schema gives anyway are left
// out, so that a key which later versions add changes nothing.
FlatConfig Flatten(const google::protobuf::Message& config, bool with_defaults);

}  // namespace psgd
