// ps-doctor: shows this machine's resources for training, and which of them psgd can use.

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "apps/command_line.h"
#include "apps/doctor/gpus.h"
#include "apps/doctor/gpus_text.h"
#include "apps/doctor/host.h"
#include "apps/doctor/nvml.h"
#include "apps/program_mains.h"
#include "common/loaded_library.h"
#include "engine/runtime/plugin.h"

namespace psgd {
namespace {

constexpr char kExamples[] = R"(Examples:
  ps-doctor               # processors, memory, engines, GPUs, and how fast those reach each other
  ps-doctor --quick       # without measuring
)";

void Say(const std::string& what, const std::string& value) {
  std::fputs(Line(what, value).c_str(), stdout);
}

void PrintHost(const Host& host) {
  Say("processor", absl::StrCat(host.processor.empty() ? "unknown" : host.processor, ", ",
                                host.cores, host.cores == 1 ? " core" : " cores", " to use"));
  Say("memory", absl::StrCat(GibibytesText(host.memory_bytes), ", ",
                             GibibytesText(host.available_bytes), " available"));
  for (const NumaNode& node : host.nodes) {
    Say(absl::StrCat("NUMA node ", node.index),
        absl::StrCat("cores ", node.cpus.empty() ? "none" : node.cpus, ", ",
                     GibibytesText(node.memory_bytes)));
  }
}

// Formats 91900 as "9.19.0", the scheme of cuDNN since version 9.
std::string CudnnVersion() {
  auto library = LoadedLibrary::Load("libcudnn.so.9", "training on GPUs needs cuDNN 9");
  if (!library.ok()) return std::string(library.status().message());
  size_t (*get)() = nullptr;
  library->Find("cudnnGetVersion", &get);
  const size_t version = get == nullptr ? 0 : get();
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

void PrintEngines() {
  for (const char* engine : {"onednn", "cudnn"}) {
    const absl::Status status = LoadBackend(engine, "", {}).status();
    Say("engine",
        absl::StrCat(engine, ": ", status.ok() ? "ready" : std::string(status.message())));
  }
}

void PrintVersions(const Gpus& gpus) {
  if (!BuiltWithCuda()) return;
  Say("CUDA",
      absl::StrCat("runtime ", CudaVersionText(gpus.runtime_version), ", ",
                   gpus.driver_version > 0
                       ? absl::StrCat("driver for up to ", CudaVersionText(gpus.driver_version))
                       : std::string("no driver")));
  Say("cuDNN", CudnnVersion());
}

void Run(bool measure) {
  PrintHost(DescribeHost());
  PrintEngines();
  Gpus gpus;
  const absl::Status found = DescribeGpus(measure, &gpus);
  PrintVersions(gpus);
  std::vector<std::string> pci;
  for (const Gpu& gpu : gpus.devices) pci.push_back(gpu.pci);
  const auto topology = pci.empty() ? Topology() : ReadTopology(pci);
  std::fputs(GpusText(gpus, found, topology).c_str(), stdout);
  Say("network",
      "not measured, as that takes two machines: iperf3 -s on the other, iperf3 -c HOST here; "
      "ps-bench push-pull measures what this one does alone");
}

}  // namespace
}  // namespace psgd

int ps_doctor_main(int argc, char** argv) {
  using namespace psgd;
  bool quick = false;
  CLI::App app(std::string(kExamples) +
                   "\nSays what this machine has to train with: processors and their NUMA nodes, "
                   "memory, which engines load, GPUs with their driver, CUDA and cuDNN, and how "
                   "fast memory is copied between them. A GPU that is used by others is measured "
                   "with them.",
               "ps-doctor");
  app.add_flag("--quick", quick, "Does not measure how fast memory is copied");
  if (const auto code = ParseCommandLine(app, argc, argv)) return *code;
  Run(!quick);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return kExitOk;
  return Fail("ps-doctor", absl::DataLossError("standard output could not be written"));
}
