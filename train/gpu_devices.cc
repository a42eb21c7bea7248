#include "train/gpu_devices.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#ifdef PSGD_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace psgd {
namespace {
constexpr int kMostDevices = 1024;
}  // namespace

absl::StatusOr<std::vector<int>> ParseDeviceList(absl::string_view text) {
  std::vector<int> devices;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(item, '-');
    int first = 0, last = 0;
    const bool good = ends.size() <= 2 && absl::SimpleAtoi(ends.front(), &first) &&
                      absl::SimpleAtoi(ends.back(), &last) && first >= 0 && first <= last &&
                      last < kMostDevices;
    if (!good) {
      return InvalidArgumentError("\"", text,
                                  "\" is not a list of devices; write 0, 0-7 or 0,2,4-6");
    }
    for (int device = first; device <= last; ++device) devices.push_back(device);
  }
  return devices;
}

#ifdef PSGD_HAVE_CUDA
absl::StatusOr<std::vector<GpuDevice>> ListGpus() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    return UnavailableError(
        "no CUDA device can be used on this host (",
        error == cudaSuccess ? "none found" : cudaGetErrorString(error),
        "); check nvidia-smi and the driver, or train on the processor (ps-worker --cpu)");
  }
  std::vector<GpuDevice> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, i); error != cudaSuccess) {
      return UnavailableError("CUDA device ", i, " does not answer: ", cudaGetErrorString(error));
    }
    devices.push_back({i, properties.name});
  }
  return devices;
}
#else
absl::StatusOr<std::vector<GpuDevice>> ListGpus() {
  return absl::UnavailableError(
      "no CUDA device can be used: this psgd was built without CUDA (PSGD_CUDA); build it where "
      "the CUDA toolkit is installed, or train on the processor (ps-worker --cpu)");
}
#endif

absl::StatusOr<std::vector<GpuDevice>> ChooseGpus(absl::string_view list) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<int> wanted, ParseDeviceList(list));
  PSGD_ASSIGN_OR_RETURN(const std::vector<GpuDevice> found, ListGpus());
  std::vector<GpuDevice> chosen;
  for (int device : wanted) {
    if (device >= static_cast<int>(found.size())) {
      return NotFoundError("--gpu ", list, " asks for device ", device, ", but this host has ",
                           found.size(), "; nvidia-smi lists them");
    }
    chosen.push_back(found[device]);
  }
  return chosen;
}

}  // namespace psgd
