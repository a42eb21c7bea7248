// What the CUDA driver says of the GPUs of this host, and how fast they reach each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

struct Gpu {
  std::string name;
  std::string pci;           // as 0000:1b:00.0
  int major = 0, minor = 0;  // compute capability
  int64_t memory_bytes = 0, free_bytes = 0;
  int multiprocessors = 0;
  int numa_node = -1;  // -1: unknown
};

// From one GPU to another.
struct GpuLink {
  bool peer = false;  // reads and writes the other's memory itself
  double gbps = 0;    // copying, measured; 0 without
};

struct Gpus {
  int runtime_version = 0;  // as 13000
  int driver_version = 0;   // the newest CUDA that the driver knows; 0 without one
  std::vector<Gpu> devices;
  // By GPU: from and to pinned memory of the host, and to each GPU; empty if not measured.
  std::vector<double> from_host, to_host;
  std::vector<std::vector<GpuLink>> links;
};

// Whether this program was built with CUDA.
bool BuiltWithCuda();

// An error says why no GPU can be used; the versions are those of `found` also then.
absl::Status DescribeGpus(bool measure, Gpus* found);

// "13.0" of 13000.
std::string CudaVersionText(int version);

}  // namespace psgd
