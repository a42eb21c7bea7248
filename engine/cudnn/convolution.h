// One convolution on one device, forward or backward. It uses the fastest of the cuDNN engines that
// repeat their results to the bit. The first use of a shape measures them; memory and a file keep
// the choice.
#pragma once

#include <memory>
#include <string>

#include "engine/cudnn/device.h"
#include "engine/cudnn/format.h"
#include "engine/cudnn/graph_descriptor.h"
#include "engine/graph/shape.h"

namespace psgd::cudnn {

// Images and filters are channels-last (filters: O KH KW C/G) and of one type. Shapes are in the
// usual order N C H W.
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
  // `choices`: the file with the choices; empty: none. `plan_only`: measures nothing; without an
  // earlier choice it takes the engine that cuDNN expects to be fastest, and does not remember it.
  static absl::StatusOr<std::shared_ptr<Convolution>> Plan(const Device& device,
                                                           const ConvolutionProblem& problem,
                                                           const std::string& choices,
                                                           bool plan_only);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Reads two of x, w and y and writes the third, depending on the pass.
  absl::Status Run(const Device& device, void* x, void* w, void* y, void* workspace);

 private:
  GraphDescriptor plan_;
  size_t workspace_bytes_ = 0;
};

}  // namespace psgd::cudnn
