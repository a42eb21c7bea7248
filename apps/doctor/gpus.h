// What the CUDA driver reports about the host's GPUs, and the speed between them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

struct Gpu {
  std::string name;
  std::string pci;           // such as 0000:1b:00.0
  int major = 0, minor = 0;  // compute capability
  int64_t memory_bytes = 0, free_bytes = 0;
  int multiprocessors = 0;
  int numa_node = -1;  // -1: unknown
};

// The link from one GPU to another.
struct GpuLink {
  bool peer = false;  // a GPU can access the other's memory directly
  double gbps = 0;    // measured speed of a copy; 0: not measured
};

struct Gpus {
  int runtime_version = 0;  // such as 13000
  int driver_version = 0;   // the newest CUDA version that the driver supports; 0: no driver
  std::vector<Gpu> devices;
  // By GPU: speed from and to pinned host memory, and links to each GPU. Empty: not measured.
  std::vector<double> from_host, to_host;
  std::vector<std::vector<GpuLink>> links;
};

// Whether this program was built with CUDA.
bool BuiltWithCuda();

// Describes the GPUs. The error says why no GPU can be used; `found` has the versions even then.
absl::Status DescribeGpus(bool measure, Gpus* found);

// Writes 13000 as "13.0".
std::string CudaVersionText(int version);

}  // namespace psgd
