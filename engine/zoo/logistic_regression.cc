#include "engine/zoo/models.h"

namespace psgd::zoo {

// Of sparse vectors: a weight a feature for two classes, one a feature and class for more. With
// weight decay 1 / (C N) on N samples its optimum is that of liblinear's -s 0 -B 1 -c C.
TensorId LogisticRegression(NetworkBuilder& net, const ModelConfig&) {
  if (net.classes() != 2) return net.SparseLinear("linear", net.classes());
  return net.AgainstZero("logits", net.SparseLinear("linear", 1));
}

}  // namespace psgd::zoo
