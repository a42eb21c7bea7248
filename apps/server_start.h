// Starts a server: as the first server of a new or resumed run, from the end of its journal, or as
// a further server of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/opened_run.h"
#include "apps/server_arguments.h"
#include "apps/stop_signals.h"
#include "proto/config.pb.h"
#include "server/control/control_service.h"
#include "server/control/server_loop.h"

namespace psgd {

struct ServerStart {
  Config config;
  std::shared_ptr<const Credentials> credentials;  // null: the run has no TLS
  OpenedRun opened;
  std::unique_ptr<ControlService> service;
  ServerLoopOptions loop;  // without its callbacks
  // What the person who starts it should know: checkpoints that were passed over.
  std::vector<std::string> notes;
};

absl::StatusOr<ServerStart> StartServer(const ServerArguments& arguments, const StopSignals& stops);

}  // namespace psgd
