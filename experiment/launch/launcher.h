// Starts the processes of a run on this machine: its ps-servers and ps-workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "experiment/launch/child_process.h"
#include "experiment/launch/local_etcd.h"
#include "experiment/launch/resume_advice.h"

namespace psgd {

struct LaunchOptions {
  std::vector<std::string> run;     // arguments of ps-server that name the run: --config FILE, ...
  std::vector<std::string> pages;   // arguments of ps-server for what it shows: --http=7080, ...
  std::vector<std::string> listen;  // arguments of ps-server that say where it listens
  int threads = 1;                  // threads of a worker's step
  // A program and its arguments: the workers run it in place of ps-worker, and find the run in
  // their environment. Empty: ps-worker.
  std::vector<std::string> command;
  uint64_t seed = 0;  // the config's, for the command
  int workers = 1;    // the config's, for advice
  // Lists of GPUs. Worker i gets the i-th list; the lists repeat if there are fewer than workers.
  // Empty: ps-worker uses the CPU, and a command sees every GPU.
  std::vector<std::string> gpus;
  std::string precision = "fp32";
  // Words before a worker's command, and before the server beside it, that start it elsewhere, such
  // as "ip netns exec host-2" or "srun --het-group=1". Worker i gets the i-th prefix; prefixes
  // repeat if there are fewer than workers.
  std::vector<std::string> worker_prefixes;
  bool servers_on_workers = false;  // a server is beside each worker
  bool insecure = false;            // those servers may listen on public addresses without TLS
  // A folder with the certificates of a server, workers and an admin. Empty: no TLS.
  std::string tls_dir;
  // The members of etcd, through which the servers choose who leads. Empty: the first server always
  // leads.
  std::string etcd;
  bool own_etcd = false;  // the launcher starts an etcd for this run
  // The directory of the run that is resumed, or of a new one, where the data of own_etcd are.
  // Empty: a new one under runs/.
  std::string run_dir;
  bool resumes = false;
  bool goes_on = false;  // resumes where the journals end, if its etcd has the run's record
  std::string run_name;  // the run's name in etcd
  Duration ready_deadline = std::chrono::seconds(60);
  const std::atomic<int>* stops = nullptr;  // a value above zero ends the wait for the server
};

// With servers_on_workers: the worker beside which the first server is, since no prefix starts that
// worker elsewhere. Nothing: there is none, so the first server is beside no worker.
std::optional<size_t> WorkerBesideFirst(const LaunchOptions& options);
// How many of the run's servers are on this machine, as far as the prefixes say.
int ServersHere(const LaunchOptions& options, int servers);

// For the advice on how to go on, without `servers`.
StartedAs HowStarted(const LaunchOptions& options);

// What the server reported when it was ready.
struct ServerAddresses {
  std::string control;  // HOST:PORT
  std::string http;     // empty: no dashboard
  std::string run_dir;
  std::vector<std::string> notes;  // what it passed over as it started
};

// Not thread-safe. The destructor kills the remaining processes. They also end when the thread that
// called Start ends.
class LocalCluster {
 public:
  // Starts the server and waits until it is ready. If the server ends first, the error holds its
  // last words.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(const LaunchOptions& options);

  // Whether etcd still has the run, which then goes on where its journals end. True, too, if etcd
  // does not answer.
  bool EtcdHasRun() const;
  // The run directories of the servers, the leader's first.
  std::vector<std::string> ServerDirs() const;
  // Removes the data of this launcher's etcd.
  void ForgetRun();
  // Starts the next worker: worker-0, worker-1 and so on.
  absl::Status StartWorker();
  // Starts the next server: one that an earlier ps-run left, as long as there is one; then
  // server-2 and so on. Waits until the server has joined the run.
  absl::Status StartServer();
  bool HasEarlierServer() const { return !earlier_.empty(); }
  // Whether servers that an earlier ps-run left are started again, with their data.
  bool goes_on() const { return goes_on_; }
  // The server beside a worker that runs a command gives its shards to others, and ends.
  void EndServerBeside(const ChildProcess& worker);
  // Reads what the servers report. Returns true if another server now leads the run. The old leader
  // is killed, because it must no longer write to the run directory.
  bool HearServers();
  // Waits until another server leads, after the leader died. UNAVAILABLE: no server leads.
  absl::Status WaitTakenOver();
  // Returns the dead servers that do not lead, each of them once.
  std::vector<size_t> TakeDeadServers();
  // Restarts a dead server with the data on its disk. If another server now writes to that
  // directory, the restarted server gets an empty one.
  absl::Status RestartServer(size_t server);
  const ChildProcess& server(size_t number) const { return *servers_[number].process; }
  bool IsAnotherAlive() const;
  // Restarts the dead leader from the end of its journal and waits until it is ready.
  absl::Status RecoverServer();
  // The addresses of all live servers, the leader's first.
  std::vector<std::string> ControlAddresses() const;
  // Starts this launcher's etcd again if it ended. UNAVAILABLE: it ends again and again.
  absl::Status KeepEtcd();
  // For people: what the launcher did by itself since the last call.
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }
  // In the form of --etcd; empty: the run has no etcd.
  const std::string& etcd() const { return etcd_members_; }
  void KillAll();

  const ServerAddresses& addresses() const { return addresses_; }
  // The server that leads the run.
  ChildProcess& leader() { return *servers_[leads_].process; }
  std::vector<std::unique_ptr<ChildProcess>>& workers() { return workers_; }

  // Says for people how the child ended and where its log is, and shows the end of the log.
  std::string Obituary(const ChildProcess& child) const;

 private:
  struct Server {
    std::unique_ptr<ChildProcess> process;
    std::string run_dir;
    std::string control;           // HOST:PORT; empty: the server has not reported it
    std::optional<size_t> beside;  // the worker on whose machine the server runs
    off_t log_begins = 0;          // bytes that were in its log before this process
    bool told_dead = false;
  };

  explicit LocalCluster(const LaunchOptions& options)
      : options_(options), etcd_members_(options.etcd) {}
  absl::StatusOr<std::unique_ptr<ChildProcess>> RunServer(const std::string& name,
                                                          const std::vector<std::string>& arguments,
                                                          std::optional<size_t> beside) const;
  // Removes what a run that never began left, unless another process has its directory.
  void ForgetUnbegun();
  // Starts an etcd, and finds the servers that go on.
  absl::Status StartEtcd();
  absl::Status StartFirstServer();
  // Why a run with journals cannot go on where they end.
  absl::Status NoRecord() const;
  // The error, with the command that gives up the journals and goes back to a checkpoint.
  absl::Status OrGoBack(const absl::Status& failure) const;
  absl::Status WaitReady();
  // Starts a server in `run_dir` and waits until it has joined the run.
  absl::Status Join(const std::string& name, const std::string& run_dir, Server* server);
  // Whether the run may go on without that joined server, which ended as it joined: each of its
  // shards has another copy that is whole.
  bool MayReplace(const Server& joined);
  void Leads(size_t server, const std::string& ready);
  void ForgetEarlierServer(const std::string& run_dir) const;
  // The GPUs of the next worker. REQUIRES: there are lists of GPUs.
  const std::string& NextGpus() const;
  // Puts the prefix of that worker in front of the command.
  absl::Status AddPrefix(size_t worker, std::vector<std::string>* argv) const;
  absl::Status StartCommand(ChildOptions child);
  // Whether the next worker needs a server beside it.
  bool NeedsServerBeside() const;
  // Starts a server beside the next worker.
  absl::Status StartServerBeside(const std::string& worker);
  void AddTlsDir(std::vector<std::string>* argv) const;

  const LaunchOptions options_;
  std::string run_dir_;  // with own_etcd_
  bool made_run_dir_ = false;
  FileDescriptor etcd_lock_;  // held against another ps-run, longer than own_etcd_
  std::unique_ptr<LocalEtcd> own_etcd_;
  std::vector<std::string> earlier_;  // directories of servers that are to be started again
  std::set<uint32_t> replaced_;       // numbers of such servers that could not be started again
  bool goes_on_ = false;
  std::string etcd_members_;
  std::vector<std::string> notes_;  // not shown yet
  ServerAddresses addresses_;
  std::vector<Server> servers_;  // in the order of their start
  size_t leads_ = 0;
  int started_ = 0;
  std::vector<std::unique_ptr<ChildProcess>> workers_;
};

}  // namespace psgd
