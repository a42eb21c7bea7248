#include "net/auto/fast_network.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace psgd {
namespace {

struct Port {
  std::string state, layer;
};

// Lists one adapter for each port.
bool WithPorts(const std::vector<Port>& ports) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "fast_network_test";
  std::filesystem::remove_all(folder);
  for (size_t i = 0; i < ports.size(); ++i) {
    const auto port = folder / ("mlx5_" + std::to_string(i)) / "ports" / "1";
    std::filesystem::create_directories(port);
    std::ofstream(port / "state") << ports[i].state << "\n";
    std::ofstream(port / "link_layer") << ports[i].layer << "\n";
  }
  return HasFastNetwork(folder.string());
}

TEST(FastNetwork, IsAnAdapterOfInfiniBandOrRoceWhosePortIsUp) {
  EXPECT_TRUE(WithPorts({{"4: ACTIVE", "InfiniBand"}}));
  EXPECT_TRUE(WithPorts({{"1: DOWN", "InfiniBand"}, {"4: ACTIVE", "Ethernet"}}));
  EXPECT_FALSE(WithPorts({{"1: DOWN", "InfiniBand"}, {"2: INIT", "Ethernet"}}));
  EXPECT_FALSE(WithPorts({{"4: ACTIVE", "Unspecified"}})) << "UCX does not speak EFA";
  EXPECT_FALSE(WithPorts({}));
}

}  // namespace
}  // namespace psgd
