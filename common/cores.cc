#include "common/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/control_groups.h"

namespace psgd {
namespace {

// As many threads as these read and write memory as fast as a node has it.
constexpr size_t kShardsOfANode = 8;

// "0-2,5" as numbers; nothing: the file is not there.
std::vector<int> ReadList(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  std::vector<int> numbers;
  for (const absl::string_view range : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last)) return {};
    for (int number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

std::vector<int> AllowedCores() {
  std::vector<int> allowed;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) allowed.push_back(core);
  }
  return allowed;
}

bool StayOn(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

// One core of each list in turn.
void TakeInTurn(const std::map<int, std::vector<int>>& lists, std::vector<int>* order) {
  size_t longest = 0;
  for (const auto& [node, cores] : lists) longest = std::max(longest, cores.size());
  for (size_t i = 0; i < longest; ++i) {
    for (const auto& [node, cores] : lists) {
      if (i < cores.size()) order->push_back(cores[i]);
    }
  }
}

// How many cores' time the group gets.
double CoresOf(const ControlGroup& group) {
  double quota = 0, period = 0;  // microseconds
  if (group.version1) {
    std::ifstream(group.folder + "/cpu.cfs_quota_us") >> quota;  // -1: no limit
    std::ifstream(group.folder + "/cpu.cfs_period_us") >> period;
  } else {
    std::ifstream(group.folder + "/cpu.max") >> quota >> period;  // "max" is not a number
  }
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

}  // namespace

Cores UsableCores(const std::string& root) {
  const std::string system = root + "/sys/devices/system";
  std::map<int, int> node_of;
  for (const int node : ReadList(absl::StrCat(system, "/node/online"))) {
    for (const int core : ReadList(absl::StrCat(system, "/node/node", node, "/cpulist")))
      node_of[core] = node;
  }
  std::map<int, std::vector<int>> first, second;  // by node: threads of a physical core
  std::set<int> nodes, taken;
  for (const int core : AllowedCores()) {
    const auto node = node_of.find(core);
    const int number = node == node_of.end() ? 0 : node->second;
    nodes.insert(number);
    std::vector<int> siblings =
        ReadList(absl::StrCat(system, "/cpu/cpu", core, "/topology/thread_siblings_list"));
    const bool sibling_is_taken =
        std::ranges::any_of(siblings, [&](int sibling) { return taken.contains(sibling); });
    (sibling_is_taken ? second : first)[number].push_back(core);
    taken.insert(core);
  }
  Cores cores;
  TakeInTurn(first, &cores.order);
  cores.physical = cores.order.size();
  TakeInTurn(second, &cores.order);
  cores.nodes = std::max<size_t>(nodes.size(), 1);
  auto busy = static_cast<double>(cores.order.size());
  for (const ControlGroup& group : ControlGroupsOf(root, "cpu"))
    busy = std::min(busy, CoresOf(group));
  cores.busy = std::max<size_t>(static_cast<size_t>(busy), 1);
  return cores;
}

int ShardsFor(const Cores& cores) {
  const size_t used = std::min(cores.physical, cores.busy);
  const size_t free = used > 1 ? used - 1 : 1;
  return static_cast<int>(std::min(free, kShardsOfANode * cores.nodes));
}

bool StayOnCore(int core) { return StayOn({core}); }

OnAnyCore::OnAnyCore(const std::vector<int>& cores) {
  if (cores.empty()) return;
  before_ = AllowedCores();
  StayOn(cores);
}

OnAnyCore::~OnAnyCore() {
  if (!before_.empty()) StayOn(before_);
}

}  // namespace psgd
