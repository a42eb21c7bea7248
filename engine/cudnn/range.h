// Names for NVIDIA's profilers: what the host launches within a scope is shown under it. Costs next
// to nothing where none listens.
#pragma once

#include <nvtx3/nvToolsExt.h>

namespace psgd::cudnn {

class Range {
 public:
  // REQUIRES: scopes of one thread lie within each other.
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace psgd::cudnn
