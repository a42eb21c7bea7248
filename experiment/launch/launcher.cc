#include "experiment/launch/launcher.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "experiment/launch/program_dir.h"
#include "experiment/launch/server_event.h"
#include "experiment/record/run_dir.h"

namespace psgd {
namespace {

constexpr Duration kLineWait = std::chrono::milliseconds(50);
constexpr Duration kLastOutput = std::chrono::milliseconds(100);
constexpr int kLogLines = 8;

std::string Indented(const std::string& text) {
  return absl::StrCat("  | ", absl::StrReplaceAll(text, {{"\n", "\n  | "}}));
}

// What a server that could not start says of itself has the code of its cause: 2 is the user's.
absl::Status StartFailure(const ChildProcess& server) {
  const std::string words = server.StderrTail();
  const std::string message = absl::StrCat("ps-server did not start: it ", server.HowItEnded(),
                                           words.empty() ? " and said nothing" : "\n",
                                           words.empty() ? "" : Indented(words));
  return server.exit_code() == 2 ? absl::InvalidArgumentError(message)
                                 : absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(const LaunchOptions& options) {
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(options));
  std::vector<std::string> arguments = {"--port", "0"};
  arguments.insert(arguments.end(), options.run.begin(), options.run.end());
  PSGD_ASSIGN_OR_RETURN(cluster->server_, cluster->StartServer("ps-server", arguments));
  PSGD_RETURN_IF_ERROR(cluster->WaitReady());
  cluster->journal_dir_ = cluster->addresses_.run_dir;
  return cluster;
}

absl::Status LocalCluster::RecoverServer() {
  std::vector<std::string> arguments = {"--recover", journal_dir_};
  if (journal_dir_ != addresses_.run_dir) {
    arguments.insert(arguments.end(), {"--results", addresses_.run_dir});
  }
  // Where those who watch it look for it.
  if (!addresses_.http.empty()) arguments.push_back("--http=" + addresses_.http);
  PSGD_ASSIGN_OR_RETURN(server_, StartServer("ps-server", arguments));
  return WaitReady();
}

absl::StatusOr<std::unique_ptr<ChildProcess>> LocalCluster::StartServer(
    const std::string& name, const std::vector<std::string>& arguments) const {
  PSGD_ASSIGN_OR_RETURN(const std::string program, SiblingProgram("ps-server"));
  ChildOptions child;
  child.name = name;
  child.argv = {program, "--json", "--quiet", "--die-with-parent"};
  // One that is recovered listens where it did.
  if (arguments.front() != "--recover") {
    child.argv.insert(child.argv.end(), options_.listen.begin(), options_.listen.end());
  }
  child.argv.insert(child.argv.end(), arguments.begin(), arguments.end());
  if (!options_.etcd.empty()) child.argv.insert(child.argv.end(), {"--etcd", options_.etcd});
  AddTlsDir(&child.argv);
  return ChildProcess::Start(std::move(child));
}

void LocalCluster::Leads(const std::string& ready) {
  const auto said = nlohmann::json::parse(ready);
  addresses_ = {said.value("control", ""), said.value("http", ""), said.value("run_dir", "")};
}

absl::Status LocalCluster::WaitReady() {
  const Time start = SteadyNow();
  while (SteadyNow() - start < options_.ready_deadline) {
    const bool running = server_->Running();
    const auto line = server_->ReadLine(running ? kLineWait : kLastOutput);
    if (!line) {
      if (!running) return StartFailure(*server_);
      if (options_.stops != nullptr && *options_.stops > 0) {
        return absl::CancelledError("stopped before the server was ready; nothing was trained");
      }
      continue;
    }
    if (EventOf(*line) != "ready") continue;
    Leads(*line);
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "ps-server was not ready within ", static_cast<int64_t>(Seconds(options_.ready_deadline)),
      " s (cluster.deadline); is the disk or the machine overloaded?"));
}

absl::Status LocalCluster::StartWorker() {
  PSGD_ASSIGN_OR_RETURN(const std::string program, SiblingProgram("ps-worker"));
  const int index = static_cast<int>(workers_.size());
  const RunDir dir(addresses_.run_dir);
  std::error_code error;
  std::filesystem::create_directories(dir.WorkerDir(index), error);
  if (error) return FileError("make the folder", dir.WorkerDir(index), error.value());
  ChildOptions child;
  child.name = absl::StrCat("worker-", index);
  // Its log and its last words go to one file, in the order in which they were said.
  child.stderr_file = dir.WorkerDir(index) + "/worker.log";
  child.argv = {program,
                "--name",
                child.name,
                "--threads",
                absl::StrCat(options_.threads),
                "--quiet",
                "--die-with-parent",
                "--log-file",
                child.stderr_file,
                "--precision",
                options_.precision};
  if (options_.etcd.empty()) {
    child.argv.insert(child.argv.end(), {"--server", addresses_.control});
  } else {
    child.argv.insert(child.argv.end(), {"--etcd", options_.etcd, "--run", options_.run_name});
  }
  if (options_.gpus.empty()) {
    child.argv.push_back("--cpu");
  } else {
    const std::string& gpus = options_.gpus[workers_.size() % options_.gpus.size()];
    child.argv.insert(child.argv.end(), {"--gpu", gpus});
  }
  AddTlsDir(&child.argv);
  PSGD_RETURN_IF_ERROR(AddPrefix(&child.argv));
  PSGD_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> worker,
                        ChildProcess::Start(std::move(child)));
  workers_.push_back(std::move(worker));
  return absl::OkStatus();
}

absl::Status LocalCluster::AddPrefix(std::vector<std::string>* argv) const {
  const std::vector<std::string>& prefixes = options_.worker_prefixes;
  if (prefixes.empty()) return absl::OkStatus();
  std::vector<std::string> words =
      absl::StrSplit(prefixes[workers_.size() % prefixes.size()], ' ', absl::SkipEmpty());
  if (words.empty()) return absl::OkStatus();
  PSGD_ASSIGN_OR_RETURN(words.front(), FoundProgram(words.front()));
  argv->insert(argv->begin(), words.begin(), words.end());
  return absl::OkStatus();
}

void LocalCluster::AddTlsDir(std::vector<std::string>* argv) const {
  if (!options_.tls_dir.empty()) argv->insert(argv->end(), {"--tls-dir", options_.tls_dir});
}

void LocalCluster::KillAll() {
  for (auto& worker : workers_) worker->Kill();
  for (auto& follower : followers_) follower.process->Kill();
  for (auto& host : hosts_) host->Kill();
  server_->Kill();
}

std::string LocalCluster::LogFile(const ChildProcess& child) const {
  const RunDir dir(addresses_.run_dir);
  if (&child == server_.get()) return RunDir(journal_dir_).ServerDir() + "/server.log";
  return absl::StrCat(dir.path(), "/", child.name(), "/worker.log");
}

std::string LocalCluster::Obituary(const ChildProcess& child) const {
  const std::string file = LogFile(child);
  std::string text = absl::StrCat(child.name(), " ", child.HowItEnded());
  std::string words = TailOfFile(file, kLogLines);
  if (!words.empty()) absl::StrAppend(&text, "; the end of ", file, ":\n", Indented(words));
  if (&child == server_.get() && !child.StderrTail().empty()) {
    absl::StrAppend(&text, "\nand its last words:\n", Indented(child.StderrTail()));
  }
  return text;
}

namespace {
constexpr Duration kLook = std::chrono::milliseconds(20);
}  // namespace

absl::Status LocalCluster::StartFollower(Duration patience) {
  const std::string name = absl::StrCat("follower-", ++followers_started_);
  ForgetEarlierServer(name);
  Follower follower;
  follower.run_dir = absl::StrCat(addresses_.run_dir, "/", name);
  const std::string& whom = options_.etcd.empty() ? addresses_.control : options_.run_name;
  std::vector<std::string> arguments = {
      "--follow",       whom,        "--port",          "0", "--run-dir",
      follower.run_dir, "--results", addresses_.run_dir};
  // Once it leads, where those who watch the run look for it.
  if (!addresses_.http.empty()) arguments.push_back("--http=" + addresses_.http);
  PSGD_ASSIGN_OR_RETURN(follower.process, StartServer(name, arguments));
  const Time start = SteadyNow();
  while (SteadyNow() - start < patience && follower.process->Running() && server_->Running()) {
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
    const auto leader =
        std::find_if(followers_.begin(), followers_.end(),
                     [](const Follower& follower) { return !follower.leads.empty(); });
    if (leader != followers_.end()) {
      Leads(leader->leads);
      server_ = std::move(leader->process);
      journal_dir_ = leader->run_dir;
      followers_.erase(leader);
      return absl::OkStatus();
    }
    any = std::any_of(followers_.begin(), followers_.end(), [](const Follower& follower) {
      return follower.process->Running() && !follower.may_not_lead;
    });
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

namespace {
constexpr Duration kHostLook = std::chrono::milliseconds(20);
constexpr int kFirstHost = 2;  // the first server is the coordinator
}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> LocalCluster::RunHost(const std::string& name) const {
  PSGD_ASSIGN_OR_RETURN(auto host,
                        StartServer(name, {"--join", addresses_.control, "--run-dir",
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
