// The factors that this worker pushed lately: the server does not send them back.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "common/bytes.h"

namespace psgd {

// Not thread-safe.
class PushedFactors {
 public:
  // Keeps the payload of that slice, and of those that share it, in the step that leads to `clock`.
  void Keep(uint32_t slice, uint64_t clock, const Bytes& payload) {
    payloads_[{clock, slice}] = payload;
  }
  // Empty: there is none.
  Bytes At(uint32_t slice, uint64_t clock) const {
    const auto found = payloads_.find({clock, slice});
    return found == payloads_.end() ? Bytes() : found->second;
  }
  // Forgets the factors up to this clock: the worker's weights include them.
  void Forget(uint64_t clock) {
    payloads_.erase(payloads_.begin(), payloads_.lower_bound({clock + 1, 0}));
  }

 private:
  std::map<std::pair<uint64_t, uint32_t>, Bytes> payloads_;
};

}  // namespace psgd
