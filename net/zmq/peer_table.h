// Maps a PeerId to the routing id of a ROUTER socket.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <unordered_map>

#include "net/transport.h"

namespace psgd {

// Bounded: a new peer replaces the peer that was silent longest. Not thread-safe.
class PeerTable {
 public:
  explicit PeerTable(size_t capacity) : capacity_(capacity) {}

  // Returns the peer with this routing id, new if it was unknown. Marks the peer as the latest
  // heard.
  PeerId Heard(const std::string& routing_id);
  // Null when the peer is unknown or forgotten. Valid until the next call of Heard or Forget.
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
  Entries entries_;  // the latest heard first
  std::unordered_map<PeerId, Entries::iterator> by_id_;
  std::unordered_map<std::string, Entries::iterator> by_routing_id_;
};

}  // namespace psgd
