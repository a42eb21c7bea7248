#include "common/available_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/control_groups.h"

namespace psgd {
namespace {

// Returns the number after `key` in a file of lines "KEY NUMBER ...". An empty key gives the first
// number.
std::optional<size_t> NumberAfter(const std::string& path, absl::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    const size_t at = key.empty() ? 0 : 1;
    uint64_t number = 0;
    if (words.size() <= at || (at == 1 && words[0] != key)) continue;
    if (absl::SimpleAtoi(words[at], &number)) return number;
  }
  return std::nullopt;
}

// Where one version of control groups says what memory it limits.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char*
      reclaimable;  // in memory.stat: file pages that the kernel drops before an allocation fails
};
constexpr GroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                  "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"/memory.max", "/memory.current", "inactive_file"};

size_t LeftInGroup(const ControlGroup& group) {
  const GroupFiles& files = group.version1 ? kVersion1 : kVersion2;
  const auto limit = NumberAfter(group.folder + files.limit, "");  // "max" is not a number
  const auto usage = NumberAfter(group.folder + files.usage, "");
  if (!limit || !usage) return SIZE_MAX;
  const size_t cache = NumberAfter(group.folder + "/memory.stat", files.reclaimable).value_or(0);
  return *limit - std::min(*limit, *usage - std::min(*usage, cache));
}

// Returns what `ulimit -v` leaves. Batch systems set this limit.
size_t LeftOfAddresses(const std::string& root) {
  rlimit limit;
  const auto pages = NumberAfter(root + "/proc/self/statm", "");
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || !pages) {
    return SIZE_MAX;
  }
  const size_t taken = *pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur - std::min<size_t>(limit.rlim_cur, taken);
}

}  // namespace

size_t AvailableMemory(const std::string& root) {
  const auto kilobytes = NumberAfter(root + "/proc/meminfo", "MemAvailable:");
  if (!kilobytes.has_value()) return 0;
  size_t available = std::min(*kilobytes * 1024, LeftOfAddresses(root));
  for (const ControlGroup& group : ControlGroupsOf(root, "memory"))
    available = std::min(available, LeftInGroup(group));
  return available;
}

}  // namespace psgd
