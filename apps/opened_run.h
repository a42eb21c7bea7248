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
#include "server/durability/failpoint.h"

namespace psgd {

struct OpenedRun {
  RunDir dir{std::string()};      // its own
  RunDir results{std::string()};  // of the run
  Log log = NullLog();
  // Once it leads.
  std::unique_ptr<LivePages> pages;       // null: nobody asked for them
  std::unique_ptr<RunRecorder> recorder;  // null: it never led
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

absl::StatusOr<OpenedRun> OpenRun(const ServerArguments& arguments, const RunDirOptions& options);
// From now on it writes, and shows, what the run leaves behind.
absl::Status OpenResults(const ServerArguments& arguments, const Config& config,
                         std::shared_ptr<const Credentials> credentials, OpenedRun* opened);

}  // namespace psgd
