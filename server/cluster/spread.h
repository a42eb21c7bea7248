// Which server holds which shard. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace psgd {

// Where a server runs.
struct ServerPlace {
  bool beside_worker = false;  // on a worker's machine, whose link the two share
  double link = 0;             // bytes a second each way; 0: not known
};

// Numbers to which the bytes on servers are proportional, by server.
using ServerWeights = std::map<uint32_t, double>;

// The weights with which no link of the run is busy for longer than it has to be. A link whose
// speed is not known counts as the slowest that is known. `workers`: of the run.
ServerWeights WeighServers(const std::map<uint32_t, ServerPlace>& servers, uint64_t workers);

// Spreads shards over servers, so that their bytes are in proportion to `weights` as far as whole
// shards allow, with few moves from `owners` (by shard: a server). Shards of other servers, and of
// servers of weight 0, move away. The result stays as it is when it is spread again.
//
// REQUIRES: a weight is above 0; `bytes` are by shard.
std::vector<uint32_t> SpreadShards(std::vector<uint32_t> owners, std::span<const uint64_t> bytes,
                                   const ServerWeights& weights);

}  // namespace psgd
