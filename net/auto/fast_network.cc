#include "net/auto/fast_network.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"

namespace psgd {
namespace {

// Whether the first line of the file, as "4: ACTIVE", ends in this word.
bool Says(const std::filesystem::path& path, absl::string_view what) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return absl::EndsWith(line, what);
}

}  // namespace

bool HasFastNetwork(const std::string& devices) {
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator(devices, none)) {
    // UCX does not speak the protocols of adapters of other kinds (iWARP, EFA).
    if (!Says(device.path() / "node_type", ": CA")) continue;
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", none)) {
      if (Says(port.path() / "state", ": ACTIVE")) return true;
    }
  }
  return false;
}

}  // namespace psgd
