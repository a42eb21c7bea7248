// A ps-server beside a worker, on the worker's machine: it holds shards of the run.
#pragma once

#include <memory>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "experiment/launch/child_process.h"

namespace psgd {

struct JoinedServerOptions {
  std::string server;     // HOST:PORT of a server of the run
  std::string etcd, run;  // instead, for --join: members of etcd, and the run's name
  std::string run_dir;    // of this server
  std::string tls_dir;    // empty: no TLS
  bool insecure = false;  // may listen on a public address without TLS
  Duration deadline{};    // to join within
};

// The server's address is the one from which this machine reaches the run. Not thread-safe.
class JoinedServer {
 public:
  // Returns once it has joined. An error holds its last words.
  static absl::StatusOr<std::unique_ptr<JoinedServer>> Start(const JoinedServerOptions& options);

  // Waits until it ends, as it does with the run. `leaves`: asks it to give its shards to other
  // servers first. It is killed after `deadline`.
  void End(bool leaves, Duration deadline);

 private:
  explicit JoinedServer(std::unique_ptr<ChildProcess> process) : process_(std::move(process)) {}

  const std::unique_ptr<ChildProcess> process_;
};

}  // namespace psgd
