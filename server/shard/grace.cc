#include "server/shard/grace.h"

#include <utility>

namespace psgd {

bool Grace::MustLook(uint64_t clock, Time now) {
  if (clock != clock_) began_.reset();
  clock_ = clock;
  return began_ ? now >= *Ends() : std::exchange(look_again_, false);
}

bool Grace::IsOver(bool quorum, Time now) {
  if (!quorum) {
    began_.reset();
    return false;
  }
  if (!began_) began_ = now;
  if (now < *Ends()) return false;
  began_.reset();
  return true;
}

std::optional<Time> Grace::Ends() const {
  if (!began_) return std::nullopt;
  return *began_ + length_;
}

void Grace::Extend(Duration lost) {
  if (began_) *began_ += lost;
}

void Grace::Forget() {
  began_.reset();
  look_again_ = true;
}

}  // namespace psgd
