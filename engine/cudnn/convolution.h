// One convolution on one device, forward or backward. It uses the fastest of the cuDNN engines that
// repeat their results to the bit. The first use of a shape measures them; memory and a file keep
// the choice. Where cuDNN has no such engine for channels-last tensors, it transposes them; where
// cuDNN has none for these either, a plain kernel convolves.
#pragma once

#include <memory>
#include <string>

#include "engine/cudnn/device.h"
#include "engine/cudnn/engine_plan.h"
#include "engine/cudnn/format.h"
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
  bool tensor_float = false;              // fp32 may be rounded to TF32
  Layout layout = Layout::kChannelsLast;  // that cuDNN sees
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
  // The same with cuDNN, in the problem's layout. UNIMPLEMENTED: it has no engine.
  static absl::StatusOr<std::shared_ptr<Convolution>> PlanEngine(const Device& device,
                                                                 const ConvolutionProblem& problem,
                                                                 const std::string& choices,
                                                                 bool plan_only);
  static std::shared_ptr<Convolution> Make(const ConvolutionProblem& problem, EnginePlan plan);
  absl::Status RunTransposed(const Device& device, void* x, void* w, void* y, void* workspace);

  ConvolutionProblem problem_;
  bool direct_ = false;  // without cuDNN
  EnginePlan plan_;
  size_t engine_bytes_ = 0;  // the engine's part of the workspace
  size_t workspace_bytes_ = 0;
};

}  // namespace psgd::cudnn
