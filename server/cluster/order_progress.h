// How far each shard is with the leader's orders, and which orders are sent next.
#pragma once

#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "server/cluster/server_effects.h"
#include "server/coordinator/order_book.h"

namespace psgd {

// Not thread-safe.
class OrderProgress {
 public:
  // The leading copy of a shard, and the link to its server.
  struct Place {
    uint32_t server = 0;
    uint64_t epoch = 0;
    uint64_t link = 0;
    uint64_t written_order = 0;  // the last one that its disk has
  };

  explicit OrderProgress(size_t shards) : shards_(shards) {}
  size_t shards() const { return shards_.size(); }

  // Sends the shard the orders that it lacks, up to `last`.
  void Give(uint32_t shard, const Place& place, uint64_t last, const OrderBook& orders, Time now,
            ServerEffects* effects);
  // No server that leads the shard is here.
  void Wait(uint32_t shard, Time now) { shards_[shard].retry = now; }
  // The shard has carried out the order, or could not. Returns false if that was known, or is about
  // another epoch. Also returns false for UNAVAILABLE: then the order is sent again.
  bool Done(uint32_t shard, uint64_t epoch, uint64_t number, const absl::Status& status, Time now);
  // The number of the last order that all shards have carried out. `last`: of all orders.
  uint64_t CarriedOut(uint64_t last) const;

 private:
  struct Shard {
    uint64_t epoch = 0;  // epoch under which the orders are sent
    uint64_t link = 0;   // link on which the orders are sent
    uint64_t sent = 0;
    uint64_t done = 0;
    Time retry{};
  };

  std::vector<Shard> shards_;
};

}  // namespace psgd
