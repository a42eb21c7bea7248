// Decodes the weights of the next step and brings them to the GPUs, which compute the present step
// meanwhile.
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

// Not thread-safe: belongs to the training thread, and has a thread of its own in each step. The
// arguments of the constructor must outlive it.
class WeightsAhead {
 public:
  // REQUIRES: the network has made room for these weights.
  WeightsAhead(const CodecTable& codecs, const Placement& placement, Replicas* network)
      : codecs_(codecs), placement_(placement), network_(network) {}

  // Begins with the slices that a pull brought, and the factors that this worker had pushed before
  // the pull. Returns at once. REQUIRES: the step's kernels are launched (Network::TrainStep's
  // `meanwhile`).
  void Begin(std::vector<PulledSlice> pulled, PushedFactors own);
  bool begun() const { return installed_.valid(); }
  // Called between the steps: the network computes with the new weights from now on. Errors are
  // those of InstallPulled and of the devices. REQUIRES: begun().
  absl::Status Finish();

 private:
  const CodecTable& codecs_;
  const Placement& placement_;
  Replicas* const network_;
  std::future<absl::Status> installed_;  // its destructor waits for the thread
};

}  // namespace psgd
