// The processes of a run on this machine: its ps-servers and ps-workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "experiment/launch/child_process.h"
#include "experiment/launch/local_etcd.h"

namespace psgd {

struct LaunchOptions {
  std::vector<std::string> run;     // arguments of ps-server that say which run: --config FILE, ...
  std::vector<std::string> listen;  // arguments of ps-server that say where it listens
  int threads = 1;                  // of a worker's step
  // Lists of GPUs: worker i trains on the i-th, from the front again where they are fewer; none: on
  // the processor.
  std::vector<std::string> gpus;
  std::string precision = "fp32";
  // Words before the command of worker i, the i-th of these, from the front again where they are
  // fewer: what starts it elsewhere, as "ip netns exec host-2" or "srun --het-group=1".
  std::vector<std::string> worker_prefixes;
  // With the certificates of a server, workers and an admin; empty: nobody is asked for any.
  std::string tls_dir;
  // Members of etcd, where the servers settle who leads; empty: the first leads, always.
  std::string etcd;
  bool own_etcd = false;  // one is started for this run
  std::string run_name;   // by which etcd knows the run
  Duration ready_deadline = std::chrono::seconds(60);
  const std::atomic<int>* stops = nullptr;  // more than zero ends the wait for the server
};

// What the server said when it was ready.
struct ServerAddresses {
  std::string control;  // HOST:PORT
  std::string http;     // empty: it has no dashboard
  std::string run_dir;
};

// Kills what is left of the processes when it goes. Belongs to the thread that started it: the
// processes end when that thread does.
class LocalCluster {
 public:
  // Starts the server and waits until it is ready. One that ends before is an error with its last
  // words.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(const LaunchOptions& options);

  // The next one, called worker-0 and so on.
  absl::Status StartWorker();
  // The next server, called server-2 and so on; waits until it has joined the run.
  absl::Status StartServer();
  // Hears what servers said. True: another one leads the run since; the one that led before is
  // killed, for it must not write to the run directory any more.
  bool HearServers();
  // The server that led died: waits until another one leads. UNAVAILABLE: none does.
  absl::Status WaitTakenOver();
  // Those that died and do not lead, and that were not said before.
  std::vector<size_t> TakeDeadServers();
  // Starts one of them again, with what is on its disk, or in an empty directory where another
  // server writes the run's results to its own.
  absl::Status RestartServer(size_t server);
  const ChildProcess& server(size_t number) const { return *servers_[number].process; }
  bool IsAnotherAlive() const;
  // Starts the server again that leads the run and died, where its journal ends, and waits until it
  // is ready.
  absl::Status RecoverServer();
  // Of all that live, the one that leads first.
  std::vector<std::string> ControlAddresses() const;
  // As --etcd takes it; empty: there is none.
  const std::string& etcd() const { return etcd_members_; }
  void KillAll();

  const ServerAddresses& addresses() const { return addresses_; }
  // The one that leads the run.
  ChildProcess& leader() { return *servers_[leads_].process; }
  std::vector<std::unique_ptr<ChildProcess>>& workers() { return workers_; }

  // For people: how it ended, where its log is, and the end of that log.
  std::string Obituary(const ChildProcess& child) const;

 private:
  struct Server {
    std::unique_ptr<ChildProcess> process;
    std::string run_dir;
    std::string control;  // HOST:PORT; empty: it did not say
    bool told_dead = false;
  };

  explicit LocalCluster(const LaunchOptions& options)
      : options_(options), etcd_members_(options.etcd) {}
  absl::StatusOr<std::unique_ptr<ChildProcess>> RunServer(
      const std::string& name, const std::vector<std::string>& arguments) const;
  absl::Status WaitReady();
  // Starts a server in that directory, which joins the run, and waits until it has.
  absl::Status Join(const std::string& name, const std::string& run_dir, Server* server);
  void Leads(size_t server, const std::string& ready);
  void ForgetEarlierServer(const std::string& run_dir) const;
  absl::Status AddPrefix(std::vector<std::string>* argv) const;
  void AddTlsDir(std::vector<std::string>* argv) const;
  std::string LogFile(const ChildProcess& child) const;

  const LaunchOptions options_;
  std::unique_ptr<LocalEtcd> own_etcd_;
  std::string etcd_members_;
  ServerAddresses addresses_;
  std::vector<Server> servers_;  // in the order in which they were started
  size_t leads_ = 0;
  int started_ = 0;
  std::vector<std::unique_ptr<ChildProcess>> workers_;
};

}  // namespace psgd
