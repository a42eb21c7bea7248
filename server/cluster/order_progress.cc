#include "server/cluster/order_progress.h"

#include <algorithm>
#include <variant>

namespace psgd {
namespace {

constexpr Duration kSendAgain = std::chrono::milliseconds(50);

}  // namespace

void OrderProgress::Give(uint32_t number, const Place& place, uint64_t last,
                         const OrderBook& orders, Time now, ServerEffects* effects) {
  Shard& shard = shards_[number];
  if (shard.epoch != place.epoch) shard = {place.epoch, place.link, 0, place.written_order, {}};
  if (shard.link != place.link || shard.sent == 0) {  // orders and answers on their way are lost
    shard.link = place.link;
    shard.sent = shard.done = std::max(shard.done, place.written_order);
  }
  if (now < shard.retry) return;
  for (const OrderBook::Order& order : orders.orders()) {
    if (order.number <= shard.done) continue;
    const bool installs = std::holds_alternative<InstallModel>(order.command);
    if (order.number > shard.sent) {
      if (!installs && order.number > last) return;
      effects->push_back(effect::SendOrder{
          {place.server, place.link, number, place.epoch, order.number, order.command}});
      shard.sent = order.number;
    }
    if (installs) return;  // first a disk must have the weights
  }
}

bool OrderProgress::Done(uint32_t number, uint64_t epoch, uint64_t order,
                         const absl::Status& status, Time now) {
  if (number >= shards_.size()) return false;  // no server of ours says this
  Shard& shard = shards_[number];
  if (epoch != shard.epoch || order <= shard.done) return false;
  if (absl::IsUnavailable(status)) {
    shard.sent = shard.done;  // the order is sent again
    shard.retry = now + kSendAgain;
    return false;
  }
  shard.done = order;
  return true;
}

uint64_t OrderProgress::CarriedOut(uint64_t last) const {
  for (const Shard& shard : shards_) last = std::min(last, shard.done);
  return last;
}

}  // namespace psgd
