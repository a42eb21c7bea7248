// What NVIDIA's management library knows beyond the CUDA runtime. It comes with the driver and is
// loaded when asked for.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

struct GpuBus {
  int pcie_generation = 0, pcie_lanes = 0;  // as they run now; 0: unknown
  int nvlinks = 0;                          // that are up
};

struct Topology {
  std::string driver;                           // as 580.65.06
  std::vector<GpuBus> buses;                    // by GPU
  std::vector<std::vector<std::string>> paths;  // by pair, the closest thing that they share
};

// Of the GPUs at these PCI addresses.
absl::StatusOr<Topology> ReadTopology(const std::vector<std::string>& pci);

}  // namespace psgd
