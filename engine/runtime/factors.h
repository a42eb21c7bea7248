// The gradient of a dense layer's weights is a product, dw[o,i] = sum over n of dy[n,o] * x[n,i].
// Its two factors are smaller than dw if the batch is small and the layer is wide. Xie, Kim, Zhou,
// Ho, Kumar, Yu, Xing: "Lighter-communication distributed machine learning via sufficient factor
// broadcasting", UAI 2016; Chilimbi, Suzue, Apacible, Kalyanaraman: "Project Adam", OSDI 2014.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/graph/graph.h"

namespace psgd {

// Whether the gradient of these weights leaves the network as factors of `rows` rows.
using ChooseFactors =
    std::function<bool(const std::string& name, const Shape& weights, int64_t rows)>;

// Replaces the gradients of chosen parameters by factors of rows x (inputs + outputs): each row is
// a row of x followed by a row of dy. Their product is not computed. `choose` is asked only for
// weights of a single dense layer. REQUIRES: Differentiate has run.
void HandOutFactors(const ChooseFactors& choose, Graph* graph);

// The number of rows if the parameter's gradient is factors; else 0.
int64_t FactorRows(const Graph& graph, const Parameter& parameter);

}  // namespace psgd
