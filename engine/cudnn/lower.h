// One function an op: it adds the launches that compute a node, or refuses what this backend, the
// device or a library cannot do.
#pragma once

#include "engine/cudnn/chain.h"
#include "engine/cudnn/lowering.h"

namespace psgd::cudnn {

struct Context {
  const Node& node;
  Lowering& lowering;
  const BackendOptions& options;

  bool IsLastOf(const Chain& chain) const { return lowering.index() == chain.nodes.back(); }
  TensorId in(int i) const { return node.inputs[i]; }
  TensorId out(int i) const { return node.outputs[i]; }
  bool has_in(size_t i) const { return i < node.inputs.size(); }
  bool has_out(size_t i) const { return i < node.outputs.size(); }
};

#define PSGD_DECLARE(Op) void Lower(const Op& op, const Context& c);
PSGD_OPS(PSGD_DECLARE)
#undef PSGD_DECLARE

// Lower a node of a chain: with a batch norm; that begins with a sum; that begins with a
// convolution; of a dense layer and a relu; of products and their sum.
void LowerNormChain(const Chain& chain, const Context& c);
void LowerSumChain(const Chain& chain, const Context& c);
void LowerConvolutionChain(const Chain& chain, const Context& c);
void LowerDenseRelu(const Chain& chain, const Context& c);
void LowerProductSum(const Chain& chain, const Context& c);

// Adds a bias to each row of the matrix y, in place. `relu`: then sets what is below zero to zero.
void AddBiasToRows(const Context& c, int64_t rows, int64_t columns, TensorId bias, bool relu,
                   const View& y);
// Writes the sums of a matrix's columns to `sums`, in fp32.
void PutColumnSums(const Context& c, int64_t rows, int64_t columns, BufferId matrix, TensorId sums);

}  // namespace psgd::cudnn
