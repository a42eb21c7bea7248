// Pins a process of a benchmark.
#pragma once

#include <sched.h>

namespace psgd {

// Pins the process to the n-th of the cores that it may use, if there are that many.
inline void PinToCore(int n) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || n-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

}  // namespace psgd
