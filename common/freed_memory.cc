#include "common/freed_memory.h"

#include <malloc.h>

namespace psgd {

void KeepFreedMemory() {
  constexpr int kMiB = 1 << 20;
  // Larger blocks are mapped each for itself. A message has about 4 MiB.
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
  mallopt(M_TRIM_THRESHOLD, 1024 * kMiB);
}

}  // namespace psgd
