// What a server writes to and shows, from when it knows which run it is for.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "apps/server_arguments.h"
#include "common/log.h"
#include "dashboard/live_pages.h"
#include "experiment/record/run_dir.h"
#include "experiment/record/run_recorder.h"
#include "experiment/record/trace_file.h"
#include "net/credentials.h"
#include "server/control/earlier_server.h"
#include "server/durability/failpoint.h"

namespace psgd {

struct OpenedRun {
  RunDir dir;      // its own
  RunDir results;  // of the run
  Log log;
  // Once it leads.
  std::unique_ptr<LivePages> pages;  // null: nobody asked for them
  std::unique_ptr<RunRecorder> recorder;
  std::unique_ptr<TraceFile> trace;
};

// Null: the run is not secured.
absl::StatusOr<std::shared_ptr<const Credentials>> ServerCredentials(const TlsArguments& tls);
// Null: nothing was asked for.
absl::StatusOr<std::shared_ptr<FailpointPlan>> PlanFailpoint(const std::string& text);
// That `host`, of the named option, is not one that other machines reach unprotected.
absl::Status CheckBind(const ServerArguments& arguments, absl::string_view option,
                       const std::string& host);
// Where the pages are; nothing: nowhere.
absl::StatusOr<std::optional<HttpServerOptions>> PagesAddress(const ServerArguments& arguments);

// What the directory of --run-dir holds from before, which nobody else has in use; its text begins
// with where it is. `wanted` may come back to it: anything else that somebody would miss is
// refused.
absl::StatusOr<EarlierServer> TakeUpRunDir(const std::string& run_dir, EarlierServer::Kind wanted);

absl::StatusOr<OpenedRun> OpenRun(const ServerArguments& arguments, const RunDirOptions& options);
// From now on it writes, and shows, what the run leaves behind.
absl::Status OpenResults(const ServerArguments& arguments, const Config& config,
                         std::shared_ptr<const Credentials> credentials, OpenedRun* opened);

}  // namespace psgd
