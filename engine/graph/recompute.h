// Activation recomputation (Chen et al., "Training deep nets with sublinear memory cost", 2016).
// The forward pass is cut into segments. Tensors that cross a cut are kept for the reverse pass;
// the others are dropped and computed again when the reverse pass reaches their segment. The last
// segment is kept whole, because its reverse pass follows at once. Recompute rewrites the graph: it
// copies forward nodes, with outputs of their own, into the reverse pass. So results keep their
// bits, dropout draws the same masks, and running statistics are updated once.
#pragma once

#include <cstddef>

#include "common/status.h"
#include "engine/graph/graph.h"

namespace psgd {

inline constexpr int kRecomputeNothing = 0;
inline constexpr int kRecomputeAuto = -1;  // the segments that need the least memory

// Rewrites a graph that Differentiate has extended. Its first `forward_nodes` nodes are the forward
// pass. `segments`: a number, or one of the above. It is an error if the graph has too few cuts.
absl::Status Recompute(int segments, size_t forward_nodes, Graph* graph);

}  // namespace psgd
