#include "common/freed_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace psgd {
namespace {

constexpr int kMiB = 1 << 20;

std::mutex keepers_mutex;
int keepers = 0;  // guarded by keepers_mutex

bool EnvironmentSetsMalloc() {
  if (getenv("MALLOC_TRIM_THRESHOLD_") != nullptr || getenv("MALLOC_MMAP_THRESHOLD_") != nullptr) {
    return true;
  }
  const char* const given = getenv("GLIBC_TUNABLES");
  const absl::string_view tunables = given == nullptr ? "" : given;
  return absl::StrContains(tunables, "glibc.malloc.trim_threshold") ||
         absl::StrContains(tunables, "glibc.malloc.mmap_threshold");
}

}  // namespace

FreedMemoryKeeper::FreedMemoryKeeper() : keeps_(!EnvironmentSetsMalloc()) {
  if (!keeps_) return;
  const std::lock_guard lock(keepers_mutex);
  if (keepers++ > 0) return;
  // Larger blocks are mapped each for itself. A message has about 4 MiB.
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
  mallopt(M_TRIM_THRESHOLD, 1024 * kMiB);
}

FreedMemoryKeeper::~FreedMemoryKeeper() {
  if (!keeps_) return;
  {
    const std::lock_guard lock(keepers_mutex);
    if (--keepers > 0) return;
    mallopt(M_TRIM_THRESHOLD, 64 * kMiB);
  }
  malloc_trim(0);
}

}  // namespace psgd
