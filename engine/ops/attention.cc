#include "engine/ops/attention.h"

#include <cmath>

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddAttention(Graph* graph, const std::string& name, const Attention& op,
                                      TensorId q, TensorId k, TensorId v, TensorId lengths) {
  if (graph->shape(q).size() != 4) {
    return InvalidArgumentError(name, ": queries of ", ShapeText(graph->shape(q)),
                                " are not sample, head, place and value");
  }
  const float scale = 1 / std::sqrt(static_cast<float>(graph->shape(q)[3]));
  PSGD_ASSIGN_OR_RETURN(
      const TensorId scores,
      AddMatMul(graph, name + ".scores", {.transpose_b = true, .scale = scale}, q, k));
  PSGD_ASSIGN_OR_RETURN(const TensorId weights, AddSoftmax(graph, name + ".weights",
                                                           {.causal = op.causal}, scores, lengths));
  return AddMatMul(graph, name, {}, weights, v);
}

}  // namespace psgd
