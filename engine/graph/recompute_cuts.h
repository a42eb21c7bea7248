// Where to cut a forward pass that is to be recomputed.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/graph/graph.h"

namespace psgd {

// A differentiated graph as a list of places to cut. Everything that lives from before a cut to
// after it has to be kept, so good places are those where few bytes cross: between the blocks of a
// residual network or a transformer.
class CutPlaces {
 public:
  CutPlaces(const Graph& graph, size_t forward_nodes);

  int most_segments() const { return static_cast<int>(places_.size()); }
  // The last node of each segment but the last one, so that the peak of the kept and recomputed
  // bytes is as low as it gets: in exactly so many segments, or in any number of them where
  // `segments` is 0. REQUIRES: segments <= most_segments().
  std::vector<int> Choose(int segments) const;

 private:
  // What it costs to have a segment from one place to another.
  struct Cost {
    double inside = 0;  // bytes that its reverse pass needs and that no cut keeps
    double kept = 0;    // bytes that the cut at its end adds to what is kept
  };

  void FindPlaces(size_t forward_nodes);
  void MeasureSegments();
  // The costs of segments that end at place `end`, one for each place that may be before them.
  const Cost& cost(size_t begin, size_t end) const { return costs_[end][begin]; }
  // The cuts that keep the peak within the bound, and keep least; empty places where there are
  // none.
  bool Within(double bound, int segments, std::vector<int>* cuts) const;

  struct Value {  // that the forward pass makes
    double bytes = 0;
    int made = 0;        // by this node
    int used = 0;        // last, by this node of the forward pass
    bool saved = false;  // the reverse pass reads it
  };

  std::vector<Value> values_;
  std::vector<int> places_;               // nodes after which to cut, in order; the last is the end
  std::vector<std::vector<Cost>> costs_;  // by the end and the begin of a segment, 0: the start
};

}  // namespace psgd
