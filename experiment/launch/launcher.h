// The processes of a run on this machine: one ps-server, those that follow it, and its ps-workers.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "experiment/launch/child_process.h"

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
  // Members of etcd, where the servers settle who leads; empty: they settle it among themselves.
  std::string etcd;
  std::string run_name;  // by which etcd knows the run
  Duration ready_deadline = std::chrono::seconds(60);
  const std::atomic<int>* stops = nullptr;  // more than zero ends the wait for the server
};

// What the server said when it was ready.
struct ServerAddresses {
  std::string control;  // HOST:PORT
  std::string http;     // empty: it has no dashboard
  std::string run_dir;
};

// Which server of the run's chain. Once one is gone, its number may be another's.
struct ServerOfChain {
  uint32_t replica = 0;
  std::string address;  // HOST:PORT
  auto operator<=>(const ServerOfChain&) const = default;
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
  // The next server that follows, called follower-1 and so on; waits until it does, or the server
  // died. CANCELLED: the run is to stop.
  absl::Status StartFollower(Duration patience);
  int followers() const { return static_cast<int>(followers_.size()); }
  // The next server that holds shards, called server-2 and so on; waits until it has joined.
  absl::Status StartHost();
  // Those that died, and that were not said before, by their place in the order in which they were
  // started.
  std::vector<size_t> TakeDeadHosts();
  // Starts one of them again, with what is on its disk.
  absl::Status RestartHost(size_t host);
  const ChildProcess& host(size_t host) const { return *hosts_[host]; }
  // Whether a follower takes the server for dead. If it is not, it has to be killed for that.
  bool SomeoneTakesOver();
  // The server died: waits until a follower leads, which then is the server. UNAVAILABLE: none
  // does, or may.
  absl::Status WaitTakenOver();
  // Those that ended since this was last asked.
  std::vector<ServerOfChain> TakeDeadFollowers();
  // Starts the server again, which died, where its journal ends, and waits until it is ready.
  absl::Status RecoverServer();
  void KillAll();

  const ServerAddresses& addresses() const { return addresses_; }
  ChildProcess& server() { return *server_; }
  std::vector<std::unique_ptr<ChildProcess>>& workers() { return workers_; }

  // For people: how it ended, where its log is, and the end of that log.
  std::string Obituary(const ChildProcess& child) const;

 private:
  explicit LocalCluster(const LaunchOptions& options) : options_(options) {}
  absl::StatusOr<std::unique_ptr<ChildProcess>> StartServer(
      const std::string& name, const std::vector<std::string>& arguments) const;
  absl::Status WaitReady();
  void Leads(const std::string& ready);
  absl::Status AddPrefix(std::vector<std::string>* argv) const;
  void AddTlsDir(std::vector<std::string>* argv) const;
  std::string LogFile(const ChildProcess& child) const;

  const LaunchOptions options_;
  ServerAddresses addresses_;
  std::unique_ptr<ChildProcess> server_;
  std::string journal_dir_;  // the run directory of the server's own
  struct Follower {
    std::unique_ptr<ChildProcess> process;
    ServerOfChain self;
    std::string run_dir;
    bool may_not_lead = false;  // unless it follows again
    bool takes_over = false;
    std::string leads;  // what it said when it was ready to; empty: it did not
  };
  // What a server of that name held in an earlier part of the run: this one goes on from a
  // checkpoint.
  void ForgetEarlierServer(const std::string& name) const;
  absl::StatusOr<std::unique_ptr<ChildProcess>> RunHost(const std::string& name) const;
  void HearFollowers();
  std::vector<Follower> followers_;
  int followers_started_ = 0;
  std::vector<std::unique_ptr<ChildProcess>> hosts_;
  std::set<size_t> dead_hosts_;  // that were said
  std::vector<std::unique_ptr<ChildProcess>> workers_;
};

}  // namespace psgd
