// The weights that a step needs, installed slice by slice as they come. A slice that is installed
// frees its message, and a step can begin with its front layers while the others still travel.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "common/status.h"
#include "compression/codec.h"
#include "engine/runtime/replicas.h"
#include "proto/model.pb.h"
#include "train/step_trace.h"
#include "worker/install_slice.h"
#include "worker/pushed_factors.h"
#include "worker/session.h"
#include "worker/session_core.h"

namespace psgd {

// Not thread-safe: belongs to the training thread. What it is made of outlives it.
class ArrivingWeights {
 public:
  ArrivingWeights(const CodecTable& codecs, const Placement& placement, const PushedFactors& own,
                  Replicas* network, SessionCore* core, Session* session, StepTrace* trace);

  // A pull for the step that leads to `clock` is under way, or has just come. REQUIRES: nobody
  // reads weights that are not awaited.
  void Begin(uint64_t clock);
  // Waits until the parameter's weights, or all weights, are installed. Errors are those of
  // InstallSlice and of the session.
  absl::Status Await(int parameter);
  absl::Status AwaitAll();

  // Seconds since Begin.
  double waited() const { return waited_; }
  double installing() const { return installing_; }

 private:
  absl::Status WaitFor(const std::function<bool()>& here);
  absl::Status InstallArrived();

  const CodecTable& codecs_;
  const Placement& placement_;
  const PushedFactors& own_;
  Replicas* const network_;
  SessionCore* const core_;
  Session* const session_;
  StepTrace* const trace_;

  std::optional<PullInstaller> installer_;
  absl::Status failed_;  // the first error since Begin
  uint64_t clock_ = 0;
  double waited_ = 0;
  double installing_ = 0;
};

}  // namespace psgd
