// The attentions of a graph: a product, a softmax, a product, and their gradients, as AddAttention
// makes them. Between them pass only matrices of queries by keys, which one kernel need not store.
// Tensors of three axes, as of torch.bmm, are those of one sample with many heads.
#pragma once

#include <array>
#include <vector>

#include "engine/graph/graph.h"

namespace psgd::cudnn {

// What an attention reads and writes: its operands, its result and the gradients of these.
enum AttentionTensor {
  kQueries,
  kKeys,
  kValues,
  kResult,
  kOfResult,
  kOfQueries,
  kOfKeys,
  kOfValues,
  kAttentionTensors
};

struct AttentionPattern {
  struct Operand {
    TensorId tensor = kNoTensor;
    // The tensor is N T H D, and not N H T D, or T H D and not H T D: the attention also does the
    // work of a Transpose.
    bool places_first = false;
  };

  std::vector<int> forward;   // nodes
  std::vector<int> backward;  // none: without gradients
  // The pass runs at this node. All its inputs exist, and no node has read its results.
  int forward_at = -1, backward_at = -1;
  std::array<Operand, kAttentionTensors> operands;  // without gradients only the first four
  Shape queries, keys, values;                      // N H T D, N H S D, N H S E
  bool causal = false;                              // then there are as many keys as queries
  TensorId lengths = kNoTensor;                     // see Softmax
  float scale = 1;
};

// A node is in at most one pattern. It skips an attention if another node reads its inner matrices,
// or if only some of its gradients are wanted. `others`, if not null, becomes the number of
// softmaxes between two products that are in no pattern.
std::vector<AttentionPattern> FindAttentions(const Graph& graph, int* others = nullptr);

}  // namespace psgd::cudnn
