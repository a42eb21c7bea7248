#include "net/auto/machine_id.h"

#include <sys/stat.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace psgd {

std::string MachineId() {
  std::string boot = "unknown";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  (void)::stat("/proc/self/ns/net", &network);
  return absl::StrCat(boot, "/", network.st_ino);
}

}  // namespace psgd
