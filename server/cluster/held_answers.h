// What a leading copy tells workers and the coordinator only once every awaited copy has the steps
// behind it: answers, and the outcomes of orders.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "common/status.h"
#include "server/shard/outbox.h"

namespace psgd {

// Not thread-safe.
class HeldAnswers {
 public:
  // The outcome of an order: every copy in sync has it, or it failed.
  struct OrderDone {
    uint64_t number = 0;
    uint64_t epoch = 0;
    absl::Status status;
  };

  // An order was executed, or refused.
  void Add(OrderDone done) { orders_.push_back(std::move(done)); }
  // These answers and the orders since the last call may leave once every awaited copy has
  // `entries` steps.
  void Hold(uint64_t entries, Outbox out);
  // Every awaited copy has so many steps: adds what may leave now.
  void LetGo(uint64_t committed, Outbox* workers, std::vector<OrderDone>* orders);
  // Adds the orders since the last Hold: those that a copy refused because it does not lead.
  void TakeOrders(std::vector<OrderDone>* orders);

  bool empty() const { return held_.empty(); }
  // Every copy in sync has the orders up to this one.
  uint64_t written_order() const { return written_order_; }

 private:
  // Answers that may leave once every awaited copy has `entries` steps.
  struct Held {
    uint64_t entries = 0;
    Outbox out;
    std::vector<OrderDone> orders;
  };

  std::deque<Held> held_;
  std::vector<OrderDone> orders_;  // since the last Hold
  uint64_t written_order_ = 0;
};

}  // namespace psgd
