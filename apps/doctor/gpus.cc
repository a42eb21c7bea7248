#include "apps/doctor/gpus.h"

#include "absl/strings/str_cat.h"

#ifdef PSGD_HAVE_CUDA
#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>
#endif

namespace psgd {

std::string CudaVersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

#ifdef PSGD_HAVE_CUDA
namespace {

constexpr size_t kBytes = 256 << 20;  // size of a measured copy
constexpr int kRuns = 3;              // the fastest run counts

absl::Status Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", cudaGetErrorString(error)));
}

// Device memory, or pinned host memory; freed with this object.
class Memory {
 public:
  static constexpr int kHost = -1;

  explicit Memory(int device) : device_(device) {}
  ~Memory() {
    if (device_ == kHost) {
      cudaFreeHost(data_);
    } else {
      cudaSetDevice(device_);
      cudaFree(data_);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  absl::Status Allocate() {
    if (device_ == kHost) return Check(cudaMallocHost(&data_, kBytes), "cudaMallocHost");
    cudaSetDevice(device_);
    return Check(cudaMalloc(&data_, kBytes), "cudaMalloc");
  }
  void* data() const { return data_; }
  int device() const { return device_; }

 private:
  const int device_;
  void* data_ = nullptr;
};

// Speed of copies on a stream of `device`, in GB/s.
absl::StatusOr<double> Measure(int device, const Memory& from, const Memory& to) {
  cudaSetDevice(device);
  cudaEvent_t begin, end;
  PSGD_RETURN_IF_ERROR(Check(cudaEventCreate(&begin), "cudaEventCreate"));
  PSGD_RETURN_IF_ERROR(Check(cudaEventCreate(&end), "cudaEventCreate"));
  float best = 0;
  absl::Status status;
  for (int run = 0; run <= kRuns && status.ok(); ++run) {  // the first warms up
    const bool peers = from.device() != Memory::kHost && to.device() != Memory::kHost;
    cudaEventRecord(begin);
    status =
        Check(peers ? cudaMemcpyPeerAsync(to.data(), to.device(), from.data(), from.device(),
                                          kBytes, nullptr)
                    : cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDefault, nullptr),
              "copy");
    cudaEventRecord(end);
    if (status.ok()) status = Check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    if (run > 0 && milliseconds > 0) best = best > 0 ? std::min(best, milliseconds) : milliseconds;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  PSGD_RETURN_IF_ERROR(status);
  return best > 0 ? kBytes / (best * 1e6) : 0.0;
}

absl::Status MeasureHost(int device, Gpus* found) {
  Memory host(Memory::kHost), gpu(device);
  PSGD_RETURN_IF_ERROR(host.Allocate());
  PSGD_RETURN_IF_ERROR(gpu.Allocate());
  PSGD_ASSIGN_OR_RETURN(const double from, Measure(device, host, gpu));
  PSGD_ASSIGN_OR_RETURN(const double to, Measure(device, gpu, host));
  found->from_host.push_back(from);
  found->to_host.push_back(to);
  return absl::OkStatus();
}

absl::StatusOr<GpuLink> Link(int from, int to, bool measure) {
  GpuLink link;
  int peer = 0;
  PSGD_RETURN_IF_ERROR(Check(cudaDeviceCanAccessPeer(&peer, from, to), "cudaDeviceCanAccessPeer"));
  link.peer = peer != 0;
  if (!measure) return link;
  if (link.peer) {
    cudaSetDevice(from);
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(to, 0);
    if (enabled == cudaErrorPeerAccessAlreadyEnabled) cudaGetLastError();  // clears the error
  }
  Memory source(from), target(to);
  PSGD_RETURN_IF_ERROR(source.Allocate());
  PSGD_RETURN_IF_ERROR(target.Allocate());
  PSGD_ASSIGN_OR_RETURN(link.gbps, Measure(from, source, target));
  return link;
}

int NumaNodeOf(const std::string& pci) {
  int node = -1;
  std::ifstream("/sys/bus/pci/devices/" + pci + "/numa_node") >> node;
  return node;
}

absl::StatusOr<Gpu> Describe(int index) {
  cudaDeviceProp properties;
  PSGD_RETURN_IF_ERROR(
      Check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties"));
  char pci[32] = "";
  PSGD_RETURN_IF_ERROR(
      Check(cudaDeviceGetPCIBusId(pci, sizeof pci, index), "cudaDeviceGetPCIBusId"));
  Gpu gpu = {.name = properties.name,
             .pci = pci,
             .major = properties.major,
             .minor = properties.minor,
             .multiprocessors = properties.multiProcessorCount};
  std::transform(gpu.pci.begin(), gpu.pci.end(), gpu.pci.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  gpu.numa_node = NumaNodeOf(gpu.pci);
  cudaSetDevice(index);
  size_t free = 0, total = 0;
  PSGD_RETURN_IF_ERROR(Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  gpu.free_bytes = static_cast<int64_t>(free);
  gpu.memory_bytes = static_cast<int64_t>(total);
  return gpu;
}

}  // namespace

bool BuiltWithCuda() { return true; }

absl::Status DescribeGpus(bool measure, Gpus* found) {
  cudaRuntimeGetVersion(&found->runtime_version);
  cudaDriverGetVersion(&found->driver_version);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (found->driver_version == 0) return absl::UnavailableError("no NVIDIA driver is installed");
  if (error != cudaSuccess) return absl::UnavailableError(cudaGetErrorString(error));
  if (count == 0) return absl::UnavailableError("the driver lists none");
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<Gpu> gpu = Describe(i);
    if (!gpu.ok()) return Annotate(gpu.status(), absl::StrCat("GPU ", i));
    found->devices.push_back(*std::move(gpu));
  }
  found->links.resize(static_cast<size_t>(count));
  for (int from = 0; from < count; ++from) {
    if (measure) PSGD_RETURN_IF_ERROR(MeasureHost(from, found));
    for (int to = 0; to < count; ++to) {
      GpuLink link = {.peer = true};
      if (to != from) {
        PSGD_ASSIGN_OR_RETURN(link, Link(from, to, measure));
      }
      found->links[static_cast<size_t>(from)].push_back(link);
    }
  }
  return absl::OkStatus();
}

#else

bool BuiltWithCuda() { return false; }

absl::Status DescribeGpus(bool, Gpus*) {
  return absl::UnavailableError("this psgd was built without CUDA");
}

#endif

}  // namespace psgd
