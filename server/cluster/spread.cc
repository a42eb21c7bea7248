#include "server/cluster/spread.h"

#include <algorithm>
#include <map>

namespace psgd {

std::vector<uint32_t> SpreadShards(std::vector<uint32_t> owners,
                                   std::span<const uint32_t> servers) {
  std::map<uint32_t, size_t> held;
  for (const uint32_t server : servers) held[server] = 0;
  for (const uint32_t owner : owners) {
    if (held.contains(owner)) ++held[owner];
  }
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto move = [&](uint32_t* owner) {
    const auto least = std::ranges::min_element(held, fewer);
    if (held.contains(*owner)) --held[*owner];
    ++least->second;
    *owner = least->first;
  };
  for (uint32_t& owner : owners) {
    if (!held.contains(owner)) move(&owner);
  }
  // The last shard of the fullest server moves first.
  while (true) {
    const auto [least, most] = std::minmax_element(held.begin(), held.end(), fewer);
    if (most->second - least->second <= 1) return owners;
    move(&*std::find(owners.rbegin(), owners.rend(), most->first));
  }
}

}  // namespace psgd
