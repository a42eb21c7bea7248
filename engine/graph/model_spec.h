// The parameters of a network, as the rest of the system knows them.
#pragma once

#include <string>

#include "engine/graph/graph.h"
#include "proto/model.pb.h"

namespace psgd {

ModelSpec MakeModelSpec(const std::string& name, const Graph& graph);

// Whether the names and all parameters are equal. The preparation of the data does not count.
bool IsSameNetwork(const ModelSpec& a, const ModelSpec& b);

}  // namespace psgd
