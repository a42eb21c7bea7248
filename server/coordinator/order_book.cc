#include "server/coordinator/order_book.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/shard/shard_order.h"

namespace psgd {

void OrderBook::Add(std::vector<ShardCommand> commands) {
  for (ShardCommand& command : commands) orders_.push_back({++last_, std::move(command)});
}

absl::Status OrderBook::Written(const std::vector<uint64_t>& numbers) {
  uint64_t all = last_;
  for (size_t shard = 0; shard < numbers.size(); ++shard) {
    all = std::min(all, numbers[shard]);
    if (numbers[shard] > 0) PSGD_RETURN_IF_ERROR(Check(shard, numbers[shard]));
  }
  written_ = std::max(written_, all);
  while (!orders_.empty() && orders_.front().number <= all) orders_.pop_front();
  return absl::OkStatus();
}

absl::Status OrderBook::Check(size_t shard, uint64_t number) const {
  if (number >= written_ && number <= last_) return absl::OkStatus();
  return DataLossError(
      "shard ", shard, " has carried out the coordinator's orders up to ", number,
      ", and the coordinator's record says ",
      number > last_ ? absl::StrCat("that it gave ", last_)
                     : absl::StrCat("that it had written down ", written_),
      ": did a machine lose power? Go on from the last checkpoint with ps-run --resume");
}

void OrderBook::CarriedOut(uint64_t number) {
  for (Order& order : orders_) order.carried_out = order.number <= number;
}

bool OrderBook::installs() const {
  return std::ranges::any_of(orders_, [](const Order& order) {
    return !order.carried_out && std::holds_alternative<InstallModel>(order.command);
  });
}

bool OrderBook::pending() const {
  return std::ranges::any_of(orders_, [](const Order& order) { return !order.carried_out; });
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
  // An order is in the record until all shards have written it.
  written_ = orders_.empty() ? last_ : orders_.front().number - 1;
  return absl::OkStatus();
}

}  // namespace psgd
