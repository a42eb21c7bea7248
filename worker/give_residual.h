// The last push of a worker that leaves: what its codecs left behind.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "worker/session.h"
#include "worker/update_encoder.h"
#include "worker/worker_core.h"

namespace psgd {

struct GivenResidual {
  bool any = false;
  double norm = 0;
  double norm_left = 0;  // of what was not acknowledged
  absl::Status pushed;
};

// Carries out task::GiveResidual. An error: the residual could not be read.
absl::StatusOr<GivenResidual> GiveResidual(uint64_t clock, UpdateEncoder* encoder, WorkerCore* core,
                                           Session* session);

}  // namespace psgd
