// What the rest of the system knows of a network: its parameters.
#pragma once

#include <string>

#include "engine/graph/graph.h"
#include "proto/model.pb.h"

namespace psgd {

ModelSpec MakeModelSpec(const std::string& name, const Graph& graph);

}  // namespace psgd
