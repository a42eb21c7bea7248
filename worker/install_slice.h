// Turns the slices that a pull brought into the weights that a worker computes with.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "common/status.h"
#include "compression/codec.h"
#include "proto/model.pb.h"
#include "worker/pushed_factors.h"
#include "worker/session_core.h"

namespace psgd {

// Installs a slice in `weights`. If only changes were pulled, `weights` must hold the weights that
// were installed before. Errors are about the payload: OUT_OF_RANGE for a value that is not finite.
absl::Status InstallSlice(const CodecTable& codecs, const SliceShape& shape,
                          const PulledSlice& pulled, std::span<float> weights);

// Installs the slices of one pull as they come, in any order. Not thread-safe. The objects that the
// constructor takes by reference must outlive it.
class PullInstaller {
 public:
  using Weights = std::function<std::span<float>(int)>;  // of a parameter
  using Before = std::function<std::span<const float>(int)>;

  // `own`: the factors that this worker pushed; the updates in a pull leave them out. `weights`
  // returns the place of a parameter's new weights, and `had` the weights that were installed
  // before. Both may be the same memory.
  PullInstaller(const CodecTable& codecs, const ModelSpec& model, const Placement& placement,
                const PushedFactors& own, Before had, Weights weights);

  // Call this once for each slice. Slices that share a payload are installed with the last slice of
  // their parameter. Errors are as of InstallSlice, and name the slice or the parameter.
  absl::Status Install(uint32_t slice, const PulledSlice& pulled);
  // Whether all slices of the parameter are installed.
  bool complete(int parameter) const { return left_[static_cast<size_t>(parameter)] == 0; }

 private:
  // Applies the updates of all slices of a parameter that shared payloads.
  absl::Status ApplyShared(const ParameterSpec& parameter,
                           const std::map<uint32_t, PulledSlice>& slices,
                           std::span<float> weights) const;

  const CodecTable& codecs_;
  const ModelSpec& model_;
  const Placement& placement_;
  const PushedFactors& own_;
  const Before had_;
  const Weights weights_;
  std::vector<int> left_;  // slices to come, by parameter
  // By parameter and slice: what waits for the rest of its parameter.
  std::map<int, std::map<uint32_t, PulledSlice>> waiting_;
};

// Installs all slices of a pull. `pulled`: by slice id.
absl::Status InstallPulled(const std::vector<PulledSlice>& pulled, PullInstaller installer);

}  // namespace psgd
