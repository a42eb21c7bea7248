// Who holds the shards of a run on several servers, as its status tells.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace psgd {

struct ServerShare {
  ServerStatus server;
  const char* state;             // live, leaves, left or away
  std::vector<uint32_t> shards;  // whose copies here serve workers
  uint64_t bytes = 0;            // of their weights
  int copies = 0;                // of other shards, that are in sync
  int catching_up = 0;           // that are not yet
};

// Empty: the run has only one server.
std::vector<ServerShare> SharesOf(const StatusReply& status);
// How many servers hold shards, 1 at least.
int ServersThatHold(const StatusReply& status);
// For whom a run that was asked to stop waits, how long at most and what helps, for people; empty:
// all that hold shards are there.
std::string StopWaitsFor(const StatusReply& status);

}  // namespace psgd
