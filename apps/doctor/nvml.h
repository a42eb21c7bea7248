// Reads data from NVIDIA's management library that the CUDA runtime lacks. The library comes with
// the driver and is loaded on demand.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

struct GpuBus {
  int pcie_generation = 0, pcie_lanes = 0;  // the current values; 0: unknown
  int nvlinks = 0;                          // active links
};

struct Topology {
  std::string driver;                           // such as 580.65.06
  std::vector<GpuBus> buses;                    // by GPU
  std::vector<std::vector<std::string>> paths;  // by pair: the closest component that both share
};

// Reads the topology of the GPUs at these PCI addresses.
absl::StatusOr<Topology> ReadTopology(const std::vector<std::string>& pci);

}  // namespace psgd
