// The part of LocalCluster that keeps servers that hold shards of the first one's run.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "experiment/launcher.h"
#include "experiment/run_dir.h"
#include "experiment/server_event.h"

namespace psgd {
namespace {
constexpr Duration kHostLook = std::chrono::milliseconds(20);
constexpr int kFirstHost = 2;  // the first server is the coordinator
}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> LocalCluster::RunHost(const std::string& name) const {
  PSGD_ASSIGN_OR_RETURN(auto host, StartServer(name, {"--join", addresses_.control, "--run-dir",
                                                      absl::StrCat(addresses_.run_dir, "/", name)}));
  const Time start = SteadyNow();
  while (SteadyNow() - start < options_.ready_deadline && host->Running() && server_->Running()) {
    const auto line = host->ReadLine(kHostLook);
    if (line && EventOf(*line) == "joined") return host;
  }
  if (!server_->Running()) return host;  // that is looked after elsewhere
  host->Kill();
  return absl::UnavailableError(
      absl::StrCat(name, " does not join: it ", host->HowItEnded(), "\n", host->StderrTail()));
}

void LocalCluster::ForgetEarlierServer(const std::string& name) const {
  const auto earlier = RunDir::Take(absl::StrCat(addresses_.run_dir, "/", name));
  if (!earlier.ok()) return;  // there is none; or it is in use, which the new one would say
  std::error_code ignored;    // likewise
  for (const char* what : {"/host", "/follower", "/journal"}) {
    std::filesystem::remove_all(earlier->ServerDir() + what, ignored);
  }
}

absl::Status LocalCluster::StartHost() {
  const std::string name = absl::StrCat("server-", kFirstHost + hosts_.size());
  ForgetEarlierServer(name);
  PSGD_ASSIGN_OR_RETURN(auto host, RunHost(name));
  hosts_.push_back(std::move(host));
  return absl::OkStatus();
}

std::vector<size_t> LocalCluster::TakeDeadHosts() {
  std::vector<size_t> dead;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    // One that ended well says that the run is over.
    if (hosts_[i]->Running() || hosts_[i]->exit_code() == 0) continue;
    if (dead_hosts_.insert(i).second) dead.push_back(i);
  }
  return dead;
}

absl::Status LocalCluster::RestartHost(size_t host) {
  dead_hosts_.erase(host);
  PSGD_ASSIGN_OR_RETURN(hosts_[host], RunHost(hosts_[host]->name()));
  return absl::OkStatus();
}

}  // namespace psgd
