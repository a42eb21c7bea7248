// Names for NVIDIA's profilers, which show launches of a scope under its name. A range costs almost
// nothing without a profiler.
#pragma once

#include <nvtx3/nvToolsExt.h>

namespace psgd::cudnn {

class Range {
 public:
  // REQUIRES: scopes of one thread are nested.
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace psgd::cudnn
