// What the host's kernel reports about CPUs and memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace psgd {

struct NumaNode {
  int index = 0;
  std::string cpus;  // such as "0-15,32-47"
  int64_t memory_bytes = 0;
};

struct Host {
  std::string processor;  // the CPU's name; empty: unknown
  int cores = 0;          // cores that this process may use
  int64_t memory_bytes = 0, available_bytes = 0;
  std::vector<NumaNode> nodes;  // empty: the kernel lists none
};

Host DescribeHost();

}  // namespace psgd
