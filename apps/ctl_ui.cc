#include "apps/ctl_ui.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_replace.h"
#include "apps/stop_signals.h"
#include "dashboard/run_pages.h"
#include "net/resolve.h"

namespace psgd {
namespace {

constexpr auto kStopPoll = std::chrono::milliseconds(100);

}  // namespace

absl::Status ServeRuns(const std::string& root, const CtlUiOptions& options, bool json) {
  const StopSignals stops;
  if (!options.insecure && !IsLoopback(options.bind)) {
    return InvalidArgumentError("--bind ", options.bind,
                                " shows these runs to whoever reaches it; if they may "
                                "see them, add --insecure");
  }
  const auto started = RunPages::Start(root, options.bind, options.port);
  if (!started.ok()) {
    // The servers of runs call the option --http.
    return absl::Status(started.status().code(),
                        absl::StrReplaceAll(started.status().message(), {{"--http", "--port"}}));
  }
  const auto& pages = *started;
  if (json) {
    std::cout << nlohmann::ordered_json{{"event", "ready"}, {"http", pages->address()}}
              << std::endl;
  } else {
    std::cout << "the runs of " << root << ": http://" << pages->address() << "/ (Ctrl-C ends)"
              << std::endl;
  }
  while (stops.count() == 0) std::this_thread::sleep_for(kStopPoll);
  return absl::OkStatus();
}

}  // namespace psgd
