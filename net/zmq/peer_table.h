// Which PeerId stands for which routing id of a ROUTER socket.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "net/transport.h"

namespace psgd {

// Bounded: who reconnects without end pushes out the peers that were silent longest. Not
// thread-safe.
class PeerTable {
 public:
  explicit PeerTable(size_t capacity) : capacity_(capacity) {}

  // The peer with this routing id, new if it was not known; marks it as heard of.
  PeerId Heard(const std::string& routing_id);
  // Null when the peer is not known (any more). Valid until the next call of Heard or Forget.
  const std::string* RoutingId(PeerId peer) const;
  void Forget(PeerId peer);
  size_t size() const { return by_id_.size(); }

 private:
  struct Entry {
    PeerId peer;
    std::string routing_id;
  };
  using Entries = std::list<Entry>;

  const size_t capacity_;
  PeerId next_ = 0;
  Entries entries_;  // heard of most recently first
  std::unordered_map<PeerId, Entries::iterator> by_id_;
  std::unordered_map<std::string, Entries::iterator> by_routing_id_;
};

}  // namespace psgd
