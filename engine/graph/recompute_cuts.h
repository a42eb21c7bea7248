// Chooses where to cut a forward pass for recomputation.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/graph/graph.h"

namespace psgd {

// Whether a backend may compute a dense layer together with the Sum or Relu that reads it. Nodes
// that are further apart always run separately, so they leave places for cuts. In a block of a
// transformer they are at most 3 apart.
inline bool MayFuse(int product, int reader) { return reader - product <= 8; }

// By node of the forward pass: the last of the nodes that a backend may compute with it at once;
// without such nodes itself. These are products of dense layers and the Sum or Relu that reads
// them, an attention with the transposes of its heads, and Reshapes. That may change bits, so one
// segment gets all of them: for a cut each runs at the last one.
std::vector<int> FindEnds(const Graph& graph, size_t forward_nodes);

// The places where a differentiated graph can be cut. Values that cross a cut must be kept, so a
// good place is crossed by few bytes, as between blocks of a residual network or a transformer.
class CutPlaces {
 public:
  CutPlaces(const Graph& graph, size_t forward_nodes);

  int most_segments() const { return static_cast<int>(places_.size()); }
  const std::vector<int>& ends() const { return ends_; }  // see FindEnds
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

  void FindPlaces();
  void MeasureSegments();
  // The cost of the segment that ends at place `end`; `begin` is the place before it, plus 1.
  const Cost& cost(size_t begin, size_t end) const { return costs_[end][begin]; }
  // Finds the cuts whose peak is within the bound and that keep the fewest bytes. False: none.
  bool Within(double bound, int segments, std::vector<int>* cuts) const;

  struct Value {  // a result of the forward pass
    double bytes = 0;
    int made = 0;        // the end of the node that makes it
    int used = 0;        // the last end of a forward node that uses it
    bool saved = false;  // the reverse pass reads it
  };

  const std::vector<int> ends_;
  std::vector<Value> values_;
  std::vector<int> places_;               // nodes to cut after, in order; the last ends the pass
  std::vector<std::vector<Cost>> costs_;  // by a segment's end and begin, see cost()
};

}  // namespace psgd
