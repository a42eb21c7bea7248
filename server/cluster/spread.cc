#include "server/cluster/spread.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

namespace psgd {
namespace {

// A smaller share is what rounding leaves of none.
constexpr double kNothing = 1e-6;

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
      if (weight > 0) loads_[server].weight = weight;
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

// What the servers of a run with n workers may hold if every link is to be free again after a time.
// Times are those in which the slowest link that is known carries the model once. A link that is
// not known counts as that one.
class LinkTimes {
 public:
  LinkTimes(const std::map<uint32_t, ServerPlace>& servers, double n) : servers_(servers), n_(n) {
    for (const auto& [server, place] : servers_) {
      if (place.link > 0) slowest_ = slowest_ > 0 ? std::min(slowest_, place.link) : place.link;
    }
  }

  // The largest share that the server may hold.
  double Most(const ServerPlace& place, double time) const {
    if (!place.beside_worker) return time * Speed(place) / n_;
    return n_ > 2 ? std::max(0.0, time * Speed(place) - 1) / (n_ - 2) : 1;
  }

  // The same of all servers beside workers, or of all others.
  double Sum(double time, bool of_beside) const {
    double all = 0;
    for (const auto& [server, place] : servers_)
      all += place.beside_worker == of_beside ? Most(place, time) : 0;
    return all;
  }

  // The shortest time within which the servers may hold everything.
  double Shortest() const {
    double time = 0;
    for (const auto& [server, place] : servers_)
      time = place.beside_worker ? std::max(time, 1 / Speed(place)) : time;
    for (double enough = n_ + 1; !IsEnough(time);) {
      const double between = std::midpoint(time, enough);
      if (between <= time || between >= enough) return enough;
      (IsEnough(between) ? enough : time) = between;
    }
    return time;
  }

 private:
  double Speed(const ServerPlace& place) const {
    return place.link > 0 ? place.link / slowest_ : 1;
  }
  bool IsEnough(double time) const { return Sum(time, false) + Sum(time, true) >= 1; }

  const std::map<uint32_t, ServerPlace>& servers_;
  const double n_;
  double slowest_ = 0;  // 0: no link is known
};

}  // namespace

// Each of the n workers sends and receives every byte of the model once a step. Let a server hold
// the share y of these bytes. If it has a machine of its own, the n workers use its link: ny each
// way. If it is beside a worker, the link carries the worker's traffic with the other servers,
// 1 - y, and the server's with the other workers, (n - 1)y: together 1 + (n - 2)y. All of this is
// to end within a time T that is as short as possible. Over links of speed B a server of its own
// may then hold TB/n and one beside a worker (TB - 1)/(n - 2), and all shares add up to 1. With
// equal links, one server beside each worker and k others this is the optimum of BytePS (OSDI'20).
//
// T is never below 1/B of a worker's link, whoever holds what. If the servers could hold more than
// everything within that time, those of their own come first, since they take no time of a worker.
// With two workers, a server beside one of them may hold any share. With one worker, the server
// beside it holds everything, since the two have no traffic over a link.
ServerWeights WeighServers(const std::map<uint32_t, ServerPlace>& servers, uint64_t workers) {
  const auto is_beside = [](const auto& server) { return server.second.beside_worker; };
  const auto beside = static_cast<uint64_t>(std::ranges::count_if(servers, is_beside));
  const auto n = static_cast<double>(std::max<uint64_t>({workers, beside, 1}));
  ServerWeights weights;
  if (n == 1 && beside > 0) {
    for (const auto& server : servers) weights[server.first] = is_beside(server) ? 1 : 0;
    return weights;
  }
  const LinkTimes links(servers, n);
  const double time = links.Shortest();
  const double own = links.Sum(time, false), others = links.Sum(time, true);
  const double held_by_own = std::min(own, 1.0);
  for (const auto& [server, place] : servers) {
    const double held = place.beside_worker ? 1 - held_by_own : held_by_own;
    const double of = place.beside_worker ? others : own;
    const double share = of > 0 ? held * links.Most(place, time) / of : 0;
    weights[server] = share < kNothing ? 0 : share;
  }
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
