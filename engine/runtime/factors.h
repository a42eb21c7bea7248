// The gradient of a dense layer's weights is a product, dw[o,i] = sum over n of dy[n,o] * x[n,i],
// and its two factors are shorter where the batch is smaller than the layer is wide. Xie, Kim,
// Zhou, Ho, Kumar, Yu, Xing: "Lighter-communication distributed machine learning via sufficient
// factor broadcasting", UAI 2016; Chilimbi, Suzue, Apacible, Kalyanaraman: "Project Adam", OSDI
// 2014.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/graph/graph.h"

namespace psgd {

// Whether the gradient of these weights is to be handed out as its factors, of so many rows.
using ChooseFactors =
    std::function<bool(const std::string& name, const Shape& weights, int64_t rows)>;

// The gradients of the parameters that are chosen become rows x (inputs + outputs), each row one of
// x and behind it one of dy; their product is not computed. Asks for weights whose gradient one
// dense layer alone makes. REQUIRES: after Differentiate.
void HandOutFactors(const ChooseFactors& choose, Graph* graph);

// Rows of the factors that a parameter's gradient is made of; 0: it is the gradient.
int64_t FactorRows(const Graph& graph, const Parameter& parameter);

}  // namespace psgd
