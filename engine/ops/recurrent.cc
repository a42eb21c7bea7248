#include "engine/ops/recurrent.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddRecurrent(Graph* graph, const std::string& name, const Recurrent& op,
                                      TensorId x, const RecurrentParameters& p) {
  const Shape in = graph->shape(x), w = graph->shape(p.weight_hh);
  const int64_t hidden = w.size() == 2 ? w[1] : 0, rows = op.gates() * hidden;
  if (in.size() != 3 || w != Shape{rows, hidden} ||
      graph->shape(p.weight_ih) != Shape{rows, in[2]} || graph->shape(p.bias_ih) != Shape{rows} ||
      graph->shape(p.bias_hh) != Shape{rows}) {
    return InvalidArgumentError(name, ": weights ", ShapeText(graph->shape(p.weight_ih)), " and ",
                                ShapeText(w), " of ", op.gates(), " gates do not fit ",
                                ShapeText(in), " (sample, step, value)");
  }
  const TensorId y = graph->AddTensor(name, {in[0], in[1], hidden});
  const TensorId saved = graph->AddTensor(name + ".saved", {in[0], in[1], op.saved() * hidden});
  graph->AddNode(name, op, {x, p.weight_ih, p.weight_hh, p.bias_ih, p.bias_hh}, {y, saved});
  return y;
}

void AddGradient(const Recurrent& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  const TensorId x = node.inputs[0];
  std::vector<TensorId> outputs;
  for (int i = 1; i < 5; ++i) {
    outputs.push_back(tape->NewGradient(node.inputs[i]));
    tape->Contribute(node.inputs[i], outputs.back());
  }
  if (tape->Wanted(x)) {
    outputs.push_back(tape->NewGradient(x));
    tape->Contribute(x, outputs.back());
  }
  tape->graph().AddNode(node.name + ".backward", RecurrentBackward{op},
                        {x, node.inputs[1], node.inputs[2], node.outputs[0], node.outputs[1], dy},
                        std::move(outputs));
}

}  // namespace psgd
