// The directories, logs and pages of a server, once its run is known.
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
#include "server/durability/failpoint.h"

namespace psgd {

struct OpenedRun {
  RunDir dir{std::string()};      // the server's own directory
  RunDir results{std::string()};  // the run's directory for results
  Log log = NullLog();
  // Set once the server leads.
  std::unique_ptr<LivePages> pages;       // null: no pages were requested
  std::unique_ptr<RunRecorder> recorder;  // null: this server never led
  std::unique_ptr<TraceFile> trace;
};

// Null: the run has no TLS.
absl::StatusOr<std::shared_ptr<const Credentials>> ServerCredentials(const TlsArguments& tls);
// Null: no failpoint was requested.
absl::StatusOr<std::shared_ptr<FailpointPlan>> PlanFailpoint(const std::string& text);
// Fails if `host`, the value of `option`, would be reachable by other machines without protection.
absl::Status CheckBind(const ServerArguments& arguments, absl::string_view option,
                       const std::string& host);
// The address of the pages; nothing: no pages.
absl::StatusOr<std::optional<HttpServerOptions>> PagesAddress(const ServerArguments& arguments);

absl::StatusOr<OpenedRun> OpenRun(const ServerArguments& arguments, const RunDirOptions& options);
// Opens the run's result files and pages; from now on the server writes and shows results.
absl::Status OpenResults(const ServerArguments& arguments, const Config& config,
                         std::shared_ptr<const Credentials> credentials, OpenedRun* opened);

}  // namespace psgd
