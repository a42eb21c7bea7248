// The processes of a run on this machine: one ps-server and its ps-workers.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "experiment/child_process.h"

namespace psgd {

struct LaunchOptions {
  std::vector<std::string> run;  // arguments of ps-server that say which run: --config FILE, ...
  int threads = 1;               // of a worker's step
  // Lists of GPUs: worker i trains on the i-th, from the front again where they are fewer; none: on
  // the processor.
  std::vector<std::string> gpus;
  std::string precision = "fp32";
  // With the certificates of a server, workers and an admin; empty: nobody is asked for any.
  std::string tls_dir;
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
  absl::Status StartServer(const std::vector<std::string>& arguments);
  absl::Status WaitReady();
  void AddTlsDir(std::vector<std::string>* argv) const;
  std::string LogFile(const ChildProcess& child) const;

  const LaunchOptions options_;
  ServerAddresses addresses_;
  std::unique_ptr<ChildProcess> server_;
  std::vector<std::unique_ptr<ChildProcess>> workers_;
};

}  // namespace psgd
