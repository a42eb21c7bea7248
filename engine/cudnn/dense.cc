#include <variant>

#include "engine/cudnn/blas.h"

namespace psgd::cudnn {
namespace {

struct Product {
  Matrix a, b;
  TensorId bias = kNoTensor;
};

Product ProductOf(const Dense&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(0))[0], inputs = l.shape(c.in(0))[1];
  const int64_t outputs = l.shape(c.in(1))[0];
  const View x = l.GetUsual(c.in(0)), w = l.GetUsual(c.in(1));
  return {{x, batch, inputs}, {w, outputs, inputs, true}, c.has_in(2) ? c.in(2) : kNoTensor};
}

Product ProductOf(const DenseBackwardData&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(1))[0], outputs = l.shape(c.in(0))[0];
  const int64_t inputs = l.shape(c.in(0))[1];
  const View w = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(1));
  return {{dy, batch, outputs}, {w, outputs, inputs}};
}

// Writes the product of the node, plus `added`, to `to`.
void PutProduct(const Product& product, const Context& c, BufferId added, const View& to,
                bool relu = false) {
  const Shape& shape = c.lowering.shape(c.out(0));
  MultiplyAndAdd(c, product.a, product.b, {to, shape[0], shape[1]}, {product.bias, added, relu});
}

template <typename AnyOp>
void LowerProduct(const AnyOp& op, const Context& c) {
  const Product product = ProductOf(op, c);
  PutProduct(product, c, kNoBuffer, c.lowering.PutUsual(c.out(0)));
}

}  // namespace

void Lower(const Dense& op, const Context& c) { LowerProduct(op, c); }
void Lower(const DenseBackwardData& op, const Context& c) { LowerProduct(op, c); }

void LowerDenseRelu(const Chain& chain, const Context& c) {
  if (!c.IsLastOf(chain)) return;
  Lowering& l = c.lowering;
  l.SetWork(chain.nodes);
  const Context dense = {l.node(chain.nodes.front()), l, c.options};
  const Product product = ProductOf(std::get<Dense>(dense.node.op), dense);
  PutProduct(product, dense, kNoBuffer, l.Put(c.out(0), l.PlainFormat()), /*relu=*/true);
}

// The first product writes the sum, the others add to it. Each runs at its own node, because its
// factors may not live until the sum.
void LowerProductSum(const Chain& chain, const Context& c) {
  Lowering& l = c.lowering;
  const int sum_node = chain.nodes.back();
  const TensorId sum = l.node(sum_node).outputs[0];
  const bool is_first = l.index() == chain.nodes.front();
  const TensorId added = is_first ? chain.other : sum;
  const auto lower = [&](const auto& op) {
    const Product product = ProductOf(op, c);
    const BufferId old = added != kNoTensor ? l.Get(added, l.PlainFormat()).buffer : kNoBuffer;
    if (added != kNoTensor) l.SetWork({l.index(), sum_node});
    PutProduct(product, c, old, is_first ? l.Put(sum, l.PlainFormat()) : l.NativeToChange(sum));
  };
  if (const auto* const dense = std::get_if<Dense>(&c.node.op)) lower(*dense);
  if (const auto* const backward = std::get_if<DenseBackwardData>(&c.node.op)) lower(*backward);
}

void Lower(const DenseBackwardWeights&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(0))[0], inputs = l.shape(c.in(0))[1];
  const int64_t outputs = l.shape(c.in(1))[1];
  const View x = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(1));
  // Writes fp32 directly, because the sums are in fp32 anyway.
  const Matrix a = {dy, batch, outputs, true}, b = {x, batch, inputs};
  const Matrix out = {l.Put(c.out(0), kPlainFloat), outputs, inputs};
  if (c.has_out(1)) return MultiplyAndSum(c, a, b, out, c.out(1));
  Multiply(c, a, b, out);
}

}  // namespace psgd::cudnn
