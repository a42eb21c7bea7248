// A follower's connection to a leader, and anybody's question who leads. Hides gRPC: only the .cc
// includes it.
#pragma once

#include <memory>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "net/credentials.h"
#include "proto/replication.pb.h"

namespace psgd {

// One log that the leader sends. One thread may read while another writes.
class LeaderLink {
 public:
  // Waits for the leader so long.
  LeaderLink(const std::string& leader, const Credentials* credentials, Duration patience,
             const FollowerSays::Ask& ask);
  ~LeaderLink();

  bool connected() const;
  // False: the connection ended.
  bool Read(LogPart* part);
  bool Written(uint64_t number);
  // Makes calls that wait return false. Thread-safe.
  void Cancel();
  // Why it ended. REQUIRES: Read returned false.
  absl::Status Finish();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

absl::StatusOr<Leadership> WhoLeads(const std::string& server, const Credentials* credentials,
                                    Duration patience);

}  // namespace psgd
