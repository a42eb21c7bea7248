// Finds what exporters wrote as several small nodes and the engine has as one op: gelu by its Erf,
// layer normalisation by its means, local response normalisation by its pool of five axes.
#pragma once

#include <map>
#include <string>

#include "engine/onnx/array.h"
#include "proto/onnx.pb.h"

namespace psgd::onnx {

// Of nodes that this makes.
inline constexpr char kOwnDomain[] = "psgd";

// Replaces the last node of each such group; the others stay, and are dropped where nothing uses
// them any more. REQUIRES: nodes are in order, and each name is made once.
void FuseNodes(GraphProto* graph, const std::map<std::string, ArrayPtr>& initializers);

}  // namespace psgd::onnx
