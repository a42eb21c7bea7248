#include "engine/graph/recompute.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/graph/recompute_cuts.h"

namespace psgd {
namespace {

// Inserts copies of forward nodes into the reverse pass.
class Rewriting {
 public:
  Rewriting(const std::vector<int>& cuts, size_t forward_nodes, Graph* graph)
      : cuts_(cuts),
        forward_nodes_(forward_nodes),
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
    return std::lower_bound(cuts_.begin(), cuts_.end(), node) - cuts_.begin();
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
    for (size_t node = graph_->nodes.size(); node-- > 0;) {
      if (node < forward_nodes_ && !needed_[node]) continue;
      for (TensorId input : graph_->nodes[node].inputs) {
        if (Dropped(input)) needed_[maker_[input]] = true;
      }
    }
  }

  void ComputeAgain(size_t segment) {
    if (done_[segment]) return;
    done_[segment] = true;
    const int first = segment == 0 ? 0 : cuts_[segment - 1] + 1;
    for (int i = first; i <= cuts_[segment]; ++i) {
      if (!needed_[i]) continue;
      Node node = graph_->nodes[i];
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

  const std::vector<int>& cuts_;
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
  Rewriting(cuts, forward_nodes, graph).Run();
  return absl::OkStatus();
}

}  // namespace psgd
