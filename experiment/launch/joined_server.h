// A ps-server beside a worker, on the worker's machine: it holds shards of the run.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "experiment/launch/child_process.h"

namespace psgd {

struct JoinedServerOptions {
  std::string server;                       // HOST:PORT of the server that leads the run
  std::string run_dir;                      // of this server
  std::string link;                         // of this machine; empty: as the system says
  std::string tls_dir;                      // empty: no TLS
  bool insecure = false;                    // may listen on a public address without TLS
  Duration deadline{};                      // to join within
  const std::atomic<int>* stops = nullptr;  // 1 ends Start; 2 makes End kill it, with its shards
};

// Not thread-safe.
class JoinedServer {
 public:
  // Returns once it has joined. An error holds its last words.
  static absl::StatusOr<std::unique_ptr<JoinedServer>> Start(const JoinedServerOptions& options);

  // Asks it to give its shards to other servers, unless the run is over, and waits until it ends.
  void End();

 private:
  JoinedServer(std::unique_ptr<ChildProcess> process, const std::atomic<int>* stops)
      : process_(std::move(process)), stops_(stops) {}

  const std::unique_ptr<ChildProcess> process_;
  const std::atomic<int>* const stops_;
};

}  // namespace psgd
