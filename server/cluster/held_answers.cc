#include "server/cluster/held_answers.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace psgd {

void HeldAnswers::Hold(uint64_t entries, Outbox out) {
  Held held{entries, std::move(out), std::exchange(orders_, {})};
  if (!held.out.empty() || !held.orders.empty()) held_.push_back(std::move(held));
}

void HeldAnswers::LetGo(uint64_t committed, Outbox* workers, std::vector<OrderDone>* orders) {
  while (!held_.empty() && held_.front().entries <= committed) {
    Outbox& out = held_.front().out;
    std::move(out.begin(), out.end(), std::back_inserter(*workers));
    for (OrderDone& done : held_.front().orders) {
      if (done.status.ok()) written_order_ = std::max(written_order_, done.number);
      orders->push_back(std::move(done));
    }
    held_.pop_front();
  }
}

void HeldAnswers::TakeOrders(std::vector<OrderDone>* orders) {
  std::move(orders_.begin(), orders_.end(), std::back_inserter(*orders));
  orders_.clear();
}

}  // namespace psgd
