// The processor's cores that this process may use, and where threads stay.
#pragma once

#include <string>
#include <vector>

namespace psgd {

struct Cores {
  // The cores in the order in which threads take them: memory nodes in turn, and each physical core
  // once before any a second time.
  std::vector<int> order;
  size_t physical = 0;  // how many of the first are on different physical cores
  size_t nodes = 1;     // memory nodes that they belong to
  // How many may be busy at once, at least 1: fewer than all if a control group has a quota, as
  // docker --cpus sets.
  size_t busy = 1;
};

// Those of this process' affinity. `root`: where Linux describes itself.
Cores UsableCores(const std::string& root = "");

// How many shards a server of its own has use for: a thread for each core that may be busy, but one
// core serves the server's other threads, and a few threads use up a node's memory.
int ShardsFor(const Cores& cores);

// The calling thread runs on that core alone from now on. False: the system does not allow it.
bool StayOnCore(int core);

// While it lives, the calling thread may run on all of these cores; none: nothing changes. Threads
// that it starts meanwhile may do so for good: they inherit where their maker may run.
class OnAnyCore {
 public:
  explicit OnAnyCore(const std::vector<int>& cores);
  ~OnAnyCore();
  OnAnyCore(const OnAnyCore&) = delete;
  OnAnyCore& operator=(const OnAnyCore&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace psgd
