#include "apps/doctor/nvml.h"

#include <optional>

#include "common/loaded_library.h"

namespace psgd {
namespace {

// The functions in use, as nvml.h declares them; 0 is success.
using NvmlDevice = struct nvmlDevice_st*;
using Init = int (*)();
using SystemText = int (*)(char* text, unsigned length);
using HandleByPci = int (*)(const char* pci, NvmlDevice* device);
using GetNumber = int (*)(NvmlDevice device, unsigned* value);
using GetLinkState = int (*)(NvmlDevice device, unsigned link, int* active);
using GetAncestor = int (*)(NvmlDevice a, NvmlDevice b, int* level);

constexpr unsigned kMostLinks = 18;

// The loaded library.
class Nvml {
 public:
  ~Nvml() {
    if (!library_) return;
    if (const auto shutdown = Find<Init>("nvmlShutdown")) shutdown();
  }

  absl::Status Open() {
    PSGD_ASSIGN_OR_RETURN(library_,
                          LoadedLibrary::Load("libnvidia-ml.so.1", "NVIDIA's driver brings it"));
    const auto init = Find<Init>("nvmlInit_v2");
    if (init == nullptr || init() != 0) return absl::UnavailableError("nvmlInit_v2 failed");
    return absl::OkStatus();
  }

  // Null: this version lacks the function.
  template <typename Function>
  Function Find(const char* name) {
    Function function = nullptr;
    library_->Find(name, &function);
    return function;
  }

 private:
  std::optional<LoadedLibrary> library_;
};

GpuBus BusOf(Nvml& nvml, NvmlDevice device) {
  GpuBus bus;
  const auto number = [&](const char* name) {
    const auto get = nvml.Find<GetNumber>(name);
    unsigned value = 0;
    return get != nullptr && get(device, &value) == 0 ? static_cast<int>(value) : 0;
  };
  bus.pcie_generation = number("nvmlDeviceGetCurrPcieLinkGeneration");
  bus.pcie_lanes = number("nvmlDeviceGetCurrPcieLinkWidth");
  const auto state = nvml.Find<GetLinkState>("nvmlDeviceGetNvLinkState");
  for (unsigned link = 0; state != nullptr && link < kMostLinks; ++link) {
    int active = 0;
    bus.nvlinks += state(device, link, &active) == 0 && active != 0;
  }
  return bus;
}

// Names the levels of nvmlGpuTopologyLevel_t, which are multiples of 10.
std::string PathText(int level) {
  constexpr const char* kNames[] = {
      "one board",     "one PCIe switch",  "several PCIe switches", "one PCIe host bridge",
      "one NUMA node", "across NUMA nodes"};
  return level >= 0 && level <= 50 && level % 10 == 0 ? kNames[level / 10] : "";
}

}  // namespace

absl::StatusOr<Topology> ReadTopology(const std::vector<std::string>& pci) {
  Nvml nvml;
  PSGD_RETURN_IF_ERROR(nvml.Open());
  Topology topology;
  if (const auto version = nvml.Find<SystemText>("nvmlSystemGetDriverVersion")) {
    char text[96] = "";
    if (version(text, sizeof text) == 0) topology.driver = text;
  }
  const auto find = nvml.Find<HandleByPci>("nvmlDeviceGetHandleByPciBusId_v2");
  if (find == nullptr) return absl::UnavailableError("this NVML is too old");
  std::vector<NvmlDevice> devices;
  for (const std::string& address : pci) {
    NvmlDevice device = nullptr;
    if (find(address.c_str(), &device) != 0) {
      return UnavailableError("NVML does not know the GPU at ", address);
    }
    devices.push_back(device);
    topology.buses.push_back(BusOf(nvml, device));
  }
  const auto ancestor = nvml.Find<GetAncestor>("nvmlDeviceGetTopologyCommonAncestor");
  for (NvmlDevice from : devices) {
    std::vector<std::string>& row = topology.paths.emplace_back();
    for (NvmlDevice to : devices) {
      int level = -1;
      const bool known = ancestor != nullptr && from != to && ancestor(from, to, &level) == 0;
      row.push_back(known ? PathText(level) : "");
    }
  }
  return topology;
}

}  // namespace psgd
