#include "engine/cudnn/attention.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace psgd::cudnn {
namespace {

AttentionProblem ProblemOf(const AttentionPattern& pattern, AttentionProblem::Pass pass,
                           Type type) {
  AttentionProblem problem = {.pass = pass,
                              .type = type,
                              .queries = pattern.queries,
                              .keys = pattern.keys,
                              .values = pattern.values,
                              .causal = pattern.causal,
                              .lengths = pattern.lengths != kNoTensor,
                              .scale = pattern.scale};
  const int tensors = pass == AttentionProblem::Pass::kForward ? kOfResult : kAttentionTensors;
  for (int i = 0; i < tensors; ++i) {
    problem.places_first[i] = pattern.operands[i].places_first;
  }
  return problem;
}

// What ClearPadding clears. Of keys and values: the places from the length on. Of queries and the
// result: all, where the length is 0, so they count as one place.
PaddedShape PaddedShapeOf(const Lowering& l, const AttentionPattern& pattern,
                          AttentionTensor name) {
  const AttentionPattern::Operand& operand = pattern.operands[name];
  const bool of_keys = name == kOfKeys || name == kOfValues;
  const int64_t samples = pattern.keys[0];
  PaddedShape shape = {samples, 1, 1, l.elements(operand.tensor) / samples};
  if (of_keys) {
    shape.heads = operand.places_first ? 1 : pattern.keys[1];
    shape.places = pattern.keys[2];
    shape.width /= shape.heads * shape.places;
  }
  return shape;
}

// Whether cuDNN has plans for both or for none.
bool AreAlike(const AttentionPattern& a, const AttentionPattern& b) {
  return a.queries == b.queries && a.keys == b.keys && a.values == b.values &&
         a.causal == b.causal && (a.lengths == kNoTensor) == (b.lengths == kNoTensor);
}

}  // namespace

absl::StatusOr<std::shared_ptr<FusedAttention>> AttentionPlans::Find(
    const Device& device, const AttentionProblem& problem, bool plan_only) {
  for (const auto& [known, plan] : known_) {
    if (known == problem) return plan;
  }
  Found plan = FusedAttention::Plan(device, problem, plan_only);
  if (!plan.ok() && !absl::IsUnimplemented(plan.status())) return plan.status();
  return known_.emplace_back(problem, std::move(plan)).second;
}

absl::Status Attentions::Plan(const Graph& graph, const Device& device, Type type, bool plan_only,
                              AttentionPlans* plans) {
  of_node_.resize(graph.nodes.size());
  int others = 0;
  std::vector<AttentionPattern> patterns = FindAttentions(graph, &others);
  if (others > 0) {
    refused_["they are of another form (docs/engine.md)"] = others;
  }
  const auto trained = [](const AttentionPattern& of) { return !of.backward.empty(); };
  std::ranges::stable_partition(patterns, trained);
  const bool training = !patterns.empty() && trained(patterns.front());
  std::vector<const AttentionPattern*> refused;
  for (AttentionPattern& pattern : patterns) {
    auto attention = std::make_shared<Attention>();
    const auto plan = [&](Pass pass, std::shared_ptr<FusedAttention>* to) -> absl::Status {
      PSGD_ASSIGN_OR_RETURN(*to, plans->Find(device, ProblemOf(pattern, pass, type), plan_only));
      return absl::OkStatus();
    };
    const bool has_gradients = trained(pattern);
    // The backward pass may compute an attention again. That copy has the gradients. Both must give
    // the same bits, so the first gets a plan only if the copy has one.
    const auto is_like = [&](const AttentionPattern* other) { return AreAlike(pattern, *other); };
    if (!has_gradients && std::ranges::any_of(refused, is_like)) continue;
    // First gradients, because they are refused more often.
    absl::Status planned = absl::OkStatus();
    if (has_gradients) planned = plan(Pass::kBackward, &attention->backward);
    if (planned.ok()) planned = plan(Pass::kForward, &attention->forward);
    if (!planned.ok() && !absl::IsUnimplemented(planned)) return planned;
    const bool counts = has_gradients == training;
    if (!planned.ok()) {
      refused.push_back(&pattern);
      if (counts) ++refused_[std::string(planned.message())];
      continue;
    }
    if (counts) ++planned_;
    for (auto* const nodes : {&pattern.forward, &pattern.backward}) {
      std::ranges::sort(*nodes);
      for (const int node : *nodes) of_node_[node] = attention;
    }
    attention->pattern = std::move(pattern);
  }
  return absl::OkStatus();
}

std::string Attentions::Note() const {
  int all = planned_;
  std::string others;
  for (const auto& [reason, count] : refused_) {
    all += count;
    absl::StrAppend(&others, "; ", count, " by products and softmax: ", reason);
  }
  if (all == 0) return {};
  return absl::StrCat("attention: ", planned_, " of ", all, " as one cuDNN plan a pass", others);
}

bool Attentions::Lower(const Context& c) {
  if (of_node_.empty()) return false;
  const int node = c.lowering.index();
  Attention* const attention = of_node_[node].get();
  if (attention == nullptr) return false;
  if (node == attention->pattern.forward_at) LowerPass(Pass::kForward, c, attention);
  if (node == attention->pattern.backward_at) LowerPass(Pass::kBackward, c, attention);
  return true;
}

void Attentions::LowerPass(Pass pass, const Context& c, Attention* attention) {
  Lowering& l = c.lowering;
  const AttentionPattern& pattern = attention->pattern;
  const bool forward = pass == Pass::kForward;
  std::array<BufferId, kAttentionBuffers> buffers;
  buffers.fill(kNoBuffer);
  const auto get = [&](AttentionTensor name) {
    buffers[name] = l.Get(pattern.operands[name].tensor, l.PlainFormat()).buffer;
  };
  const auto put = [&](AttentionTensor name) {
    buffers[name] = l.Put(pattern.operands[name].tensor, l.PlainFormat()).buffer;
  };
  const size_t sum_bytes = ElementCount(pattern.queries) / pattern.queries[3] * sizeof(float);
  for (const auto name : {kQueries, kKeys, kValues}) get(name);
  if (forward) {
    put(kResult);
    attention->log_sums = l.Temporary(sum_bytes);
  } else {
    for (const auto name : {kResult, kOfResult}) get(name);
    for (const auto name : {kOfQueries, kOfKeys, kOfValues}) put(name);
    buffers[kResultSums] = l.Temporary(sum_bytes);
    l.UseAgain(attention->log_sums);
  }
  buffers[kLogSums] = attention->log_sums;
  const std::shared_ptr<FusedAttention> plan = forward ? attention->forward : attention->backward;
  const bool padded = pattern.lengths != kNoTensor;
  const BufferId lengths = padded ? l.Native(pattern.lengths).buffer : kNoBuffer;
  if (plan->reads_lengths()) {
    // Each pass makes the lengths again. A pass that is timed alone may find any numbers in
    // `lengths`. This kernel limits them, or cuDNN would read outside of its memory.
    const int64_t samples = pattern.keys[0];
    for (const int name : {kQueryLengths, kKeyLengths}) {
      buffers[name] = l.Temporary(samples * sizeof(int32_t));
    }
    l.Run(LengthsOfAttention, samples, pattern.queries[2], pattern.keys[2], lengths,
          buffers[kQueryLengths], buffers[kKeyLengths]);
  }
  const BufferId workspace = l.Temporary(plan->workspace_bytes());
  l.SetWork(forward ? pattern.forward : pattern.backward);
  l.Call([=, device = l.device()](const Buffers& b, const Step&) {
    AttentionMemory memory = {};
    for (int i = 0; i < kAttentionBuffers; ++i) {
      if (buffers[i] != kNoBuffer) memory[i] = b[buffers[i]];
    }
    return plan->Run(*device, memory, b[workspace]);
  });
  if (!padded) return;
  using Names = std::vector<AttentionTensor>;
  for (const AttentionTensor name :
       forward ? Names{kResult} : Names{kOfQueries, kOfKeys, kOfValues}) {
    l.Run(ClearPadding, l.type(), PaddedShapeOf(l, pattern, name), lengths, buffers[name]);
  }
}

}  // namespace psgd::cudnn
