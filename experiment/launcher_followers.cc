// The part of LocalCluster that keeps servers that follow the first.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "experiment/launcher.h"
#include "experiment/server_event.h"

namespace psgd {
namespace {
constexpr Duration kLook = std::chrono::milliseconds(20);
}  // namespace

absl::Status LocalCluster::StartFollower(Duration patience) {
  const std::string name = absl::StrCat("follower-", ++followers_started_);
  ForgetEarlierServer(name);
  Follower follower;
  follower.run_dir = absl::StrCat(addresses_.run_dir, "/", name);
  const std::string& whom = options_.etcd.empty() ? addresses_.control : options_.run_name;
  std::vector<std::string> arguments = {"--follow",  whom,             "--port",    "0",
                                        "--run-dir", follower.run_dir, "--results", addresses_.run_dir};
  // Once it leads, where those who watch the run look for it.
  if (!addresses_.http.empty()) arguments.push_back("--http=" + addresses_.http);
  PSGD_ASSIGN_OR_RETURN(follower.process, StartServer(name, arguments));
  const Time start = SteadyNow();
  while (SteadyNow() - start < patience && follower.process->Running() &&
         server_->Running()) {
    // It may wait for long, as for etcd.
    if (options_.stops != nullptr && *options_.stops > 0) {
      return absl::CancelledError(absl::StrCat("stopped before ", name, " followed"));
    }
    const auto line = follower.process->ReadLine(kLook);
    if (!line || EventOf(*line) != "following") continue;
    const auto said = nlohmann::json::parse(*line);
    follower.self = {said.value("replica", 0u), said.value("control", "")};
    followers_.push_back(std::move(follower));
    return absl::OkStatus();
  }
  if (!server_->Running()) return absl::OkStatus();  // that is looked after elsewhere
  follower.process->Kill();
  return absl::UnavailableError(absl::StrCat(name, " does not follow: it ",
                                             follower.process->HowItEnded(), "\n",
                                             follower.process->StderrTail()));
}

void LocalCluster::HearFollowers() {
  for (Follower& follower : followers_) {
    while (const auto line = follower.process->ReadLine(Duration(0))) {
      const std::string event = EventOf(*line);
      if (event == "may_not_lead") follower.may_not_lead = true;
      if (event == "follows_again") follower.may_not_lead = false;
      if (event == "taking_over") follower.takes_over = true;
      if (event == "ready") follower.leads = *line;
    }
  }
}

bool LocalCluster::SomeoneTakesOver() {
  HearFollowers();
  return std::any_of(followers_.begin(), followers_.end(),
                     [](const Follower& follower) { return follower.takes_over; });
}

absl::Status LocalCluster::WaitTakenOver() {
  server_->Kill();
  const Time start = SteadyNow();
  bool any = true;
  while (any && SteadyNow() - start < options_.ready_deadline) {
    HearFollowers();
    const auto leader = std::find_if(followers_.begin(), followers_.end(),
                                     [](const Follower& follower) { return !follower.leads.empty(); });
    if (leader != followers_.end()) {
      Leads(leader->leads);
      server_ = std::move(leader->process);
      journal_dir_ = leader->run_dir;
      followers_.erase(leader);
      return absl::OkStatus();
    }
    any = std::any_of(followers_.begin(), followers_.end(),
                      [](const Follower& follower) { return follower.process->Running() && !follower.may_not_lead; });
    std::this_thread::sleep_for(kLook);
  }
  return absl::UnavailableError("no follower took over");
}

std::vector<ServerOfChain> LocalCluster::TakeDeadFollowers() {
  std::vector<ServerOfChain> dead;
  std::erase_if(followers_, [&](const Follower& follower) {
    // One that ended well says that the run is over.
    if (follower.process->Running() || follower.process->exit_code() == 0) return false;
    dead.push_back(follower.self);
    return true;
  });
  return dead;
}

}  // namespace psgd
