// Which server holds which shard. A pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace psgd {

// Spreads shards as evenly as possible over `servers`, with as few moves from `owners` (by shard: a
// server) as that takes. Shards of a server outside `servers` move to the others. An even spread
// stays as it is.
//
// REQUIRES: `servers` are distinct and not empty.
std::vector<uint32_t> SpreadShards(std::vector<uint32_t> owners, std::span<const uint32_t> servers);

}  // namespace psgd
