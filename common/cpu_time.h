// Processor time, as the kernel counts it.
#pragma once

#include <ctime>

namespace psgd {

// Returns the processor time of all threads of this process, ended threads included.
inline double ProcessCpuSeconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace psgd
