// The coordinator's numbered orders to the shards, kept until every shard has written them. After a
// restart of the server they are sent again, and a shard skips an order that it has carried out.
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
    bool carried_out = false;  // by all shards
  };

  void Add(std::vector<ShardCommand> commands);
  // `numbers`: by shard, the last order that it has written; 0: unknown. DATA_LOSS: as in Check.
  absl::Status Written(const std::vector<uint64_t>& numbers);
  // Checks that a shard that has carried out the orders up to `number` can go on with this book.
  // DATA_LOSS: the shard has more orders than the book, or lacks orders that it had written: a
  // machine lost power before they were on its disk.
  absl::Status Check(size_t shard, uint64_t number) const;

  // All shards have carried out the orders up to `number`.
  void CarriedOut(uint64_t number);

  uint64_t last() const { return last_; }
  // Oldest first.
  const std::deque<Order>& orders() const { return orders_; }
  // An InstallModel is still to be carried out. The shards' first images store it, and the
  // coordinator's record follows. Any other order is in the record before it is carried out.
  bool installs() const;
  // An order is still to be carried out.
  bool pending() const;

  void Save(CoordinatorRecord* record) const;
  // REQUIRES: the book has no order.
  absl::Status Restore(const CoordinatorRecord& record);

 private:
  std::deque<Order> orders_;
  uint64_t last_ = 0;
  uint64_t written_ = 0;  // all shards have written the orders up to this one
};

}  // namespace psgd
