// The connection of a server that holds shards to the one that coordinates the run. Hides gRPC:
// only the .cc includes it.
#pragma once

#include <memory>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "net/credentials.h"
#include "proto/hosting.pb.h"

namespace psgd {

// One thread may read while others write.
class HostLink {
 public:
  // Waits for the coordinator so long.
  HostLink(const std::string& coordinator, const Credentials* credentials, Duration patience,
           const HostSays::Hello& hello);
  ~HostLink();

  bool connected() const;
  // False: the connection ended.
  bool Read(HostTold* told);
  bool Write(const HostSays& says);
  // Makes calls that wait return false. Thread-safe.
  void Cancel();
  // Why it ended. REQUIRES: Read returned false.
  absl::Status Finish();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
