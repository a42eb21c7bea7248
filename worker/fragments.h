// Which slices an exchange carries. With local.fragments above 1 each clock exchanges one part of
// the slices, in turn, so that the link is in use all the time.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/model.pb.h"

namespace psgd {

class Fragments {
 public:
  // REQUIRES: count is at least 1.
  Fragments(const Placement& placement, uint32_t count);

  // Whether the exchange of `clock` carries the slice.
  bool Carries(uint64_t clock, uint32_t slice) const { return of_[slice] == clock % count_; }

 private:
  uint32_t count_;
  std::vector<uint32_t> of_;  // by slice
};

}  // namespace psgd
