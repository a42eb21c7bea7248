// Small graphs around every op, at ordinary and at odd shapes. The gradient check runs them in
// double on the reference backend; the conformance suite compares every backend with that.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace psgd::testing {

struct OpCase {
  std::string name;
  Graph graph;  // forward, and backward where there is a gradient rule
  TensorId output = kNoTensor;
  TensorId seed = kNoTensor;  // gradient of the output; kNoTensor for a loss
  struct Input {
    TensorId tensor = kNoTensor;
    TensorId gradient = kNoTensor;  // kNoTensor where none is wanted
  };
  std::vector<Input> inputs;
  TensorId labels = kNoTensor;
  int classes = 0;
  // Of fp32 results, relative to the largest value of each result.
  double bound = 0;
  // The same of what is computed in bf16 from values that bf16 holds: a few roundings to 8 bits,
  // each of at most 2^-9.
  double bf16_bound = 0.008;
};

std::vector<OpCase> AllOpCases();

// Values for an input: pseudo-random in [-1, 1), exact in fp32, positive where `positive`; where
// kInt32, whole numbers from 0 to kIndexLimit - 1.
inline constexpr int kIndexLimit = 5;
// Cut to what bf16 holds where `bf16`.
std::vector<double> RandomValues(const Graph& graph, TensorId tensor, uint32_t stream,
                                 bool bf16 = false);

}  // namespace psgd::testing
