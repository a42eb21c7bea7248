#include "experiment/launcher.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "experiment/program_dir.h"
#include "experiment/server_event.h"
#include "experiment/run_dir.h"

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
  const std::string message =
      absl::StrCat("ps-server did not start: it ", server.HowItEnded(),
                   words.empty() ? " and said nothing" : "\n", words.empty() ? "" : Indented(words));
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
  return absl::DeadlineExceededError(
      absl::StrCat("ps-server was not ready within ",
                   static_cast<int64_t>(Seconds(options_.ready_deadline)),
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
  child.argv = {program,   "--name",            child.name,   "--threads", absl::StrCat(options_.threads),
                "--quiet", "--die-with-parent", "--log-file", child.stderr_file,
                "--precision", options_.precision};
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
  PSGD_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> worker, ChildProcess::Start(std::move(child)));
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

}  // namespace psgd
