// ps-doctor: what this machine has to train with, and what of it psgd can use.
#include <dlfcn.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "apps/command_line.h"
#include "apps/doctor/gpus.h"
#include "apps/doctor/host.h"
#include "apps/doctor/nvml.h"
#include "engine/plugin.h"

namespace psgd {
namespace {

constexpr char kExamples[] = R"(Examples:
  ps-doctor               # processors, memory, engines, GPUs, and how fast they reach each other
  ps-doctor --quick       # without measuring
)";

std::string Gibibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

void Say(const std::string& what, const std::string& value) {
  std::printf("%-12s %s\n", what.c_str(), value.c_str());
}

void PrintHost(const Host& host) {
  Say("processor", absl::StrCat(host.processor.empty() ? "unknown" : host.processor, ", ",
                                host.cores, host.cores == 1 ? " core" : " cores", " to use"));
  Say("memory", absl::StrCat(Gibibytes(host.memory_bytes), ", ", Gibibytes(host.available_bytes),
                             " available"));
  for (const NumaNode& node : host.nodes) {
    Say(absl::StrCat("NUMA node ", node.index),
        absl::StrCat("cores ", node.cpus.empty() ? "none" : node.cpus, ", ",
                     Gibibytes(node.memory_bytes)));
  }
}

// "9.19.0" of 91900: cuDNN counts so since version 9.
std::string CudnnVersion() {
  void* library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::StrCat("not found: ", dlerror());
  const auto get = reinterpret_cast<size_t (*)()>(dlsym(library, "cudnnGetVersion"));
  const size_t version = get == nullptr ? 0 : get();
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

void PrintEngines() {
  for (const char* engine : {"onednn", "cudnn"}) {
    const absl::Status status = LoadBackend(engine, "", {}).status();
    Say("engine", absl::StrCat(engine, ": ",
                               status.ok() ? "ready" : std::string(status.message())));
  }
}

void PrintVersions(const Gpus& gpus) {
  if (!BuiltWithCuda()) return;
  Say("CUDA", absl::StrCat("runtime ", CudaVersionText(gpus.runtime_version), ", ",
                           gpus.driver_version > 0
                               ? absl::StrCat("driver for up to ", CudaVersionText(gpus.driver_version))
                               : std::string("no driver")));
  Say("cuDNN", CudnnVersion());
}

void PrintGpu(size_t index, const Gpu& gpu, const Topology& topology) {
  std::string text =
      absl::StrCat(gpu.name, ", compute capability ", gpu.major, ".", gpu.minor, ", ",
                   gpu.multiprocessors, " multiprocessors, ", Gibibytes(gpu.memory_bytes), ", ",
                   Gibibytes(gpu.free_bytes), " free, PCI ", gpu.pci);
  if (gpu.numa_node >= 0) absl::StrAppend(&text, ", NUMA node ", gpu.numa_node);
  if (index < topology.buses.size()) {
    const GpuBus& bus = topology.buses[index];
    if (bus.pcie_generation > 0) {
      absl::StrAppend(&text, ", PCIe ", bus.pcie_generation, " x", bus.pcie_lanes);
    }
    absl::StrAppend(&text, ", ", bus.nvlinks, " NVLinks");
  }
  Say(absl::StrCat("GPU ", index), text);
}

// A row a GPU: what the host gives and takes, then what goes to each GPU.
void PrintLinks(const Gpus& gpus) {
  const size_t count = gpus.devices.size();
  const bool measured = gpus.from_host.size() == count;
  if (count < 2 && !measured) return;
  std::printf("\n%-12s", measured ? "GB/s" : "peer access");
  if (measured) std::printf(" %10s %10s", "from host", "to host");
  for (size_t to = 0; to < count; ++to) std::printf(" %10s", absl::StrCat("to ", to).c_str());
  std::printf("\n");
  for (size_t from = 0; from < count; ++from) {
    std::printf("%-12s", absl::StrCat("GPU ", from).c_str());
    if (measured) std::printf(" %10.1f %10.1f", gpus.from_host[from], gpus.to_host[from]);
    for (size_t to = 0; to < count; ++to) {
      const GpuLink& link = gpus.links[from][to];
      std::string text = link.peer ? "yes" : "no";
      if (measured) {
        char number[32];
        std::snprintf(number, sizeof number, "%.1f%s", link.gbps, link.peer ? "" : "*");
        text = number;
      }
      std::printf(" %10s", from == to ? "-" : text.c_str());
    }
    std::printf("\n");
  }
  if (measured && count > 1) std::printf("* through the host: no peer access\n");
}

void PrintPaths(const Topology& topology) {
  for (size_t from = 0; from < topology.paths.size(); ++from) {
    for (size_t to = from + 1; to < topology.paths.size(); ++to) {
      const std::string& path = topology.paths[from][to];
      if (!path.empty()) Say("path", absl::StrCat("GPU ", from, " - GPU ", to, ": ", path));
    }
  }
}

void Run(bool measure) {
  PrintHost(DescribeHost());
  PrintEngines();
  Gpus gpus;
  const absl::Status found = DescribeGpus(measure, &gpus);
  PrintVersions(gpus);
  if (gpus.devices.empty()) {
    Say("GPUs", absl::StrCat("no CUDA device (", std::string(found.message()),
                             "): training runs on the processor, with ps-worker --cpu and ps-run; "
                             "for a GPU install NVIDIA's driver, and check nvidia-smi"));
    return;
  }
  std::vector<std::string> pci;
  for (const Gpu& gpu : gpus.devices) pci.push_back(gpu.pci);
  const absl::StatusOr<Topology> read = ReadTopology(pci);
  const Topology topology = read.value_or(Topology());
  if (read.ok()) {
    Say("driver", topology.driver);
  } else {
    Say("NVML", std::string(read.status().message()));
  }
  for (size_t i = 0; i < gpus.devices.size(); ++i) PrintGpu(i, gpus.devices[i], topology);
  PrintPaths(topology);
  if (found.ok()) PrintLinks(gpus);
  if (!found.ok()) Say("measuring", absl::StrCat("stopped: ", std::string(found.message())));
}

}  // namespace
}  // namespace psgd

int main(int argc, char** argv) {
  using namespace psgd;
  bool quick = false;
  CLI::App app(
      std::string(kExamples) +
          "\nSays what this machine has to train with: processors and their NUMA nodes, memory, which "
          "engines load, GPUs with their driver, CUDA and cuDNN, and how fast memory is copied between "
          "them. A GPU that is used by others is measured with them.",
      "ps-doctor");
  app.add_flag("--quick", quick, "Does not measure how fast memory is copied");
  if (const auto code = ParseCommandLine(app, argc, argv)) return *code;
  Run(!quick);
  return kExitOk;
}
