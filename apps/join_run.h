// ps-server --join: holds shards of a run that another server coordinates.
#pragma once

#include "apps/exit_code.h"
#include "apps/server_arguments.h"
#include "apps/stop_signals.h"
#include "common/status.h"

namespace psgd {

absl::StatusOr<ExitCode> JoinRun(const ServerArguments& arguments, const StopSignals& stops);

}  // namespace psgd
