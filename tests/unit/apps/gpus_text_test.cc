// What ps-doctor prints of GPUs that no machine of ours has.
#include "apps/doctor/gpus_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;

Gpus TwoGpus(bool measured) {
  Gpus gpus;
  gpus.runtime_version = gpus.driver_version = 13000;
  const int64_t gib = int64_t{1} << 30;
  gpus.devices = {{"NVIDIA H200", "0000:1b:00.0", 9, 0, 141 * gib, 139 * gib + gib / 2, 132, 0},
                  {"NVIDIA H200", "0000:9d:00.0", 9, 0, 141 * gib, 0, 132, -1}};
  gpus.links = {{{true, 0}, {true, 370.25}}, {{false, 24.5}, {true, 0}}};
  if (measured) {
    gpus.from_host = {55.5, 54.0};
    gpus.to_host = {56.0, 9.0};
  }
  return gpus;
}

Topology TwoBuses() {
  return {.driver = "580.65.06",
          .buses = {{5, 16, 18}, {0, 0, 1}},
          .paths = {{"", "NVLink"}, {"NVLink", ""}}};
}

TEST(GpusText, SaysWhatTheLackOfGpusMeans) {
  const std::string text =
      GpusText({}, absl::UnavailableError("no NVIDIA driver is installed"), Topology());
  EXPECT_THAT(
      text,
      HasSubstr("GPUs         no CUDA device (no NVIDIA driver is installed): training runs"));
  EXPECT_THAT(text, HasSubstr("ps-worker --cpu"));
}

TEST(GpusText, TellsOfEachGpuItsBusAndTheMatrix) {
  EXPECT_EQ(GpusText(TwoGpus(true), absl::OkStatus(), TwoBuses()),
            "driver       580.65.06\n"
            "GPU 0        NVIDIA H200, compute capability 9.0, 132 multiprocessors, 141.0 GiB, "
            "139.5 GiB free, "
            "PCI 0000:1b:00.0, NUMA node 0, PCIe 5 x16, 18 NVLinks\n"
            "GPU 1        NVIDIA H200, compute capability 9.0, 132 multiprocessors, 141.0 GiB, 0.0 "
            "GiB free, "
            "PCI 0000:9d:00.0, 1 NVLink\n"
            "path         GPU 0 - GPU 1: NVLink\n"
            "\n"
            "GB/s          from host    to host       to 0       to 1\n"
            "GPU 0              55.5       56.0          -      370.2\n"
            "GPU 1              54.0        9.0      24.5*          -\n"
            "* through the host: no peer access\n");
}

TEST(GpusText, WithoutMeasuringSaysWhoReachesWhom) {
  const std::string text = GpusText(TwoGpus(false), absl::OkStatus(), TwoBuses());
  EXPECT_THAT(text, HasSubstr("\npeer access        to 0       to 1\n"
                              "GPU 0                 -        yes\n"
                              "GPU 1                no          -\n"));
  EXPECT_THAT(text, Not(HasSubstr("through the host")));
  Gpus one = TwoGpus(false);
  one.devices.resize(1);
  EXPECT_THAT(GpusText(one, absl::OkStatus(), TwoBuses()), Not(HasSubstr("peer access")));
}

TEST(GpusText, SaysWhyItKnowsNoMore) {
  const std::string without =
      GpusText(TwoGpus(false), absl::OkStatus(), absl::NotFoundError("no libnvidia-ml"));
  EXPECT_THAT(without, HasSubstr("NVML         no libnvidia-ml\n"));
  EXPECT_THAT(without, Not(HasSubstr("NVLink")));
  Gpus stopped = TwoGpus(true);
  stopped.links.clear();  // as far as it came
  const std::string text =
      GpusText(stopped, absl::InternalError("cudaMalloc: out of memory"), TwoBuses());
  EXPECT_THAT(text, HasSubstr("measuring    stopped: cudaMalloc: out of memory\n"));
  EXPECT_THAT(text, HasSubstr("GPU 1        NVIDIA H200"));
}

}  // namespace
}  // namespace psgd
