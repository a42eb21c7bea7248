#include "bench/process_usage.h"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace psgd {

ProcessUsage ProcessUsage::operator-(const ProcessUsage& other) const {
  return {cpu_seconds - other.cpu_seconds, kernel_seconds - other.kernel_seconds,
          switches - other.switches, faults - other.faults};
}

ProcessUsage UsageOf(pid_t pid) {
  ProcessUsage usage;
  clockid_t clock;
  timespec used{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return usage;
  usage.cpu_seconds = static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
  const std::string folder = absl::StrCat("/proc/", pid);
  std::ifstream stat(folder + "/stat");
  std::string word;
  for (int field = 1; field <= 15 && stat >> word; ++field) {
    if (field == 10) usage.faults = std::stod(word);
    if (field == 15) {
      usage.kernel_seconds = std::stod(word) / static_cast<double>(::sysconf(_SC_CLK_TCK));
    }
  }
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(folder + "/task", error)) {
    std::ifstream status(thread.path() / "status");
    while (status >> word) {
      double count = 0;
      if (word.ends_with("ctxt_switches:") && status >> count) usage.switches += count;
    }
  }
  return usage;
}

}  // namespace psgd
