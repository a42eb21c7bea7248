// What a process, of ours or a child, used of the machine so far.
#pragma once

#include <sys/types.h>

namespace psgd {

struct ProcessUsage {
  double cpu_seconds = 0;
  // The part of cpu_seconds in the kernel. Counted in ticks of 10 ms, so only long times are exact.
  double kernel_seconds = 0;
  double switches = 0;  // of threads, voluntary and not
  double faults = 0;    // of pages, without reading a disk

  ProcessUsage operator-(const ProcessUsage& other) const;
};

// Zeros for a process that is not there.
ProcessUsage UsageOf(pid_t pid);

}  // namespace psgd
