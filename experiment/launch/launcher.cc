#include "experiment/launch/launcher.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/shell_line.h"
#include "experiment/launch/earlier_servers.h"
#include "experiment/launch/program_dir.h"
#include "experiment/launch/resume_advice.h"
#include "experiment/launch/server_event.h"
#include "experiment/record/run_dir.h"
#include "net/credentials.h"
#include "net/etcd/etcd_run_store.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/journal_folder.h"
#include "server/durability/server_record.h"

namespace psgd {
namespace {

constexpr Duration kLineWait = std::chrono::milliseconds(50);
constexpr Duration kLastOutput = std::chrono::milliseconds(100);
constexpr Duration kLook = std::chrono::milliseconds(20);
constexpr int kLogLines = 8;

std::string Indented(const std::string& text) {
  return absl::StrCat("  | ", absl::StrReplaceAll(text, {{"\n", "\n  | "}}));
}

std::string ServerLog(const std::string& run_dir) {
  return RunDir(run_dir).ServerDir() + "/server.log";
}

// Bytes of the log that earlier servers left in this directory.
off_t LogBegins(const std::string& run_dir) {
  std::error_code none;
  const auto bytes = std::filesystem::file_size(ServerLog(run_dir), none);
  return none ? 0 : static_cast<off_t>(bytes);
}

// The error of a server that did not start. Exit code 2 is the user's fault.
absl::Status StartFailure(const ChildProcess& server) {
  const std::string words = server.StderrTail();
  const std::string message = absl::StrCat("ps-server did not start: it ", server.HowItEnded(),
                                           words.empty() ? " and said nothing" : "\n",
                                           words.empty() ? "" : Indented(words));
  return server.exit_code() == 2 ? absl::InvalidArgumentError(message)
                                 : absl::UnavailableError(message);
}

// The words before that worker's command; none: it starts here.
std::vector<std::string> PrefixOf(const LaunchOptions& options, size_t worker) {
  const std::vector<std::string>& prefixes = options.worker_prefixes;
  if (prefixes.empty()) return {};
  return absl::StrSplit(prefixes[worker % prefixes.size()], ' ', absl::SkipEmpty());
}

absl::StatusOr<RunStore::Held> ReadRun(const LaunchOptions& options, const std::string& members) {
  std::shared_ptr<const Credentials> credentials;
  if (!options.tls_dir.empty()) {
    PSGD_ASSIGN_OR_RETURN(credentials,
                          LoadCredentials(CredentialFilesIn(options.tls_dir, "admin")));
  }
  PSGD_ASSIGN_OR_RETURN(EtcdOptions etcd, ParseEtcd(members, std::move(credentials)));
  return EtcdRunStore(std::move(etcd), options.run_name, Duration(0)).Read();
}

}  // namespace

std::optional<size_t> WorkerBesideFirst(const LaunchOptions& options) {
  if (!options.servers_on_workers) return std::nullopt;
  for (size_t worker = 0; worker < static_cast<size_t>(options.workers); ++worker) {
    if (PrefixOf(options, worker).empty()) return worker;
  }
  return std::nullopt;
}

int ServersHere(const LaunchOptions& options, int servers) {
  if (!options.servers_on_workers) return servers;
  int here = 0;
  for (int worker = 0; worker < options.workers; ++worker)
    here += PrefixOf(options, static_cast<size_t>(worker)).empty() ? 1 : 0;
  return std::max(here, 1);
}

StartedAs HowStarted(const LaunchOptions& options) {
  return {.servers_on_workers = options.servers_on_workers,
          .command = options.command,
          .etcd = options.etcd,
          .run_name = options.run_name,
          .servers = {},
          .tls_dir = options.tls_dir,
          .gpus = options.gpus,
          .workers = options.workers};
}

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(const LaunchOptions& options) {
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(options));
  absl::Status started;
  if (options.own_etcd) started = cluster->StartEtcd();
  if (started.ok()) started = cluster->StartFirstServer();
  if (started.ok()) return cluster;
  cluster->ForgetUnbegun();
  return started;
}

void LocalCluster::ForgetUnbegun() {
  if (!etcd_lock_.open()) return;  // another ps-run may be there
  servers_.clear();
  std::error_code ignored;
  const auto held = RunDir::Take(run_dir_);
  if (!held.ok() || std::filesystem::exists(held->ConfigFile(), ignored)) return;
  if (own_etcd_ != nullptr) own_etcd_->Remove();
  own_etcd_.reset();
  if (made_run_dir_) {
    std::filesystem::remove_all(run_dir_, ignored);
  } else {
    std::filesystem::remove(held->ServerDir(), ignored);  // if it is empty
  }
}

absl::Status LocalCluster::StartEtcd() {
  RunDirOptions dir;
  dir.path = options_.run_dir;
  dir.name = options_.run_name;
  dir.now = std::time(nullptr);
  dir.resume = options_.resumes;
  // First, because the server of another ps-run that is starting there does not hold it yet.
  std::error_code none;
  const bool is_there = std::filesystem::is_directory(RunDir(dir.path).ServerDir(), none);
  if (!dir.path.empty() && is_there) {
    PSGD_ASSIGN_OR_RETURN(etcd_lock_, LocalEtcd::Lock(dir.path));
  }
  {  // its hold ends here, so that the server can take it
    PSGD_ASSIGN_OR_RETURN(const RunDir taken, RunDir::Create(dir));
    run_dir_ = taken.path();
    made_run_dir_ = taken.is_new();
    if (!etcd_lock_.open()) {
      PSGD_ASSIGN_OR_RETURN(etcd_lock_, LocalEtcd::Lock(run_dir_));
    }
  }
  const std::string server_dir = RunDir(run_dir_).ServerDir();
  const auto start = [&](LocalEtcd::Data data) -> absl::Status {
    own_etcd_.reset();
    PSGD_ASSIGN_OR_RETURN(own_etcd_,
                          LocalEtcd::Start(server_dir, options_.tls_dir, data, options_.stops));
    etcd_members_ = own_etcd_->members();
    return absl::OkStatus();
  };
  const bool has_data = HasEtcdData(server_dir);
  bool has_record = false;
  if (options_.goes_on && has_data) {
    if (const absl::Status etcd = start(LocalEtcd::Data::kEarlier); !etcd.ok())
      return OrGoBack(etcd);
    const auto held = ReadRun(options_, etcd_members_);
    if (!held.ok()) return OrGoBack(held.status());
    has_record = held->record.has_plan();
    if (has_record && !held->record.over()) {
      std::string why;
      earlier_ = EarlierServers(run_dir_, held->record, &why);
      if (HasEarlierServer()) return absl::OkStatus();
      return OrGoBack(DataLossError("the run's etcd has its record, but no folder in ", run_dir_,
                                    " is of a server of the run", why));
    }
  }
  if (options_.goes_on && !has_record && JournalsGoFurther(run_dir_)) return OrGoBack(NoRecord());
  return start(LocalEtcd::Data::kNew);
}

absl::Status LocalCluster::StartFirstServer() {
  std::vector<std::string> arguments = {"--port", "0"};
  Server& first = servers_.emplace_back();
  started_ = 1;
  goes_on_ = HasEarlierServer();
  if (goes_on_) {
    started_ = LastServerDir(run_dir_);
    first.run_dir = earlier_.front();
    earlier_.erase(earlier_.begin());
    arguments.insert(arguments.end(), {"--recover", first.run_dir});
    if (first.run_dir != run_dir_) arguments.insert(arguments.end(), {"--results", run_dir_});
  } else {
    arguments.insert(arguments.end(), options_.run.begin(), options_.run.end());
    if (!run_dir_.empty() && options_.run_dir.empty()) {
      arguments.insert(arguments.end(), {"--run-dir", run_dir_});
    }
    if (WorkerBesideFirst(options_)) arguments.emplace_back("--beside-worker");
  }
  arguments.insert(arguments.end(), options_.pages.begin(), options_.pages.end());
  first.log_begins = LogBegins(goes_on_ ? first.run_dir : options_.run_dir);
  PSGD_ASSIGN_OR_RETURN(first.process, RunServer("ps-server", arguments, std::nullopt));
  const absl::Status ready = WaitReady();
  if (!ready.ok() && HasEarlierServer()) {
    const std::string journal = RunDir(first.run_dir).ServerDir() + "/journal";
    return OrGoBack(absl::Status(
        ready.code(),
        absl::StrCat(
            ready.message(),
            "\nIf its journal is damaged, others may have whole copies. To go on with them:  ",
            ShellLine({"mv", journal, journal + kAsideSuffix}), " && ",
            ResumeCommand(run_dir_, HowStarted(options_)))));
  }
  if (!ready.ok()) return goes_on_ ? OrGoBack(ready) : ready;
  if (!goes_on_) first.run_dir = addresses_.run_dir;
  if (own_etcd_ != nullptr) own_etcd_->DropEarlier();
  return absl::OkStatus();
}

absl::Status LocalCluster::NoRecord() const {
  const std::string server_dir = RunDir(run_dir_).ServerDir();
  const bool own = HasEtcdData(server_dir) || FileExists(EtcdLog(EtcdFolder(server_dir)));
  if (!own) {
    return FailedPreconditionError("the journals of ", run_dir_,
                                   " go further than its checkpoints, and need the etcd that the "
                                   "run was started with (--etcd MEMBERS): ",
                                   WhereRecordIs(server_dir));
  }
  return DataLossError("the journals of ", run_dir_,
                       " go further than its checkpoints, and need the run's record, which the "
                       "data of its etcd have no longer: put ",
                       EtcdFolder(server_dir), " back from a copy");
}

absl::Status LocalCluster::OrGoBack(const absl::Status& failure) const {
  const auto newest = failure.ok() ? std::nullopt : NewestCheckpoint(run_dir_);
  if (!newest || absl::IsCancelled(failure)) return failure;
  return absl::Status(
      failure.code(),
      absl::StrCat(failure.message(), "\nTo give up its journals and go back to a checkpoint:  ",
                   ResumeCommand(run_dir_, HowStarted(options_), absl::StrCat(newest->id()))));
}

bool LocalCluster::EtcdHasRun() const {
  if (etcd_members_.empty()) return false;
  const auto held = ReadRun(options_, etcd_members_);
  return !held.ok() || (held->record.has_plan() && !held->record.over());
}

std::vector<std::string> LocalCluster::ServerDirs() const {
  std::vector<std::string> dirs = {servers_[leads_].run_dir};
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (i != leads_ && !servers_[i].run_dir.empty()) dirs.push_back(servers_[i].run_dir);
  }
  return dirs;
}

void LocalCluster::ForgetRun() {
  if (own_etcd_ != nullptr) own_etcd_->Remove();
}

absl::Status LocalCluster::KeepEtcd() {
  if (own_etcd_ == nullptr) return absl::OkStatus();
  PSGD_ASSIGN_OR_RETURN(std::string note, own_etcd_->KeepRunning());
  if (!note.empty()) notes_.push_back(std::move(note));
  return absl::OkStatus();
}

absl::Status LocalCluster::RecoverServer() {
  Server& server = servers_[leads_];
  std::vector<std::string> arguments = {"--recover", server.run_dir};
  if (server.run_dir != addresses_.run_dir) {
    arguments.insert(arguments.end(), {"--results", addresses_.run_dir});
  }
  // The dashboard's viewers look for it at the old address.
  if (!addresses_.http.empty()) arguments.push_back("--http=" + addresses_.http);
  server.log_begins = LogBegins(server.run_dir);
  PSGD_ASSIGN_OR_RETURN(server.process, RunServer("ps-server", arguments, std::nullopt));
  return WaitReady();
}

absl::StatusOr<std::unique_ptr<ChildProcess>> LocalCluster::RunServer(
    const std::string& name, const std::vector<std::string>& arguments,
    std::optional<size_t> beside) const {
  PSGD_ASSIGN_OR_RETURN(const std::string program, SiblingProgram("ps-server"));
  ChildOptions child;
  child.name = name;
  child.argv = {program, "--json", "--quiet", "--die-with-parent"};
  if (beside) {
    child.argv.push_back("--beside-worker");
    if (options_.insecure) child.argv.push_back("--insecure");
  } else if (arguments.front() != "--recover") {  // that one listens at its old address
    child.argv.insert(child.argv.end(), options_.listen.begin(), options_.listen.end());
  }
  child.argv.insert(child.argv.end(), arguments.begin(), arguments.end());
  if (!etcd_members_.empty()) child.argv.insert(child.argv.end(), {"--etcd", etcd_members_});
  AddTlsDir(&child.argv);
  if (beside) PSGD_RETURN_IF_ERROR(AddPrefix(*beside, &child.argv));
  return ChildProcess::Start(std::move(child));
}

void LocalCluster::Leads(size_t server, const std::string& ready) {
  const auto said = nlohmann::json::parse(ready);
  const std::string run_dir = addresses_.run_dir;  // people were told this path, so it stays
  addresses_ = {said.value("control", ""), said.value("http", ""), said.value("run_dir", ""),
                said.value("notes", std::vector<std::string>())};
  if (!run_dir.empty()) addresses_.run_dir = run_dir;
  servers_[server].control = addresses_.control;
  leads_ = server;
}

absl::Status LocalCluster::WaitReady() {
  ChildProcess& server = leader();
  const Time start = SteadyNow();
  while (SteadyNow() - start < options_.ready_deadline) {
    const bool running = server.Running();
    const auto line = server.ReadLine(running ? kLineWait : kLastOutput);
    if (!line) {
      if (!running) return StartFailure(server);
      PSGD_RETURN_IF_ERROR(KeepEtcd());
      if (options_.stops != nullptr && *options_.stops > 0) {
        return absl::CancelledError("stopped before the server was ready; nothing was trained");
      }
      continue;
    }
    if (EventOf(*line) != "ready") continue;
    Leads(leads_, *line);
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "ps-server was not ready within ", static_cast<int64_t>(Seconds(options_.ready_deadline)),
      " s (cluster.deadline); is the disk or the machine overloaded?"));
}

absl::Status LocalCluster::Join(const std::string& name, const std::string& run_dir,
                                Server* server) {
  const std::string& whom = etcd_members_.empty() ? addresses_.control : options_.run_name;
  std::vector<std::string> arguments = {"--join", whom, "--run-dir", run_dir};
  if (!etcd_members_.empty()) {
    arguments.insert(arguments.end(), {"--results", addresses_.run_dir});
    // Once this server leads, viewers of the run look for it at this address.
    if (!addresses_.http.empty()) arguments.push_back("--http=" + addresses_.http);
  }
  server->log_begins = LogBegins(run_dir);
  PSGD_ASSIGN_OR_RETURN(server->process, RunServer(name, arguments, server->beside));
  server->run_dir = run_dir;
  const size_t number = static_cast<size_t>(server - servers_.data());
  // A run that is asked to stop may need this server for its last checkpoint.
  const auto stopped = [&] { return options_.stops != nullptr && *options_.stops > 1; };
  const auto leader_died = [&] {
    return number != leads_ && !leader().Running() && etcd_members_.empty();
  };
  absl::Status etcd;
  PSGD_ASSIGN_OR_RETURN(const auto joined,
                        AwaitJoined(*server->process, options_.ready_deadline, [&] {
                          etcd = KeepEtcd();
                          return stopped() || leader_died() || !etcd.ok();
                        }));
  PSGD_RETURN_IF_ERROR(etcd);
  if (joined) {
    if (EventOf(*joined) == "ready") {
      Leads(number, *joined);
    } else {
      server->control = nlohmann::json::parse(*joined).value("control", "");
    }
    return absl::OkStatus();
  }
  if (stopped()) return absl::CancelledError(absl::StrCat("stopped before ", name, " had joined"));
  return absl::OkStatus();  // Supervise handles the dead leader
}

absl::Status LocalCluster::StartServer() {
  if (HasEarlierServer()) {
    const std::string run_dir = earlier_.front();
    earlier_.erase(earlier_.begin());
    const std::string name = std::filesystem::path(run_dir).filename();
    servers_.emplace_back();
    const absl::Status joined = Join(name, run_dir, &servers_.back());
    if (joined.ok() || !MayReplace(servers_.back())) return OrGoBack(joined);
    servers_.pop_back();
    const std::string aside = run_dir + kAsideSuffix;
    std::error_code failed;
    std::filesystem::rename(run_dir, aside, failed);
    if (failed) return FileError("rename", run_dir, failed.value());
    notes_.push_back(absl::StrCat(joined.message(),
                                  "\nIts shards have other copies: a new server "
                                  "takes its place, and its folder is now ",
                                  aside));
  }
  const std::string name = absl::StrCat("server-", ++started_);
  const std::string run_dir = absl::StrCat(addresses_.run_dir, "/", name);
  ForgetEarlierServer(run_dir);
  servers_.emplace_back();
  return Join(name, run_dir, &servers_.back());
}

bool LocalCluster::MayReplace(const Server& joined) {
  if (joined.process == nullptr || joined.process->Running()) return false;
  if (joined.process->exit_code() < 0) return false;  // it was too slow, or stopped
  const auto own = LoadServerRecord(RunDir(joined.run_dir).ServerDir());
  const auto held = ReadRun(options_, etcd_members_);
  if (!own.ok() || !held.ok()) return false;
  for (const auto& server : held->record.servers()) {
    if (server.identity() == own->identity()) replaced_.insert(server.server());
  }
  return std::ranges::all_of(held->record.shards(), [&](const ShardCopies& shard) {
    return std::ranges::any_of(shard.in_sync(),
                               [&](uint32_t server) { return !replaced_.contains(server); });
  });
}

bool LocalCluster::NeedsServerBeside() const {
  return options_.servers_on_workers && WorkerBesideFirst(options_) != workers_.size();
}

absl::Status LocalCluster::StartServerBeside(const std::string& worker) {
  const std::string run_dir = absl::StrCat(addresses_.run_dir, "/", worker, "/server");
  ForgetEarlierServer(run_dir);
  servers_.emplace_back().beside = workers_.size();
  return Join(absl::StrCat("the server beside ", worker), run_dir, &servers_.back());
}

void LocalCluster::EndServerBeside(const ChildProcess& worker) {
  // A prefix as ssh keeps the signal to itself, so it would kill the server that has shards.
  if (!options_.worker_prefixes.empty()) return;
  for (Server& server : servers_) {
    const bool is_its = server.beside && *server.beside < workers_.size() &&
                        workers_[*server.beside].get() == &worker;
    if (is_its) server.process->Signal(SIGTERM);
  }
}

void LocalCluster::ForgetEarlierServer(const std::string& run_dir) const {
  const auto earlier = RunDir::Take(run_dir);
  if (!earlier.ok()) return;  // no earlier server, or a running one: Join reports it
  std::error_code ignored;    // likewise
  std::filesystem::remove_all(earlier->ServerDir(), ignored);
}

bool LocalCluster::HearServers() {
  const size_t led = leads_;
  for (size_t i = 0; i < servers_.size(); ++i) {
    while (const auto line = servers_[i].process->ReadLine(Duration(0))) {
      const std::string event = EventOf(*line);
      if (event == "taking_over" && i != leads_) leader().Kill();
      if (event == "ready") Leads(i, *line);
    }
  }
  return leads_ != led;
}

bool LocalCluster::IsAnotherAlive() const {
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (i != leads_ && servers_[i].process->Running()) return true;
  }
  return false;
}

absl::Status LocalCluster::WaitTakenOver() {
  const Time start = SteadyNow();
  while (SteadyNow() - start < options_.ready_deadline && IsAnotherAlive()) {
    if (HearServers()) return absl::OkStatus();
    PSGD_RETURN_IF_ERROR(KeepEtcd());  // without it, no server may lead
    if (options_.stops != nullptr && *options_.stops > 1) break;
    std::this_thread::sleep_for(kLook);
  }
  return absl::UnavailableError("no other server leads the run");
}

std::vector<size_t> LocalCluster::TakeDeadServers() {
  std::vector<size_t> dead;
  for (size_t i = 0; i < servers_.size(); ++i) {
    ChildProcess& process = *servers_[i].process;
    // A server that exits with 0 saw the end of the run.
    if (i == leads_ || process.Running() || process.exit_code() == 0) continue;
    if (!std::exchange(servers_[i].told_dead, true)) dead.push_back(i);
  }
  return dead;
}

absl::Status LocalCluster::RestartServer(size_t number) {
  Server& server = servers_[number];
  server.told_dead = false;
  std::string run_dir = server.run_dir;
  std::string name = server.process->name();
  // Another server writes to that directory now.
  if (run_dir == addresses_.run_dir) {
    name = absl::StrCat("server-", ++started_);
    run_dir = absl::StrCat(addresses_.run_dir, "/", name);
    ForgetEarlierServer(run_dir);
  }
  return Join(name, run_dir, &server);
}

std::vector<std::string> LocalCluster::ControlAddresses() const {
  std::vector<std::string> addresses = {addresses_.control};
  for (const Server& server : servers_) {
    const bool lives = server.process->Running() && !server.control.empty();
    if (lives && server.control != addresses_.control) addresses.push_back(server.control);
  }
  return addresses;
}

absl::Status LocalCluster::StartWorker() {
  const int index = static_cast<int>(workers_.size());
  const RunDir dir(addresses_.run_dir);
  std::error_code error;
  std::filesystem::create_directories(dir.WorkerDir(index), error);
  if (error) return FileError("make the folder", dir.WorkerDir(index), error.value());
  ChildOptions child;
  child.name = absl::StrCat("worker-", index);
  // The worker's log and stderr go to one file, in order.
  child.stderr_file = dir.WorkerDir(index) + "/worker.log";
  if (!options_.command.empty()) return StartCommand(std::move(child));
  PSGD_ASSIGN_OR_RETURN(const std::string program, SiblingProgram("ps-worker"));
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
  if (etcd_members_.empty()) {
    child.argv.insert(child.argv.end(), {"--server", addresses_.control});
  } else {
    child.argv.insert(child.argv.end(), {"--etcd", etcd_members_, "--run", options_.run_name});
  }
  if (options_.gpus.empty()) {
    child.argv.push_back("--cpu");
  } else {
    child.argv.insert(child.argv.end(), {"--gpu", NextGpus()});
  }
  if (NeedsServerBeside()) {
    ForgetEarlierServer(dir.WorkerDir(index) + "/server");
    child.argv.insert(child.argv.end(), {"--with-server", dir.WorkerDir(index) + "/server"});
    if (options_.insecure) child.argv.push_back("--insecure");
  }
  AddTlsDir(&child.argv);
  PSGD_RETURN_IF_ERROR(AddPrefix(workers_.size(), &child.argv));
  PSGD_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> worker,
                        ChildProcess::Start(std::move(child)));
  workers_.push_back(std::move(worker));
  return absl::OkStatus();
}

// python/psgd/_environment.py reads these variables.
absl::Status LocalCluster::StartCommand(ChildOptions child) {
  if (NeedsServerBeside()) PSGD_RETURN_IF_ERROR(StartServerBeside(child.name));
  child.argv = options_.command;
  PSGD_ASSIGN_OR_RETURN(child.argv.front(), FoundProgram(child.argv.front()));
  child.logs_output = true;
  child.environment = {
      absl::StrCat("PSGD_SERVER=", absl::StrJoin(ControlAddresses(), ",")),
      absl::StrCat("PSGD_NAME=", child.name), absl::StrCat("PSGD_WORKER=", workers_.size()),
      absl::StrCat("PSGD_SEED=", options_.seed), absl::StrCat("PSGD_TLS_DIR=", options_.tls_dir)};
  if (!options_.gpus.empty()) {
    child.environment.push_back(absl::StrCat("CUDA_VISIBLE_DEVICES=", NextGpus()));
  }
  const auto set_unless_given = [&](const char* name, const std::string& value) {
    const char* const given = getenv(name);
    child.environment.push_back(absl::StrCat(name, "=", given != nullptr ? given : value.c_str()));
  };
  set_unless_given("PYTHONUNBUFFERED", "1");  // what a program prints is in its log at once
  set_unless_given("OMP_NUM_THREADS", absl::StrCat(options_.threads));
  const auto library = SiblingProgram("libpsgd.so");
  if (library.ok()) set_unless_given("PSGD_LIBRARY", *library);
  // Beside a build, psgd need not be installed for that Python.
  if (const auto package = ShippedFile("python/psgd/__init__.py"); package.ok()) {
    const char* const given = getenv("PYTHONPATH");
    const std::filesystem::path folder =
        std::filesystem::path(*package).parent_path().parent_path();
    child.environment.push_back(absl::StrCat("PYTHONPATH=", given != nullptr ? given : "",
                                             given != nullptr && *given != 0 ? ":" : "",
                                             folder.string()));
  }
  // What a prefix starts may get another environment, as of ssh.
  if (!options_.worker_prefixes.empty()) {
    child.argv.insert(child.argv.begin(), child.environment.begin(), child.environment.end());
    PSGD_ASSIGN_OR_RETURN(std::string env, FoundProgram("env"));
    child.argv.insert(child.argv.begin(), std::move(env));
  }
  PSGD_RETURN_IF_ERROR(AddPrefix(workers_.size(), &child.argv));
  PSGD_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> worker,
                        ChildProcess::Start(std::move(child)));
  workers_.push_back(std::move(worker));
  return absl::OkStatus();
}

const std::string& LocalCluster::NextGpus() const {
  return options_.gpus[workers_.size() % options_.gpus.size()];
}

absl::Status LocalCluster::AddPrefix(size_t worker, std::vector<std::string>* argv) const {
  std::vector<std::string> words = PrefixOf(options_, worker);
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
  for (Server& server : servers_) server.process->Kill();
}

std::string LocalCluster::Obituary(const ChildProcess& child) const {
  std::string file = absl::StrCat(addresses_.run_dir, "/", child.name(), "/worker.log");
  std::string words = child.StderrTail();
  const Server* of_child = nullptr;
  for (const Server& server : servers_) {
    if (server.process.get() == &child) of_child = &server;
  }
  if (of_child != nullptr) {
    file = ServerLog(of_child->run_dir);
    words = TailOfFile(file, kLogLines, of_child->log_begins);
  }
  std::string text = absl::StrCat(child.name(), " ", child.HowItEnded());
  if (!words.empty()) absl::StrAppend(&text, "; the end of ", file, ":\n", Indented(words));
  if (&child == servers_[leads_].process.get() && !child.StderrTail().empty()) {
    absl::StrAppend(&text, "\nand its last words:\n", Indented(child.StderrTail()));
  }
  return text;
}

}  // namespace psgd
