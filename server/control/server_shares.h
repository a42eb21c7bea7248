// Which servers hold the shards of a run, as its status tells.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace psgd {

struct ServerShare {
  ServerStatus server;
  const char* state;             // live, leaves, left or away
  std::vector<uint32_t> shards;  // shards that it leads
  uint64_t bytes = 0;            // of their weights
  int copies = 0;                // of other shards, in sync
  int catching_up = 0;           // of other shards, not in sync yet
};

// Empty: the run has only one server.
std::vector<ServerShare> SharesOf(const StatusReply& status);
// How many servers lead shards, at least 1.
int ServersThatHold(const StatusReply& status);
// For people: which servers a stopping run waits for, how long at most, and what helps. Empty: all
// servers that lead shards are there.
std::string StopWaitsFor(const StatusReply& status);
// The same for storage that cannot be written. REQUIRES: there is a storage_trouble.
std::string StopWaitsForStorage(const StatusReply& status);
// The same for a run store on other machines. REQUIRES: waits_for names it.
std::string StopWaitsForRunStore(const StatusReply& status);

}  // namespace psgd
