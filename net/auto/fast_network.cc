#include "net/auto/fast_network.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"

namespace psgd {
namespace {

std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

bool HasFastNetwork(const std::string& devices) {
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator(devices, none)) {
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", none)) {
      const bool up = absl::StrContains(FirstLine(port.path() / "state"), "ACTIVE");
      // Adapters of another kind (EFA for one) speak protocols that UCX lacks.
      const std::string layer = FirstLine(port.path() / "link_layer");
      if (up && (layer == "InfiniBand" || layer == "Ethernet")) return true;
    }
  }
  return false;
}

}  // namespace psgd
