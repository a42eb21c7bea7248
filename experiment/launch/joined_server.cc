#include "experiment/launch/joined_server.h"

#include <csignal>
#include <utility>

#include "experiment/launch/program_dir.h"
#include "experiment/launch/server_event.h"

namespace psgd {
namespace {

constexpr Duration kEndLook = std::chrono::milliseconds(100);

}  // namespace

absl::StatusOr<std::unique_ptr<JoinedServer>> JoinedServer::Start(
    const JoinedServerOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const std::string program, SiblingProgram("ps-server"));
  ChildOptions child;
  child.name = "the server beside this worker";
  child.argv = {program,   "--join",    options.server,  "--json",
                "--quiet", "--run-dir", options.run_dir, "--beside-worker"};
  if (!options.tls_dir.empty()) child.argv.insert(child.argv.end(), {"--tls-dir", options.tls_dir});
  if (!options.link.empty()) child.argv.insert(child.argv.end(), {"--link", options.link});
  if (options.insecure) child.argv.push_back("--insecure");
  PSGD_ASSIGN_OR_RETURN(auto process, ChildProcess::Start(std::move(child)));
  PSGD_ASSIGN_OR_RETURN(const auto joined, AwaitJoined(*process, options.deadline, [&] {
                          return options.stops != nullptr && *options.stops > 0;
                        }));
  if (joined) {
    return std::unique_ptr<JoinedServer>(new JoinedServer(std::move(process), options.stops));
  }
  process->Kill();
  return absl::CancelledError("stopped");
}

void JoinedServer::End() {
  process_->Signal(SIGTERM);
  while (!process_->WaitEnded(kEndLook)) {
    if (stops_ != nullptr && *stops_ > 1) return process_->Kill();
  }
}

}  // namespace psgd
