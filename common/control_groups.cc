#include "common/control_groups.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace psgd {

std::vector<ControlGroup> ControlGroupsOf(const std::string& root, absl::string_view controller) {
  std::vector<ControlGroup> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // NUMBER:CONTROLLERS:PATH
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/")) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    const bool version1 = std::ranges::find(controllers, controller) != controllers.end();
    if (!version1 && !parts[1].empty()) continue;
    const std::string top =
        version1 ? absl::StrCat(root, "/sys/fs/cgroup/", controller) : root + "/sys/fs/cgroup";
    std::string group = parts[2] == "/" ? "" : parts[2];
    for (; !group.empty(); group.resize(group.rfind('/')))
      groups.push_back({version1, top + group});
    groups.push_back({version1, top});
  }
  return groups;
}

}  // namespace psgd
