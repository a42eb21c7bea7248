#include "server/cluster/spread.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace psgd {
namespace {

struct Load {
  double bytes = 0;
  double weight = 1;

  // The bytes for its weight, with so many more.
  double With(double more) const { return (bytes + more) / weight; }
};

class Spreading {
 public:
  Spreading(std::vector<uint32_t> owners, std::span<const uint64_t> bytes,
            const ServerWeights& weights)
      : owners_(std::move(owners)), bytes_(bytes) {
    for (const auto& [server, weight] : weights) {
      if (weight > 0) loads_[server].weight = static_cast<double>(weight);
    }
    for (size_t s = 0; s < owners_.size(); ++s) {
      const auto load = loads_.find(owners_[s]);
      if (load != loads_.end()) load->second.bytes += SizeOf(s);
    }
  }

  // The largest first.
  void PlaceHomeless() {
    std::vector<size_t> homeless;
    for (size_t s = 0; s < owners_.size(); ++s) {
      if (!loads_.contains(owners_[s])) homeless.push_back(s);
    }
    std::ranges::stable_sort(homeless, [&](size_t a, size_t b) { return SizeOf(a) > SizeOf(b); });
    for (const size_t shard : homeless) {
      owners_[shard] = LightestWith(SizeOf(shard), 0);
      loads_[owners_[shard]].bytes += SizeOf(shard);
    }
  }

  // False: no move is worth it.
  bool MoveOne() {
    std::vector<uint32_t> servers;
    for (const auto& [server, load] : loads_) servers.push_back(server);
    std::ranges::stable_sort(servers, std::ranges::greater(),
                             [&](uint32_t server) { return loads_.at(server).With(0); });
    return std::ranges::any_of(servers, [&](uint32_t server) { return MoveFrom(server); });
  }

  std::vector<uint32_t> TakeOwners() { return std::move(owners_); }

 private:
  // A shard moves if its server holds more than the other even after this part of it has moved.
  // Half of it makes the sum of bytes^2 / weight the smallest. A little more keeps shards of nearly
  // equal size where they are.
  static constexpr double kMoved = 5.0 / 8;

  // A shard without slices counts, too, so that its thread is not always the same server's.
  double SizeOf(size_t shard) const {
    return static_cast<double>(std::max<uint64_t>(bytes_[shard], 1));
  }

  // The best server, except `other`, for a shard of this size; 0: there is none.
  uint32_t LightestWith(double size, uint32_t other) const {
    uint32_t lightest = 0;
    for (const auto& [server, load] : loads_) {
      if (server == other) continue;
      if (lightest == 0 || load.With(size / 2) < loads_.at(lightest).With(size / 2))
        lightest = server;
    }
    return lightest;
  }

  // Moves the shard whose move helps most; of equal ones the last.
  bool MoveFrom(uint32_t from) {
    std::optional<size_t> best;
    double most = 0;
    for (size_t shard = owners_.size(); shard-- > 0;) {
      if (owners_[shard] != from) continue;
      const double size = SizeOf(shard);
      const uint32_t to = LightestWith(size, from);
      if (to == 0) return false;
      const Load &now = loads_.at(from), &other = loads_.at(to);
      const double gain = size * (now.With(-size / 2) - other.With(size / 2));
      if (now.With(-kMoved * size) <= other.With(kMoved * size) || gain <= most) continue;
      best = shard;
      most = gain;
    }
    if (!best) return false;
    const double size = SizeOf(*best);
    const uint32_t to = LightestWith(size, from);
    loads_[from].bytes -= size;
    loads_[to].bytes += size;
    owners_[*best] = to;
    return true;
  }

  std::vector<uint32_t> owners_;
  const std::span<const uint64_t> bytes_;
  std::map<uint32_t, Load> loads_;  // of servers with a weight
};

}  // namespace

// Of the model's bytes, let each of k servers on machines of their own hold the share x, and each
// of m servers beside workers the share y: kx + my = 1. Each of the n workers sends and receives
// every share once a step. So n workers use the link of an own server: nx each way. The link of a
// worker with a server carries the worker's traffic with the other servers, 1 - y, and its server's
// with the other workers, (n - 1)y: together 1 + (n - 2)y. Both are as busy if nx = 1 + (n - 2)y,
// which with kx + my = 1 gives x : y = (n + m - 2) : (n - k). With m = n this is the optimum of
// BytePS (OSDI'20), 2(n - 1) : (n - k). With k >= n, own servers alone are the best. One worker has
// no traffic with a server beside it, which then holds all.
ServerWeights WeighServers(const std::map<uint32_t, bool>& beside, uint64_t workers) {
  const auto m = static_cast<uint64_t>(
      std::ranges::count_if(beside, [](const auto& server) { return server.second; }));
  const uint64_t k = beside.size() - m;
  const uint64_t n = std::max(workers, m);
  uint64_t own_weight = 1, beside_weight = 1;
  if (k > 0 && m > 0) {
    own_weight = n == 1 ? 0 : n + m - 2;
    if (n > 1) beside_weight = n > k ? n - k : 0;
  }
  ServerWeights weights;
  for (const auto& [server, is_beside] : beside)
    weights[server] = is_beside ? beside_weight : own_weight;
  return weights;
}

std::vector<uint32_t> SpreadShards(std::vector<uint32_t> owners, std::span<const uint64_t> bytes,
                                   const ServerWeights& weights) {
  Spreading spreading(std::move(owners), bytes, weights);
  spreading.PlaceHomeless();
  while (spreading.MoveOne()) {
  }
  return spreading.TakeOwners();
}

}  // namespace psgd
