// The weights of the next step, decoded and brought to the GPUs while this one computes there.
#pragma once

#include <future>
#include <vector>

#include "common/status.h"
#include "compression/codec.h"
#include "engine/runtime/replicas.h"
#include "proto/model.pb.h"
#include "worker/pushed_factors.h"
#include "worker/session_core.h"

namespace psgd {

// Not thread-safe: belongs to the training thread, and has one of its own for each step. What it is
// made of outlives it.
class WeightsAhead {
 public:
  // REQUIRES: the network made room for them.
  WeightsAhead(const CodecTable& codecs, const Placement& placement, Replicas* network)
      : codecs_(codecs), placement_(placement), network_(network) {}

  // What a pull brought, and the factors that this worker had pushed by then. Returns at once.
  // REQUIRES: the step's kernels are launched (Network::TrainStep's `meanwhile`).
  void Begin(std::vector<PulledSlice> pulled, PushedFactors own);
  bool begun() const { return installed_.valid(); }
  // Between the steps: the network computes with them from now on. Errors are those of
  // InstallPulled and of the devices. REQUIRES: begun().
  absl::Status Finish();

 private:
  const CodecTable& codecs_;
  const Placement& placement_;
  Replicas* const network_;
  std::future<absl::Status> installed_;  // its end waits for the thread
};

}  // namespace psgd
