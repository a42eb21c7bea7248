#include "server/shard/shard_order.h"

#include <type_traits>

namespace psgd {

ShardOrder ToOrder(uint64_t number, const ShardCommand& command) {
  ShardOrder order;
  order.set_number(number);
  std::visit(
      [&](const auto& c) {
        using C = std::decay_t<decltype(c)>;
        if constexpr (std::is_same_v<C, AdmitWorker>) {
          *order.mutable_admit() = c.key;
        } else if constexpr (std::is_same_v<C, RemoveWorker>) {
          *order.mutable_remove() = c.key;
        } else if constexpr (std::is_same_v<C, BeginSegment>) {
          *order.mutable_begin() = c.segment;
        } else if constexpr (std::is_same_v<C, TakeCheckpoint>) {
          ShardOrder::Take* take = order.mutable_take();
          take->set_id(c.id);
          take->set_clock(c.clock);
          take->mutable_savers()->Add(c.savers.begin(), c.savers.end());
        } else if constexpr (std::is_same_v<C, ChangeHyper>) {
          *order.mutable_hyper() = c.hyper;
        }
      },
      command);
  return order;
}

absl::StatusOr<ShardCommand> FromOrder(const ShardOrder& order) {
  switch (order.order_case()) {
    case ShardOrder::kAdmit:
      return AdmitWorker{order.admit()};
    case ShardOrder::kRemove:
      return RemoveWorker{order.remove()};
    case ShardOrder::kBegin:
      return BeginSegment{order.begin()};
    case ShardOrder::kTake:
      return TakeCheckpoint{order.take().id(),
                            order.take().clock(),
                            {order.take().savers().begin(), order.take().savers().end()}};
    case ShardOrder::kHyper:
      return ChangeHyper{order.hyper()};
    case ShardOrder::ORDER_NOT_SET:
      break;
  }
  return InvalidArgumentError("order ", order.number(), " says nothing");
}

}  // namespace psgd
