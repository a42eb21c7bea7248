// The control groups of Linux that this process is in. Containers and batch systems set limits
// there.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace psgd {

struct ControlGroup {
  bool version1 = false;  // names and contents of its files differ from version 2
  std::string folder;     // where its files are
};

// The groups that may limit this process by that controller ("cpu", "memory"): its own and their
// parents. In a container the group's own folder may be hidden; its limit then stands at the top.
// `root`: where Linux describes itself.
std::vector<ControlGroup> ControlGroupsOf(const std::string& root, absl::string_view controller);

}  // namespace psgd
