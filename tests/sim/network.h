// A network that loses, delays, repeats, reorders and partitions; after `heals_at` it only delays.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "simulate/chance.h"
#include "simulate/event_queue.h"

namespace psgd::sim {

struct NetworkOptions {
  double drop = 0;
  double repeat = 0;
  double slow = 0;  // share of messages that take up to `slow_delay`
  Duration min_delay = std::chrono::microseconds(100);
  Duration max_delay = std::chrono::milliseconds(2);
  Duration slow_delay = std::chrono::milliseconds(300);
  bool ordered = false;  // what arrives on a link arrives in the order it was sent
  Time heals_at{};
};

// A link joins a worker process and a node (a shard, or the coordinator).
using Link = std::pair<uint32_t, uint32_t>;

// Not thread-safe.
class Network {
 public:
  Network(EventQueue* queue, uint64_t seed, const NetworkOptions& options)
      : queue_(queue), options_(options), chance_(seed, 1) {}

  // Runs `deliver` when the message arrives: not at all, once or several times.
  void Send(Link link, bool to_node, const std::function<void()>& deliver) {
    const bool faulty = queue_->now() < options_.heals_at;
    if (auto cut = cuts_.find(link); cut != cuts_.end() && queue_->now() < cut->second) return;
    if (faulty && chance_.Happens(options_.drop)) return;
    Deliver(link, to_node, faulty, deliver);
    if (faulty && chance_.Happens(options_.repeat)) Deliver(link, to_node, faulty, deliver);
  }

  // Nothing passes the link until then.
  void Cut(Link link, Time until) { cuts_[link] = std::min(until, options_.heals_at); }

 private:
  void Deliver(Link link, bool to_node, bool faulty, const std::function<void()>& deliver) {
    Duration delay = chance_.Between(options_.min_delay, options_.max_delay);
    if (faulty && chance_.Happens(options_.slow)) {
      delay = chance_.Between(options_.max_delay, options_.slow_delay);
    }
    Time arrival = queue_->now() + delay;
    if (options_.ordered) {
      Time& last = last_arrival_[{link, to_node}];
      arrival = last = std::max(last, arrival);
    }
    queue_->At(arrival, deliver);
  }

  EventQueue* const queue_;
  const NetworkOptions options_;
  Chance chance_;
  std::map<Link, Time> cuts_;
  std::map<std::pair<Link, bool>, Time> last_arrival_;
};

}  // namespace psgd::sim
