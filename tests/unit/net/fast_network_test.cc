#include "net/auto/fast_network.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace psgd {
namespace {

struct Adapter {
  std::string type;   // "1: CA": InfiniBand or RoCE
  std::string state;  // of its port
};

bool IsFastWith(const std::vector<Adapter>& adapters) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "fast_network_test";
  std::filesystem::remove_all(folder);
  for (size_t i = 0; i < adapters.size(); ++i) {
    const auto adapter = folder / ("mlx5_" + std::to_string(i));
    std::filesystem::create_directories(adapter / "ports" / "1");
    std::ofstream(adapter / "node_type") << adapters[i].type << "\n";
    std::ofstream(adapter / "ports" / "1" / "state") << adapters[i].state << "\n";
  }
  return HasFastNetwork(folder.string());
}

TEST(FastNetwork, IsAnAdapterOfInfiniBandOrRoceWhosePortIsUp) {
  EXPECT_TRUE(IsFastWith({{"1: CA", "4: ACTIVE"}}));
  EXPECT_TRUE(IsFastWith({{"1: CA", "1: DOWN"}, {"1: CA", "4: ACTIVE"}}));
  EXPECT_FALSE(IsFastWith({{"1: CA", "1: DOWN"}, {"1: CA", "2: INIT"}}));
  EXPECT_FALSE(IsFastWith({{"1: CA", "5: ACTIVE_DEFER"}}));
  EXPECT_FALSE(IsFastWith({{"4: RNIC", "4: ACTIVE"}})) << "iWARP";
  EXPECT_FALSE(IsFastWith({{"7: unspecified", "4: ACTIVE"}})) << "EFA";
  EXPECT_FALSE(IsFastWith({}));
}

}  // namespace
}  // namespace psgd
