#include "common/available_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

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

// Where one version of control groups keeps its files.
struct Hierarchy {
  const char* folder;
  const char* limit;
  const char* usage;
  const char*
      reclaimable;  // in memory.stat: file pages that the kernel drops before an allocation fails
};
constexpr Hierarchy kVersion1 = {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                                 "/memory.usage_in_bytes", "total_inactive_file"};
constexpr Hierarchy kVersion2 = {"/sys/fs/cgroup", "/memory.max", "/memory.current",
                                 "inactive_file"};

// Returns what the limits of the group and of all its parents leave. In a container the group's own
// folder may be hidden; its limit then stands at the top.
size_t LeftInGroup(const std::string& root, const Hierarchy& files, std::string group) {
  size_t left = SIZE_MAX;
  while (true) {
    const std::string folder = root + files.folder + group;
    const auto limit = NumberAfter(folder + files.limit, "");  // "max" is not a number
    const auto usage = NumberAfter(folder + files.usage, "");
    if (limit.has_value() && usage.has_value()) {
      const size_t cache = NumberAfter(folder + "/memory.stat", files.reclaimable).value_or(0);
      const size_t taken = *usage - std::min(*usage, cache);
      left = std::min(left, *limit - std::min(*limit, taken));
    }
    if (group.empty()) return left;
    group.resize(group.rfind('/'));
  }
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
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // NUMBER:CONTROLLERS:PATH
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/")) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    const bool version1 = std::count(controllers.begin(), controllers.end(), "memory") > 0;
    if (!version1 && !parts[1].empty()) continue;
    const std::string group = parts[2] == "/" ? "" : parts[2];
    available = std::min(available, LeftInGroup(root, version1 ? kVersion1 : kVersion2, group));
  }
  return available;
}

}  // namespace psgd
