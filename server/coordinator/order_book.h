// The coordinator's orders to the shards, numbered, until every shard has written them down: should
// the server be started again before, they are given again, and who has carried one out leaves it.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "common/status.h"
#include "proto/journal.pb.h"
#include "server/shard/shard_command.h"

namespace psgd {

// Not thread-safe.
class OrderBook {
 public:
  struct Order {
    uint64_t number = 0;
    ShardCommand command;
    bool begun = false;
    bool carried_out = false;  // by every shard
  };

  void Add(std::vector<ShardCommand> commands);
  // By shard: it has written down the orders up to this one; 0: it has not said. DATA_LOSS: as
  // Check.
  absl::Status Written(const std::vector<uint64_t>& numbers);
  // Whether a shard that has carried out the orders up to this one can go on with these. DATA_LOSS:
  // it was given more, or lacks some that it had written down: a machine lost power before they
  // were on its disk.
  absl::Status Check(size_t shard, uint64_t number) const;

  bool empty() const { return orders_.empty(); }
  uint64_t last() const { return last_; }
  // Oldest first.
  std::deque<Order>& orders() { return orders_; }
  // An InstallModel is to be carried out: it is written down by the shards' first images, and the
  // coordinator's record after it. Everything else is in the record before it is carried out.
  bool installs() const;
  // Something is still to be carried out.
  bool pending() const;

  void Save(CoordinatorRecord* record) const;
  // REQUIRES: it is empty.
  absl::Status Restore(const CoordinatorRecord& record);

 private:
  std::deque<Order> orders_;
  uint64_t last_ = 0;
  uint64_t written_ = 0;  // by all, up to this one
};

}  // namespace psgd
