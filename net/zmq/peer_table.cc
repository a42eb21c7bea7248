#include "net/zmq/peer_table.h"

namespace psgd {

PeerId PeerTable::Heard(const std::string& routing_id) {
  if (auto it = by_routing_id_.find(routing_id); it != by_routing_id_.end()) {
    entries_.splice(entries_.begin(), entries_, it->second);
    return it->second->peer;
  }
  if (entries_.size() >= capacity_) Forget(entries_.back().peer);
  const PeerId peer = next_++;
  entries_.push_front({.peer = peer, .routing_id = routing_id});
  by_id_[peer] = entries_.begin();
  by_routing_id_[routing_id] = entries_.begin();
  return peer;
}

const std::string* PeerTable::RoutingId(PeerId peer) const {
  auto it = by_id_.find(peer);
  return it == by_id_.end() ? nullptr : &it->second->routing_id;
}

void PeerTable::Forget(PeerId peer) {
  auto it = by_id_.find(peer);
  if (it == by_id_.end()) return;
  by_routing_id_.erase(it->second->routing_id);
  entries_.erase(it->second);
  by_id_.erase(it);
}

}  // namespace psgd
