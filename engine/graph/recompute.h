// Activation recomputation (Chen et al., "Training deep nets with sublinear memory cost", 2016):
// the forward pass is cut into segments; what crosses a cut is kept for the reverse pass, and the
// rest of a segment is dropped and computed again when the reverse pass comes to it. The last
// segment is kept whole, for its reverse pass follows at once. A rewriting of the graph: the nodes
// that compute again are copies of forward nodes, placed late, with outputs of their own, so
// results keep their bits, dropout draws the same masks, and running statistics are updated once.
#pragma once

#include <cstddef>

#include "common/status.h"
#include "engine/graph/graph.h"

namespace psgd {

inline constexpr int kRecomputeNothing = 0;
inline constexpr int kRecomputeAuto = -1;  // the segments that need the least memory

// Rewrites a graph that Differentiate has extended; its first `forward_nodes` nodes are the forward
// pass. `segments`: how many, or one of the above. An error when the graph cannot be cut so.
absl::Status Recompute(int segments, size_t forward_nodes, Graph* graph);

}  // namespace psgd
