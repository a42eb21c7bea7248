#include "engine/graph/recompute_cuts.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <variant>

namespace psgd {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double BytesOf(const Tensor& tensor) {
  // Opaque tensors mostly take a byte an element, as dropout masks do.
  const double width = tensor.element == Element::kOpaque ? 1 : sizeof(float);
  return width * static_cast<double>(ElementCount(tensor.shape));
}

template <typename... Ops>
bool IsAnyOf(const Node& node) {
  return (std::holds_alternative<Ops>(node.op) || ...);
}

// Whether a backend may compute both nodes at once if no other reads what passes between them:
// parts of an attention, with the transposes of its heads, or a product that is added to a residual
// or clamped. `input`: the place of that value among the inputs.
bool MayRunAtOnce(const Graph& graph, int maker, int user, size_t input) {
  const Node &made_by = graph.nodes[maker], &used_by = graph.nodes[user];
  if (IsAnyOf<Dense>(made_by)) return IsAnyOf<Sum, Relu>(used_by) && MayFuse(maker, user);
  if (IsAnyOf<MatMul>(made_by)) return IsAnyOf<Softmax>(used_by) && input == 0;
  return IsAnyOf<Softmax, Transpose>(made_by) && IsAnyOf<MatMul>(used_by);
}

}  // namespace

CutPlaces::CutPlaces(const Graph& graph, size_t forward_nodes) {
  std::vector<int> value_of(graph.tensors.size(), -1);
  for (size_t node = 0; node < forward_nodes; ++node) {
    const Node& at = graph.nodes[node];
    for (size_t i = 0; i < at.inputs.size(); ++i) {
      if (value_of[at.inputs[i]] < 0) continue;
      Value& value = values_[value_of[at.inputs[i]]];
      value.used = static_cast<int>(node);
      if (IsAnyOf<Reshape>(at)) continue;
      const bool together = value.ends_attention || MayRunAtOnce(graph, value.made, value.used, i);
      value.inner = ++value.users == 1 && together;
    }
    const int first = at.inputs.empty() ? -1 : value_of[at.inputs[0]];
    const bool ends_attention =
        first >= 0 &&
        ((IsAnyOf<MatMul>(at) && IsAnyOf<Softmax>(graph.nodes[values_[first].made])) ||
         (IsAnyOf<Transpose>(at) && values_[first].ends_attention));
    for (TensorId output : at.outputs) {
      if (graph.tensors[output].external) continue;
      // A reshaped value shares the memory.
      if (IsAnyOf<Reshape>(at) && first >= 0) {
        value_of[output] = first;
        continue;
      }
      value_of[output] = static_cast<int>(values_.size());
      const int made = static_cast<int>(node);
      values_.push_back({.bytes = BytesOf(graph.tensors[output]),
                         .made = made,
                         .used = made,
                         .ends_attention = ends_attention});
    }
  }
  for (size_t node = forward_nodes; node < graph.nodes.size(); ++node) {
    for (TensorId input : graph.nodes[node].inputs) {
      if (value_of[input] >= 0) values_[value_of[input]].saved = true;
    }
  }
  FindPlaces(forward_nodes);
  MeasureSegments();
}

// A place is a local minimum of the bytes that cross it.
void CutPlaces::FindPlaces(size_t forward_nodes) {
  std::vector<double> crossing(forward_nodes + 1);
  std::vector<bool> divides(forward_nodes);
  for (const Value& value : values_) {
    crossing[value.made] += value.bytes;
    crossing[value.used] -= value.bytes;
    if (value.inner) std::fill(divides.begin() + value.made, divides.begin() + value.used, true);
  }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
  for (size_t node = 0; node + 1 < forward_nodes; ++node) {
    const double before = node > 0 ? crossing[node - 1] : kNever;
    const double after = node + 2 < forward_nodes ? crossing[node + 1] : kNever;
    if (divides[node]) continue;
    if (crossing[node] > 0 && crossing[node] <= before && crossing[node] <= after) {
      places_.push_back(static_cast<int>(node));
    }
  }
  places_.push_back(static_cast<int>(forward_nodes) - 1);
}

void CutPlaces::MeasureSegments() {
  costs_.resize(places_.size());
  for (size_t end = 0; end < places_.size(); ++end) {
    // The loop below sums the costs of values over all places from `begin` on.
    std::vector<Cost> made(end + 1);  // by the first place at or after the value's node
    for (const Value& value : values_) {
      if (value.made > places_[end]) break;
      const auto place = std::lower_bound(places_.begin(), places_.end(), value.made);
      Cost& cost = made[place - places_.begin()];
      if (value.used > places_[end]) {
        cost.kept += value.bytes;
      } else if (value.saved) {
        cost.inside += value.bytes;
      }
    }
    costs_[end] = std::move(made);
    for (size_t begin = end; begin-- > 0;) {
      costs_[end][begin].kept += costs_[end][begin + 1].kept;
      costs_[end][begin].inside += costs_[end][begin + 1].inside;
    }
  }
}

// In a segment the reverse pass needs the values that the cuts up to its end keep, and the inside
// of the segment. Fewer kept bytes up to a place are better for all that follows, so dynamic
// programming from the front finds the cheapest way to each place. Ways of equal cost differ in
// what is computed again. Late cuts are better, but an early last cut: nothing after it is computed
// again.
bool CutPlaces::Within(double bound, int segments, std::vector<int>* cuts) const {
  const size_t ends = places_.size();
  const size_t rounds = segments > 0 ? segments : 1;
  // kept[r][p]: the fewest bytes kept by r segments (any number if `segments` is 0) that end at
  // place p - 1.
  std::vector<std::vector<double>> kept(rounds + 1, std::vector<double>(ends + 1, kNever));
  std::vector<std::vector<size_t>> from(rounds + 1, std::vector<size_t>(ends + 1));
  kept[0][0] = 0;
  if (segments == 0) kept[1][0] = 0;
  for (size_t round = 1; round <= rounds; ++round) {
    const std::vector<double>& before = kept[segments > 0 ? round - 1 : round];
    for (size_t end = 0; end < ends; ++end) {
      for (size_t begin = 0; begin <= end; ++begin) {
        const Cost& segment = cost(begin, end);
        const double all = before[begin] + segment.kept;
        const double best = kept[round][end + 1];
        if (all + segment.inside > bound || all > best || (all == best && end + 1 == ends))
          continue;
        kept[round][end + 1] = all;
        from[round][end + 1] = begin;
      }
    }
  }
  if (kept[rounds][ends] == kNever) return false;
  cuts->clear();
  size_t round = rounds;
  for (size_t at = from[round][ends]; at > 0; at = from[round][at]) {
    cuts->push_back(places_[at - 1]);
    if (segments > 0) --round;
  }
  std::reverse(cuts->begin(), cuts->end());
  return true;
}

std::vector<int> CutPlaces::Choose(int segments) const {
  double low = 0, high = 0;
  for (const Value& value : values_) high += value.bytes;
  std::vector<int> cuts;
  Within(high, segments, &cuts);
  // A closer search is useless: the sums leave out more than a hundredth.
  while (high - low > 0.01 * high) {
    const double middle = (low + high) / 2;
    (Within(middle, segments, &cuts) ? high : low) = middle;
  }
  return cuts;
}

}  // namespace psgd
