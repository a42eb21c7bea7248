#include "engine/graph/recompute.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/graph/recompute_cuts.h"

namespace psgd {
namespace {

// Inserts copies of forward nodes into the reverse pass.
class Rewriting {
 public:
  Rewriting(const std::vector<int>& cuts, const std::vector<int>& ends, Graph* graph)
      : cuts_(cuts),
        ends_(ends),
        forward_nodes_(ends.size()),
        graph_(graph),
        maker_(graph->tensors.size(), -1),
        dropped_(graph->tensors.size()),
        again_(graph->tensors.size(), kNoTensor),
        done_(cuts.size()) {}

  void Run() {
    FindDropped();
    FindNeeded();
    std::vector<Node> reverse(graph_->nodes.begin() + static_cast<std::ptrdiff_t>(forward_nodes_),
                              graph_->nodes.end());
    graph_->nodes.resize(forward_nodes_);
    for (Node& node : reverse) {
      for (TensorId& input : node.inputs) {
        if (!Dropped(input)) continue;
        ComputeAgain(SegmentOf(maker_[input]));
        input = again_[input];
      }
      graph_->nodes.push_back(std::move(node));
    }
  }

 private:
  size_t SegmentOf(int node) const {
    return std::lower_bound(cuts_.begin(), cuts_.end(), ends_[node]) - cuts_.begin();
  }
  // Tensors that the rewriting itself adds are never dropped.
  bool Dropped(TensorId tensor) const {
    return static_cast<size_t>(tensor) < dropped_.size() && dropped_[tensor];
  }

  // Finds the values that no later segment reads, in all segments but the last.
  void FindDropped() {
    for (size_t node = 0; node < forward_nodes_; ++node) {
      const size_t segment = SegmentOf(static_cast<int>(node));
      for (TensorId input : graph_->nodes[node].inputs) {
        if (maker_[input] >= 0 && SegmentOf(maker_[input]) != segment) dropped_[input] = false;
      }
      for (TensorId output : graph_->nodes[node].outputs) {
        maker_[output] = static_cast<int>(node);
        dropped_[output] = segment < cuts_.size() && !graph_->tensors[output].external;
      }
    }
  }

  // Finds the forward nodes whose dropped results the reverse pass reads, and their dependencies.
  void FindNeeded() {
    needed_.resize(forward_nodes_);
    for (size_t node = forward_nodes_; node < graph_->nodes.size(); ++node) NeedInputsOf(node);
    // A backend computes an attention whole or not at once, so its end is needed too, even if a cut
    // keeps the result.
    for (size_t node = 0; node < forward_nodes_; ++node) {
      if (!std::holds_alternative<Softmax>(graph_->nodes[node].op)) continue;
      if (needed_[node]) needed_[ends_[node]] = true;
    }
    for (size_t node = forward_nodes_; node-- > 0;) {
      if (needed_[node]) NeedInputsOf(node);
    }
  }
  void NeedInputsOf(size_t node) {
    for (TensorId input : graph_->nodes[node].inputs) {
      if (Dropped(input)) needed_[maker_[input]] = true;
    }
  }

  void ComputeAgain(size_t segment) {
    if (done_[segment]) return;
    done_[segment] = true;
    for (int i = 0; i <= cuts_[segment]; ++i) {
      if (!needed_[i] || SegmentOf(i) != segment) continue;
      Node node = graph_->nodes[i];
      node.again_of = i;
      absl::StrAppend(&node.name, " (again)");
      for (TensorId& input : node.inputs) {
        if (Dropped(input)) input = again_[input];
      }
      for (TensorId& output : node.outputs) {
        const Tensor& tensor = graph_->tensors[output];
        again_[output] =
            graph_->AddTensor(absl::StrCat(tensor.name, " (again)"), tensor.shape, tensor.element);
        output = again_[output];
      }
      graph_->nodes.push_back(std::move(node));
    }
  }

  const std::vector<int>&cuts_, &ends_;
  const size_t forward_nodes_;
  Graph* const graph_;
  std::vector<int> maker_;       // by tensor: the forward node, or -1
  std::vector<bool> dropped_;    // by tensor: the reverse pass cannot read it
  std::vector<TensorId> again_;  // by tensor: its copy
  std::vector<bool> needed_;     // by forward node: computed again
  std::vector<bool> done_;       // by segment
};

}  // namespace

absl::Status Recompute(int segments, size_t forward_nodes, Graph* graph) {
  if (segments == kRecomputeNothing) return absl::OkStatus();
  if (segments < kRecomputeAuto) {
    return InvalidArgumentError("model.recompute is ", segments,
                                "; it must be at least 0, or auto");
  }
  if (segments == 1) {
    return absl::InvalidArgumentError(
        "model.recompute: one segment is the whole network, of which nothing is recomputed; say "
        "auto, or 2 or more");
  }
  const CutPlaces places(*graph, forward_nodes);
  if (segments > places.most_segments()) {
    return InvalidArgumentError("model.recompute: this network can be cut into at most ",
                                places.most_segments(), " segments, not into ", segments);
  }
  const std::vector<int> cuts = places.Choose(std::max(0, segments));
  Rewriting(cuts, places.ends(), graph).Run();
  return absl::OkStatus();
}

Graph WithoutCopies(Graph graph) {
  std::vector<TensorId> first(graph.tensors.size());  // by tensor: what it is without copies
  std::iota(first.begin(), first.end(), 0);
  for (Node& node : graph.nodes) {
    if (node.again_of >= 0) {
      const std::vector<TensorId>& outputs = graph.nodes[node.again_of].outputs;
      for (size_t i = 0; i < outputs.size(); ++i) first[node.outputs[i]] = outputs[i];
      node = {.op = Constant()};
    }
    for (TensorId& input : node.inputs) input = first[input];
  }
  return graph;
}

std::vector<int> FindCopies(const Graph& graph) {
  std::vector<int> copies(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (const int first = graph.nodes[i].again_of; first >= 0) copies[first] = static_cast<int>(i);
  }
  return copies;
}

}  // namespace psgd
