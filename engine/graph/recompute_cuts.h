// Chooses where to cut a forward pass for recomputation.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/graph/graph.h"

namespace psgd {

// Whether a backend may compute a dense layer together with the Sum or Relu that reads it. That may
// change bits, so no cut divides such a pair. Pairs of nodes that are further apart always run
// separately, so they leave places for cuts. In a block of a transformer they are at most 3 apart.
inline bool MayFuse(int product, int reader) { return reader - product <= 8; }

// The places where a differentiated graph can be cut. Values that cross a cut must be kept, so a
// good place is crossed by few bytes, as between blocks of a residual network or a transformer.
class CutPlaces {
 public:
  CutPlaces(const Graph& graph, size_t forward_nodes);

  int most_segments() const { return static_cast<int>(places_.size()); }
  // Returns the last node of each segment but the last one. The choice minimizes the peak of kept
  // and recomputed bytes. `segments`: their number; 0: any number.
  // REQUIRES: segments <= most_segments().
  std::vector<int> Choose(int segments) const;

 private:
  // The cost of a segment from one place to another.
  struct Cost {
    double inside = 0;  // bytes that its reverse pass needs and no cut keeps
    double kept = 0;    // bytes that the cut at its end keeps in addition
  };

  void FindPlaces(size_t forward_nodes);
  void MeasureSegments();
  // The cost of the segment that ends at place `end`; `begin` is the place before it, plus 1.
  const Cost& cost(size_t begin, size_t end) const { return costs_[end][begin]; }
  // Finds the cuts whose peak is within the bound and that keep the fewest bytes. False: none.
  bool Within(double bound, int segments, std::vector<int>* cuts) const;

  struct Value {  // a result of the forward pass
    double bytes = 0;
    int made = 0;        // the node that makes it
    int used = 0;        // the last forward node that uses it
    bool saved = false;  // the reverse pass reads it
    int users = 0;       // forward nodes, except reshapes
    // An attention's result, perhaps transposed. If a cut kept it, the copy that is computed again
    // would have no last product, and a backend would not take it for an attention.
    bool ends_attention = false;
    bool inner = false;  // no cut may divide its maker from its user
  };

  std::vector<Value> values_;
  std::vector<int> places_;               // nodes to cut after, in order; the last ends the pass
  std::vector<std::vector<Cost>> costs_;  // by a segment's end and begin, see cost()
};

}  // namespace psgd
