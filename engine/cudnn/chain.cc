#include "engine/cudnn/chain.h"

#include <algorithm>
#include <utility>

#include "engine/cudnn/neighbours.h"
#include "engine/graph/recompute_cuts.h"

namespace psgd::cudnn {
namespace {

class Finder {
 public:
  explicit Finder(const Graph& graph)
      : graph_(graph), neighbours_(graph), taken_(graph.nodes.size()) {}

  std::vector<Chain> Find() {
    for (int i = 0; i < count(); ++i) {
      if (IsNorm(i)) TakeNormalized(i);
    }
    for (int i = 0; i < count(); ++i) {
      if (Is<ReluBackward>(i)) TakeMasked(i);
    }
    for (int i = 0; i < count(); ++i) {
      if (IsFreeSum(i)) TakeSum(i);
      if (Is<Conv2d>(i) || Is<Dense>(i)) TakeLayer(i);
    }
    for (int i = 0; i < count(); ++i) {
      if (Is<Sum>(i) && !taken_[i]) TakeProducts(i);
    }
    return std::move(chains_);
  }

 private:
  int count() const { return static_cast<int>(graph_.nodes.size()); }
  template <typename AnyOp>
  bool Is(int node) const {
    return neighbours_.Is<AnyOp>(node);
  }
  bool IsNorm(int node) const { return Is<BatchNorm>(node) || Is<BatchNormInference>(node); }
  bool IsFreeSum(int node) const {
    return Is<Sum>(node) && !taken_[node] && graph_.nodes[node].inputs.size() == 2;
  }
  // The only reader of the node's first result.
  int OnlyReader(int node) const { return neighbours_.OnlyReaderOf(graph_.nodes[node].outputs[0]); }
  void Take(Chain chain) {
    for (int node : chain.nodes) taken_[node] = true;
    chains_.push_back(std::move(chain));
  }

  void TakeNormalized(int norm) {
    if (taken_[norm]) return;
    Chain chain = {{norm}};
    if (const int sum = OnlyReader(norm); IsFreeSum(sum)) {
      for (const TensorId term : graph_.nodes[sum].inputs) {
        // It comes later: an earlier one has taken the sum.
        const int other = neighbours_.WriterOf(term);
        if (other != norm && IsNorm(other) && OnlyReader(other) == sum) {
          chain.nodes.push_back(other);
        }
      }
      chain.nodes.push_back(sum);
    }
    if (const int relu = OnlyReader(chain.nodes.back()); Is<Relu>(relu)) {
      chain.nodes.push_back(relu);
    }
    if (chain.nodes.size() > 1) Take(std::move(chain));
  }

  void TakeMasked(int relu_backward) {
    const int norm_backward = OnlyReader(relu_backward);
    if (!Is<BatchNormBackward>(norm_backward)) return;
    // The kernel normalizes x again, so all that it needs for that must be at hand.
    const int relu = neighbours_.WriterOf(graph_.nodes[relu_backward].inputs[0]);
    if (!Is<Relu>(relu)) return;
    const int norm = neighbours_.WriterOf(graph_.nodes[relu].inputs[0]);
    if (!Is<BatchNorm>(norm)) return;
    const Node &forward = graph_.nodes[norm], &backward = graph_.nodes[norm_backward];
    const bool same = backward.inputs[0] == forward.inputs[0] &&   // x
                      backward.inputs[1] == forward.inputs[1] &&   // gamma
                      backward.inputs[2] == forward.outputs[1] &&  // mean
                      backward.inputs[3] == forward.outputs[2];    // var
    if (same) Take({{relu_backward, norm_backward}, norm});
  }

  void TakeSum(int sum) {
    const int reader = OnlyReader(sum);
    const bool gradient = Is<ReluBackward>(reader) && !taken_[reader] &&
                          graph_.nodes[reader].inputs[1] == graph_.nodes[sum].outputs[0];
    if (Is<Relu>(reader) || gradient) Take({{sum, reader}});
  }

  void TakeLayer(int layer) {
    const bool has_bias = graph_.nodes[layer].inputs.size() > 2;
    Chain chain = {{layer}};
    int reader = OnlyReader(layer);
    for (; Is<Dense>(layer) && Is<Reshape>(reader); reader = OnlyReader(reader)) {
      chain.nodes.push_back(reader);
    }
    chain.nodes.push_back(reader);
    const bool runs_at_once = Is<Conv2d>(layer) || MayFuse(layer, reader);
    if (has_bias && Is<Relu>(reader) && runs_at_once) Take(std::move(chain));
  }

  // The product that makes the term of the sum, and its Reshapes, if nothing else needs them;
  // otherwise nothing.
  std::vector<int> ProductFor(int sum, TensorId term) const {
    std::vector<int> nodes;
    int reader = sum;
    while (neighbours_.OnlyReaderOf(term) == reader) {
      const int node = neighbours_.WriterOf(term);
      nodes.push_back(node);
      if (Is<DenseBackwardData>(node) || (Is<Dense>(node) && MayFuse(node, sum))) return nodes;
      if (!Is<Reshape>(node)) break;
      term = graph_.nodes[node].inputs[0];
      reader = node;
    }
    return {};
  }

  void TakeProducts(int sum) {
    // A sum that leaves the graph is converted after its first write, before other products add to
    // it.
    if (graph_.tensors[graph_.nodes[sum].outputs[0]].external) return;
    Chain chain = {{sum}};
    for (const TensorId term : graph_.nodes[sum].inputs) {
      const std::vector<int> product = ProductFor(sum, term);
      chain.nodes.insert(chain.nodes.end(), product.begin(), product.end());
      if (!product.empty()) continue;
      if (chain.other != kNoTensor) return;
      chain.other = term;
    }
    std::ranges::sort(chain.nodes);
    const bool exists =
        chain.other == kNoTensor || neighbours_.WriterOf(chain.other) < chain.nodes.front();
    if (chain.nodes.size() > 1 && exists) Take(std::move(chain));
  }

  const Graph& graph_;
  const Neighbours neighbours_;
  std::vector<bool> taken_;  // by node
  std::vector<Chain> chains_;
};

}  // namespace

std::vector<Chain> FindChains(const Graph& graph) { return Finder(graph).Find(); }

}  // namespace psgd::cudnn
