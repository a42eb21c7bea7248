// What the engine asked of the real cuDNN, for tests. cuDNN plans for a device that is not there:
// that of the emulation's Settings::capability (7.5, 8.0, 9.0, 10.0 or 12.0).
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <string>
#include <vector>

namespace psgd::planned {

struct Tensor {
  std::vector<int64_t> sizes, strides;
};

// Operations that cuDNN was asked to plan as one.
struct Graph {
  std::vector<cudnnBackendDescriptorType_t> operations;
  std::vector<Tensor> tensors;  // of the operations, repeated where they share a tensor
  int plans = 0;                // that the engine holds now
  bool tensor_cores = false;    // the last plan uses them
};

struct Planned {
  std::string missing;        // why cuDNN cannot plan on this host; empty: it can
  std::vector<Graph> graphs;  // in the order of the questions
};

// The type of `psgd_planned`, which the plugin exports.
// REQUIRES: tests change `graphs` only while no backend is in use.
using PlannedFunction = Planned* (*)();

}  // namespace psgd::planned
