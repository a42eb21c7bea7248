#include "experiment/launch/joined_server.h"

#include <csignal>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "experiment/launch/program_dir.h"
#include "experiment/launch/server_event.h"
#include "net/address.h"

namespace psgd {
namespace {

constexpr Duration kJoinLook = std::chrono::milliseconds(100);

}  // namespace

absl::StatusOr<std::unique_ptr<JoinedServer>> JoinedServer::Start(
    const JoinedServerOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const std::string program, SiblingProgram("ps-server"));
  PSGD_ASSIGN_OR_RETURN(const std::string address, OwnAddressTowards(options.server));
  ChildOptions child;
  child.name = "the server beside this worker";
  child.argv = {program,  "--join",    options.etcd.empty() ? options.server : options.run,
                "--json", "--run-dir", options.run_dir,
                "--bind", address,     "--quiet"};
  if (!options.etcd.empty()) child.argv.insert(child.argv.end(), {"--etcd", options.etcd});
  if (!options.tls_dir.empty()) child.argv.insert(child.argv.end(), {"--tls-dir", options.tls_dir});
  if (options.insecure) child.argv.push_back("--insecure");
  PSGD_ASSIGN_OR_RETURN(auto process, ChildProcess::Start(std::move(child)));
  const Time start = SteadyNow();
  while (process->Running() && SteadyNow() - start < options.deadline) {
    const auto line = process->ReadLine(kJoinLook);
    if (line && !EventOf(*line).empty())
      return std::unique_ptr<JoinedServer>(new JoinedServer(std::move(process)));
  }
  process->Kill();
  return UnavailableError(process->name(), " does not join: it ", process->HowItEnded(), "\n",
                          process->StderrTail());
}

void JoinedServer::End(bool leaves, Duration deadline) {
  if (leaves) process_->Signal(SIGTERM);
  if (!process_->WaitEnded(deadline)) process_->Kill();
}

}  // namespace psgd
