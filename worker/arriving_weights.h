// The weights that a step needs, installed slice by slice as they come. A slice that is installed
// frees its message, and a step can begin with its front layers while the others still travel.
#pragma once

#include <functional>
#include <optional>

#include "common/clock.h"
#include "common/status.h"
#include "compression/codec.h"
#include "proto/model.pb.h"
#include "worker/install_slice.h"
#include "worker/pushed_factors.h"
#include "worker/session.h"
#include "worker/session_core.h"

namespace psgd {

// Not thread-safe: belongs to the thread that uses the session. The core, the session and the
// objects that the options refer to must outlive it.
class ArrivingWeights {
 public:
  struct Options {
    const CodecTable& codecs;
    const ModelSpec& model;
    const Placement& placement;
    const PushedFactors& own;
    PullInstaller::Weights weights;  // of a parameter: where they are installed
    // Called after each wait, and after each installation. May be null.
    std::function<void(Time start, Time end)> on_waited = nullptr;
    std::function<void(Time start, Time end)> on_installed = nullptr;
  };

  ArrivingWeights(Options options, SessionCore* core, Session* session);

  // A pull is under way, or has just come. REQUIRES: nobody reads weights before Await returns.
  void Begin();
  // Waits until the parameter's weights, or all weights, are installed. Errors are those of
  // InstallSlice and of the session. After an error of InstallSlice all calls until Begin fail.
  absl::Status Await(int parameter);
  absl::Status AwaitAll();
  // Installs what has come by now. As Await, but never waits.
  absl::Status InstallWhatCame();
  // Whether the parameter's weights are installed.
  bool complete(int parameter) const { return installer_->complete(parameter); }

  // Seconds since Begin.
  double waited() const { return waited_; }
  double installing() const { return installing_; }

 private:
  absl::Status WaitFor(const std::function<bool()>& here);
  absl::Status InstallArrived();

  const Options options_;
  SessionCore* const core_;
  Session* const session_;

  std::optional<PullInstaller> installer_;
  absl::Status failed_;  // the first error of an installation since Begin
  double waited_ = 0;
  double installing_ = 0;
};

}  // namespace psgd
