// Small graphs around every op, at ordinary and odd shapes. The gradient check runs them in double
// on the reference backend. The conformance suite compares every backend with that.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace psgd::testing {

struct OpCase {
  std::string name;
  Graph graph;  // forward, and backward if the op has a gradient rule
  TensorId output = kNoTensor;
  TensorId seed = kNoTensor;  // gradient of the output; kNoTensor for a loss
  struct Input {
    TensorId tensor = kNoTensor;
    TensorId gradient = kNoTensor;  // kNoTensor: not wanted
  };
  std::vector<Input> inputs;
  TensorId labels = kNoTensor;
  int classes = 0;
  // The error bound in fp32, relative to the largest value of each result.
  double bound = 0;
  // The same in bf16, from inputs that bf16 holds exactly: a few roundings to 8 bits, each of at
  // most 2^-9.
  double bf16_bound = 0.008;
};

std::vector<OpCase> AllOpCases();

// Whole numbers of RandomValues are below this.
inline constexpr int kIndexLimit = 5;
// Values for an input: pseudo-random in [-1, 1), exact in fp32, positive for positive statistics.
// kInt32 inputs get whole numbers. `bf16`: values are cut to bf16.
std::vector<double> RandomValues(const Graph& graph, TensorId tensor, uint32_t stream,
                                 bool bf16 = false);

}  // namespace psgd::testing
