// One convolution on one device, forward or backward: the fastest of cuDNN's engines that repeat
// their results to the bit, measured when it is first asked for and remembered by its shape, in a
// file, too.
#pragma once

#include <memory>
#include <string>

#include "engine/cudnn/device.h"
#include "engine/cudnn/format.h"
#include "engine/cudnn/graph_descriptor.h"
#include "engine/graph/shape.h"

namespace psgd::cudnn {

// Images and filters are channels-last (filters: O KH KW C/G) and of one type; shapes are named in
// the order N C H W, as everywhere.
struct ConvolutionProblem {
  enum class Pass { kForward, kBackwardData, kBackwardWeights };
  Pass pass = Pass::kForward;
  Type type = Type::kFloat;
  Shape x, w, y;
  Window window;
  bool tensor_float = false;  // fp32 may be rounded to TF32
};

// Not thread-safe.
class Convolution {
 public:
  // `choices`: the file that remembers; empty: none. With `plan_only` nothing runs: where nothing
  // was measured before, it is the engine that cuDNN thinks fastest, and that is not remembered.
  static absl::StatusOr<std::shared_ptr<Convolution>> Plan(const Device& device,
                                                           const ConvolutionProblem& problem,
                                                           const std::string& choices,
                                                           bool plan_only);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Two of x, w and y are read and the third written, as the pass says.
  absl::Status Run(const Device& device, void* x, void* w, void* y, void* workspace);

 private:
  GraphDescriptor plan_;
  size_t workspace_bytes_ = 0;
};

}  // namespace psgd::cudnn
