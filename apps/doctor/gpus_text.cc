#include "apps/doctor/gpus_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace psgd {
namespace {

std::string GpuText(size_t index, const Gpu& gpu, const Topology& topology) {
  std::string text =
      absl::StrCat(gpu.name, ", compute capability ", gpu.major, ".", gpu.minor, ", ",
                   gpu.multiprocessors, " multiprocessors, ", GibibytesText(gpu.memory_bytes), ", ",
                   GibibytesText(gpu.free_bytes), " free, PCI ", gpu.pci);
  if (gpu.numa_node >= 0) absl::StrAppend(&text, ", NUMA node ", gpu.numa_node);
  if (index < topology.buses.size()) {
    const GpuBus& bus = topology.buses[index];
    if (bus.pcie_generation > 0) {
      absl::StrAppend(&text, ", PCIe ", bus.pcie_generation, " x", bus.pcie_lanes);
    }
    absl::StrAppend(&text, ", ", bus.nvlinks, bus.nvlinks == 1 ? " NVLink" : " NVLinks");
  }
  return Line(absl::StrCat("GPU ", index), text);
}

std::string PathsText(const Topology& topology) {
  std::string text;
  for (size_t from = 0; from < topology.paths.size(); ++from) {
    for (size_t to = from + 1; to < topology.paths[from].size(); ++to) {
      const std::string& path = topology.paths[from][to];
      if (path.empty()) continue;
      text += Line("path", absl::StrCat("GPU ", from, " - GPU ", to, ": ", path));
    }
  }
  return text;
}

std::string LinkText(const GpuLink& link, bool measured) {
  if (!measured) return link.peer ? "yes" : "no";
  return absl::StrFormat("%.1f%s", link.gbps, link.peer ? "" : "*");
}

// One row per GPU: speed from and to the host, then speed to each GPU.
std::string LinksText(const Gpus& gpus) {
  const size_t count = gpus.devices.size();
  const bool measured = gpus.from_host.size() == count;
  if (count < 2 && !measured) return "";
  std::string text = absl::StrFormat("\n%-12s", measured ? "GB/s" : "peer access");
  if (measured) absl::StrAppendFormat(&text, " %10s %10s", "from host", "to host");
  for (size_t to = 0; to < count; ++to) {
    absl::StrAppendFormat(&text, " %10s", absl::StrCat("to ", to));
  }
  text += "\n";
  for (size_t from = 0; from < count; ++from) {
    absl::StrAppendFormat(&text, "%-12s", absl::StrCat("GPU ", from));
    if (measured) {
      absl::StrAppendFormat(&text, " %10.1f %10.1f", gpus.from_host[from], gpus.to_host[from]);
    }
    for (size_t to = 0; to < count; ++to) {
      absl::StrAppendFormat(&text, " %10s",
                            from == to ? "-" : LinkText(gpus.links[from][to], measured));
    }
    text += "\n";
  }
  if (measured && count > 1) text += "* through the host: no peer access\n";
  return text;
}

}  // namespace

std::string Line(const std::string& what, const std::string& value) {
  return absl::StrFormat("%-12s %s\n", what, value);
}

std::string GibibytesText(int64_t bytes) {
  return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string GpusText(const Gpus& gpus, const absl::Status& found,
                     const absl::StatusOr<Topology>& topology) {
  if (gpus.devices.empty()) {
    return Line("GPUs", absl::StrCat("no CUDA device (", found.message(),
                                     "): training runs on the processor, with ps-worker --cpu and "
                                     "ps-run; for a GPU install NVIDIA's driver, and check "
                                     "nvidia-smi"));
  }
  const Topology known = topology.ok() ? *topology : Topology();
  std::string text = topology.ok() ? Line("driver", topology->driver)
                                   : Line("NVML", std::string(topology.status().message()));
  for (size_t i = 0; i < gpus.devices.size(); ++i) text += GpuText(i, gpus.devices[i], known);
  text += PathsText(known);
  return text + (found.ok() ? LinksText(gpus)
                            : Line("measuring", absl::StrCat("stopped: ", found.message())));
}

}  // namespace psgd
