#include <variant>

#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {
namespace {

// Channels-last images as a matrix with a column a channel.
struct Columns {
  int64_t rows, columns;
};
Columns ColumnsOf(const Shape& x) { return {ElementCount(x) / x[1], x[1]}; }

// What a batch norm normalizes, and by what.
struct NormTensors {
  TensorId x, gamma, beta, mean, var;  // beta may be kNoTensor
  float epsilon;
};
NormTensors TensorsOf(const BatchNorm& op, const Node& node) {
  return {node.inputs[0],  node.inputs[1],  node.inputs[2],
          node.outputs[1], node.outputs[2], op.epsilon};
}
NormTensors TensorsOf(const BatchNormInference& op, const Node& node) {
  return {node.inputs[0], node.inputs[1], node.inputs[2],
          node.inputs[3], node.inputs[4], op.epsilon};
}
NormTensors TensorsOf(const Node& node) {
  const auto* training = std::get_if<BatchNorm>(&node.op);
  return training != nullptr ? TensorsOf(*training, node)
                             : TensorsOf(std::get<BatchNormInference>(node.op), node);
}

struct NormViews {
  View gamma, beta, mean, var;
  float epsilon;

  Normalization In(const Buffers& b) const {
    const float* of_beta = beta.buffer == kNoBuffer ? nullptr : cudnn::In(b, beta);
    return {cudnn::In(b, gamma), of_beta, cudnn::In(b, mean), cudnn::In(b, var), epsilon};
  }
};
NormViews ViewsOf(const NormTensors& of, Lowering& l) {
  const View beta = of.beta == kNoTensor ? View() : l.Get(of.beta, kPlainFloat);
  return {l.Get(of.gamma, kPlainFloat), beta, l.Get(of.mean, kPlainFloat),
          l.Get(of.var, kPlainFloat), of.epsilon};
}

// Puts mean, variance and the changes of the running statistics.
void PutStatistics(const BatchNorm& op, const Context& c) {
  Lowering& l = c.lowering;
  const auto [rows, columns] = ColumnsOf(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0));
  const View running_mean = l.Get(c.in(3), kPlainFloat), running_var = l.Get(c.in(4), kPlainFloat);
  const View mean = l.Put(c.out(1), kPlainFloat), var = l.Put(c.out(2), kPlainFloat);
  const View mean_delta = l.Put(c.out(3), kPlainFloat), var_delta = l.Put(c.out(4), kPlainFloat);
  const BufferId partial = l.Temporary(ColumnPartials(rows, columns, 2) * sizeof(float));
  l.CallKernel([=, stream = l.stream(), type = l.type(), rows = rows, columns = columns](
                   const Buffers& b, const Step&) {
    const BatchNormRunning running = {In(b, running_mean), In(b, running_var), Out(b, mean_delta),
                                      Out(b, var_delta)};
    return BatchNormStatistics(stream, type, rows, columns, b[x.buffer], op.momentum, running,
                               static_cast<float*>(b[partial]), Out(b, mean), Out(b, var));
  });
}

// What is added to the result of a batch norm.
struct AddedTensor {
  TensorId tensor = kNoTensor;  // kNoTensor: nothing
  const Node* norm = nullptr;   // the batch norm to which the tensor goes first; null: none
};

// Puts y.
void PutNormalized(const NormTensors& of, const AddedTensor& added, bool relu, TensorId y,
                   Lowering& l) {
  const auto [rows, columns] = ColumnsOf(l.shape(of.x));
  const View x = l.GetUsual(of.x);
  const NormViews by = ViewsOf(of, l);
  View other;
  NormViews other_by = {};
  if (added.tensor != kNoTensor) other = l.GetUsual(added.tensor);
  if (added.norm != nullptr) other_by = ViewsOf(TensorsOf(*added.norm), l);
  const View result = l.PutUsual(y);
  l.CallKernel([=, stream = l.stream(), type = l.type(), rows = rows, columns = columns](
                   const Buffers& b, const Step&) {
    Following following = {.relu = relu};
    if (other.buffer != kNoBuffer) following.added = b[other.buffer];
    if (other_by.mean.buffer != kNoBuffer) following.added_by = other_by.In(b);
    return BatchNormApply(stream, type, rows, columns, b[x.buffer], by.In(b), following,
                          b[result.buffer]);
  });
}

// Puts the gradients of gamma, beta and x. With beta, `gradient` is that of the relu behind.
void PutGradients(const NormTensors& of, TensorId gradient, const Context& c) {
  Lowering& l = c.lowering;
  const auto [rows, columns] = ColumnsOf(l.shape(c.in(0)));
  const View x = l.GetUsual(of.x), dy = l.GetUsual(gradient);
  const NormViews by = ViewsOf(of, l);
  const View dgamma = l.Put(c.out(0), kPlainFloat), dbeta = l.Put(c.out(1), kPlainFloat);
  const BufferId partial = l.Temporary(ColumnPartials(rows, columns, 2) * sizeof(float));
  l.CallKernel([=, stream = l.stream(), type = l.type(), rows = rows, columns = columns](
                   const Buffers& b, const Step&) {
    return BatchNormSums(stream, type, rows, columns, b[x.buffer], b[dy.buffer], by.In(b),
                         static_cast<float*>(b[partial]), Out(b, dgamma), Out(b, dbeta));
  });
  if (!c.has_out(2)) return;
  const View dx = l.PutUsual(c.out(2));
  l.CallKernel([=, stream = l.stream(), type = l.type(), rows = rows, columns = columns](
                   const Buffers& b, const Step&) {
    return BatchNormGradient(stream, type, rows, columns, b[x.buffer], b[dy.buffer], by.In(b),
                             In(b, dgamma), In(b, dbeta), b[dx.buffer]);
  });
}

// What the chain adds to the result of its first node.
AddedTensor AddedBy(const Chain& chain, const Lowering& l) {
  const TensorId own = l.node(chain.nodes.front()).outputs[0];
  const Node& second = l.node(chain.nodes[1]);
  if (std::holds_alternative<Relu>(second.op)) return {};
  if (!std::holds_alternative<Sum>(second.op)) return {second.inputs[0], &second};
  return {second.inputs[second.inputs[0] == own ? 1 : 0]};
}

}  // namespace

void Lower(const BatchNorm& op, const Context& c) {
  PutStatistics(op, c);
  PutNormalized(TensorsOf(op, c.node), {}, /*relu=*/false, c.out(0), c.lowering);
}

void Lower(const BatchNormInference& op, const Context& c) {
  PutNormalized(TensorsOf(op, c.node), {}, /*relu=*/false, c.out(0), c.lowering);
}

void Lower(const BatchNormBackward& op, const Context& c) {
  PutGradients({c.in(0), c.in(1), kNoTensor, c.in(2), c.in(3), op.forward.epsilon}, c.in(4), c);
}

void LowerNormChain(const Chain& chain, const Context& c) {
  Lowering& l = c.lowering;
  const Node& first = l.node(chain.nodes.front());
  if (!c.IsLastOf(chain)) {
    const auto* norm = std::get_if<BatchNorm>(&c.node.op);
    if (norm == nullptr) return;
    l.SetWork({l.index()});
    PutStatistics(*norm, c);
    return;
  }
  l.SetWork(chain.nodes);
  if (std::holds_alternative<BatchNormBackward>(c.node.op)) {
    PutGradients(TensorsOf(l.node(chain.norm)), first.inputs[1], c);
    return;
  }
  PutNormalized(TensorsOf(first), AddedBy(chain, l), std::holds_alternative<Relu>(c.node.op),
                c.out(0), l);
}

}  // namespace psgd::cudnn
