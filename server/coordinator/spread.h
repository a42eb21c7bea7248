// Which server holds which shard. A pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace psgd {

// As even as can be over `servers`, with as few moves from `owners` (by shard: a server) as that
// takes. What a server that is not among them holds goes to the others. Stable: of what is even
// nothing moves.
//
// REQUIRES: servers are distinct and at least one.
std::vector<uint32_t> SpreadShards(std::vector<uint32_t> owners, std::span<const uint32_t> servers);

}  // namespace psgd
