// Work that several cores do at once.
#pragma once

#include "absl/functional/function_ref.h"

namespace psgd {

// Calls work(0) to work(threads - 1) at once, each in a thread on a core of its own, in the order
// in which shards take cores. Returns the seconds from the first start to the last end. REQUIRES:
// UsableCores() has so many.
double OnPinnedThreads(int threads, absl::FunctionRef<void(int)> work);

}  // namespace psgd
