#include "engine/zoo/models.h"

namespace psgd::zoo {

// Logistic regression over sparse vectors: a weight a feature for two classes, else a weight a
// feature and class. With weight decay 1 / (C N) on N samples the optimum is that of liblinear's
// -s 0 -B 1 -c C.
TensorId LogisticRegression(NetworkBuilder& net, const ModelConfig&) {
  if (net.targets() > 0) {
    net.Refuse(
        "logistic_regression predicts classes, and samples have numbers; use linear_regression, or "
        "set model.loss to cross_entropy");
  }
  if (net.classes() != 2) return net.SparseLinear("linear", net.classes());
  return net.AgainstZero("logits", net.SparseLinear("linear", 1));
}

}  // namespace psgd::zoo
