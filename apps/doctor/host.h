// What the host's kernel says of its processors and memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace psgd {

struct NumaNode {
  int index = 0;
  std::string cpus;  // as "0-15,32-47"
  int64_t memory_bytes = 0;
};

struct Host {
  std::string processor;  // as it names itself; empty where it does not
  int cores = 0;          // that this process may use
  int64_t memory_bytes = 0, available_bytes = 0;
  std::vector<NumaNode> nodes;  // empty where the kernel lists none
};

Host DescribeHost();

}  // namespace psgd
