// The parameters of a network, as the rest of the system knows them.
#pragma once

#include <string>

#include "engine/graph/graph.h"
#include "proto/model.pb.h"

namespace psgd {

ModelSpec MakeModelSpec(const std::string& name, const Graph& graph);

}  // namespace psgd
