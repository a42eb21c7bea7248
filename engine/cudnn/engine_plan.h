// cuDNN's engines for a graph of its operations, and plans to run them. An engine is one of cuDNN's
// ways to compute the graph.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cudnn/device.h"
#include "engine/cudnn/format.h"
#include "engine/cudnn/graph_descriptor.h"

namespace psgd::cudnn {

cudnnDataType_t CudnnType(Type type);

// A finalized graph. REQUIRES: the operations are final.
absl::StatusOr<GraphDescriptor> MakeOperationGraph(
    const Device& device, const std::vector<const GraphDescriptor*>& operations);

// Engines for the graph, first the engine that cuDNN expects to be fastest, last its fallback
// engines. Groups, dilations and transposed convolutions may have only fallback engines.
absl::StatusOr<std::vector<GraphDescriptor>> FindEngines(const GraphDescriptor& graph);

struct EngineDemands {
  bool full_fp32 = false;  // inputs and transforms lose no bit of fp32
  size_t most_workspace = SIZE_MAX;
  bool runs = true;  // false: only the size of the workspace is known; the engine is not compiled
};

// Not thread-safe.
class EnginePlan {
 public:
  EnginePlan() = default;
  // An error says why the engine cannot be used. An engine whose results do not repeat to the bit
  // never can.
  static absl::StatusOr<EnginePlan> Make(const Device& device, const GraphDescriptor& engine,
                                         const EngineDemands& demands);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // `data`: the memory of the tensors that have these ids.
  absl::Status Execute(const Device& device, const std::vector<int64_t>& ids,
                       const std::vector<void*>& data, void* workspace) const;

 private:
  GraphDescriptor plan_;
  size_t workspace_bytes_ = 0;
};

}  // namespace psgd::cudnn
