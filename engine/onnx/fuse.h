// Finds groups of small nodes that exporters write for one op of the engine, for example gelu by
// its Erf, layer normalization by its means, local response normalization by its pool of five axes.
#pragma once

#include <map>
#include <string>

#include "engine/onnx/array.h"
#include "proto/onnx.pb.h"

namespace psgd::onnx {

// The domain of fused nodes.
inline constexpr char kOwnDomain[] = "psgd";

// Replaces the last node of each group. The others stay; the importer skips them if nothing uses
// them. REQUIRES: nodes are in order, and no two nodes make one name.
void FuseNodes(GraphProto* graph, const std::map<std::string, ArrayPtr>& initializers);

}  // namespace psgd::onnx
