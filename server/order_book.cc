#include "server/order_book.h"

#include <algorithm>
#include <utility>

#include "server/shard_order.h"

namespace psgd {

void OrderBook::Add(std::vector<ShardCommand> commands) {
  for (ShardCommand& command : commands) orders_.push_back({++last_, std::move(command)});
}

void OrderBook::Written(uint64_t number) {
  while (!orders_.empty() && orders_.front().number <= number) orders_.pop_front();
}

bool OrderBook::installs() const {
  return std::any_of(orders_.begin(), orders_.end(), [](const Order& order) {
    return !order.carried_out && std::holds_alternative<InstallModel>(order.command);
  });
}

bool OrderBook::pending() const {
  return std::any_of(orders_.begin(), orders_.end(),
                     [](const Order& order) { return !order.carried_out; });
}

void OrderBook::Save(CoordinatorRecord* record) const {
  record->set_last_order(last_);
  for (const Order& order : orders_) {
    if (std::holds_alternative<InstallModel>(order.command)) continue;
    *record->add_orders() = ToOrder(order.number, order.command);
  }
}

absl::Status OrderBook::Restore(const CoordinatorRecord& record) {
  last_ = record.last_order();
  for (const ShardOrder& order : record.orders()) {
    PSGD_ASSIGN_OR_RETURN(ShardCommand command, FromOrder(order));
    orders_.push_back({order.number(), std::move(command)});
  }
  return absl::OkStatus();
}

}  // namespace psgd
