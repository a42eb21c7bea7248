#include "engine/zoo/models.h"

namespace psgd::zoo {

// A linear function of sparse vectors for each target. With model.loss poisson it is Poisson
// regression.
TensorId LinearRegression(NetworkBuilder& net, const ModelConfig&) {
  if (net.targets() == 0) {
    net.Refuse(
        "linear_regression predicts numbers, and samples have classes; use logistic_regression, or "
        "set model.loss to squared, smooth_l1 or poisson");
  }
  return net.SparseLinear("linear", net.classes());
}

}  // namespace psgd::zoo
