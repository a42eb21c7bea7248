// Which server holds which shard. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace psgd {

// Numbers to which the bytes on servers are proportional, by server.
using ServerWeights = std::map<uint32_t, uint64_t>;

// The weights with which every link of the run is as busy as the others. `beside`: by server,
// whether it runs on a worker's machine. `workers`: of the run.
ServerWeights WeighServers(const std::map<uint32_t, bool>& beside, uint64_t workers);

// Spreads shards over servers, so that their bytes are in proportion to `weights` as far as whole
// shards allow, with few moves from `owners` (by shard: a server). Shards of other servers, and of
// servers of weight 0, move away. The result stays as it is when it is spread again.
//
// REQUIRES: a weight is above 0; `bytes` are by shard.
std::vector<uint32_t> SpreadShards(std::vector<uint32_t> owners, std::span<const uint64_t> bytes,
                                   const ServerWeights& weights);

}  // namespace psgd
