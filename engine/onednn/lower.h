// One function an op: it adds the calls that compute a node. It may throw dnnl::error, which the
// backend turns into a status.
#pragma once

#include "engine/onednn/lowering.h"

namespace psgd::onednn {

struct Context {
  const Node& node;
  Lowering& lowering;
  const DropoutSource& dropout;

  TensorId in(int i) const { return node.inputs[i]; }
  TensorId out(int i) const { return node.outputs[i]; }
  bool has_in(size_t i) const { return i < node.inputs.size(); }
  bool has_out(size_t i) const { return i < node.outputs.size(); }
};

#define PSGD_DECLARE(Op) void Lower(const Op& op, const Context& c);
PSGD_OPS(PSGD_DECLARE)
#undef PSGD_DECLARE

// Fuses a relu that is the only reader of `y` into the layer that makes `y`: adds the relu to
// `attributes` and returns its output, which the layer writes instead of `y`. Else returns `y`.
TensorId FuseRelu(const Context& c, TensorId y, dnnl::primitive_attr* attributes);

}  // namespace psgd::onednn
