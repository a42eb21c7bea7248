// A config as a list of keys and values, to compare and to name configs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

using FlatConfig = std::vector<std::pair<std::string, std::string>>;

// Lists "data.batch" -> "64", "compression.push" -> "topk", "compression.push.topk.density" ->
// "0.01", in the order of the schema. Without defaults, values that equal the schema's default are
// left out, so a key that a later version adds changes nothing.
FlatConfig Flatten(const google::protobuf::Message& config, bool with_defaults);

}  // namespace psgd
