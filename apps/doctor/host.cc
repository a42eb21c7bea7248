#include "apps/doctor/host.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

// The text after "key:" in the first line that begins with the key.
std::string ValueOf(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

// Parses "24657296 kB".
int64_t KiloBytes(const std::string& text) {
  std::istringstream in(text);
  int64_t count = 0;
  in >> count;
  return count * 1024;
}

std::vector<NumaNode> ListNodes() {
  std::vector<NumaNode> nodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view number = name;
    NumaNode node;
    if (!absl::ConsumePrefix(&number, "node") || !absl::SimpleAtoi(number, &node.index)) continue;
    std::getline(std::ifstream(entry.path() / "cpulist"), node.cpus);
    std::ifstream memory(entry.path() / "meminfo");  // "Node 0 MemTotal:  24657296 kB"
    for (std::string line; std::getline(memory, line);) {
      const size_t at = line.find("MemTotal:");
      if (at != std::string::npos) node.memory_bytes = KiloBytes(line.substr(at + 9));
    }
    nodes.push_back(std::move(node));
  }
  std::ranges::sort(nodes, {}, &NumaNode::index);
  return nodes;
}

}  // namespace

Host DescribeHost() {
  Host host;
  host.processor = ValueOf("/proc/cpuinfo", "model name");
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) host.cores = CPU_COUNT(&set);
  host.memory_bytes = KiloBytes(ValueOf("/proc/meminfo", "MemTotal"));
  host.available_bytes = KiloBytes(ValueOf("/proc/meminfo", "MemAvailable"));
  host.nodes = ListNodes();
  return host;
}

}  // namespace psgd
